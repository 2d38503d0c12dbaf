# What an application module is built against after `cmake --install`: find_package(zlink), then zlink_add_module(...).
#
#   zlink_install_package(zlink)    `zlink` is the shared library, with its include folder for both interfaces
include(CMakePackageConfigHelpers)

set(_zlink_install_folder ${CMAKE_CURRENT_LIST_DIR})

function(zlink_install_package library)
  set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/zlink)
  install(TARGETS ${library} EXPORT zlinkTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/zlink DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          FILES_MATCHING PATTERN "*.h")
  install(EXPORT zlinkTargets NAMESPACE zlink:: DESTINATION ${folder})

  configure_package_config_file(${_zlink_install_folder}/zlinkConfig.cmake.in ${PROJECT_BINARY_DIR}/zlinkConfig.cmake
                                INSTALL_DESTINATION ${folder})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/zlinkConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/zlinkConfig.cmake ${PROJECT_BINARY_DIR}/zlinkConfigVersion.cmake
                ${_zlink_install_folder}/ZlinkModule.cmake ${_zlink_install_folder}/ZlinkProtoc.cmake
          DESTINATION ${folder})
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/tools/zlink_packet_names.py DESTINATION ${folder})
endfunction()
