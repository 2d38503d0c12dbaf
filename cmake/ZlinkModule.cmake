# Building an application module, in this tree and from an installed package (find_package(zlink)):
#
#   zlink_add_module(NAME SOURCES a.c... [PROTO a.proto...] [LIBRARIES lib...])
#       A module NAME.so that zlink-node loads. NAME is a C identifier.
#
#   zlink_proto_messages(TARGET PROTO a.proto...)
#       Gives an existing target the C structs of its messages: #include "a.pb.h" (nanopb) and "a.zlink.h" (packet
#       names; it includes the former). C names are without the package, and so are the names in a.options, the file
#       beside a.proto with the fields' limits ("AddReq.item max_size:32"): a string, bytes or repeated field that
#       has none stops the build. One .proto may serve any number of targets.
#
#   zlink_nanopb_library(NAME a.proto [KEEP_PACKAGE] [ALLOW_CALLBACKS])
#       The static library underneath.
#
# Files that a .proto imports must stand in its own folder, and are built as well.

find_package(nanopb REQUIRED)
# The system's own: the generator works only with the protobuf of the same distribution.
find_program(ZLINK_PROTOC protoc HINTS /usr/bin REQUIRED)
find_program(ZLINK_PROTOC_GEN_NANOPB protoc-gen-nanopb HINTS /usr/bin REQUIRED)

set(_zlink_protoc_script ${CMAKE_CURRENT_LIST_DIR}/ZlinkProtoc.cmake)
if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/zlink_packet_names.py)
  set(_zlink_packet_names ${CMAKE_CURRENT_LIST_DIR}/zlink_packet_names.py) # installed
else()
  set(_zlink_packet_names ${CMAKE_CURRENT_LIST_DIR}/../tools/zlink_packet_names.py)
endif()
get_filename_component(_zlink_packet_names ${_zlink_packet_names} ABSOLUTE)
set_property(GLOBAL PROPERTY _ZLINK_PROTOC_SCRIPT ${_zlink_protoc_script})
set_property(GLOBAL PROPERTY _ZLINK_PACKET_NAMES ${_zlink_packet_names})

# The library of `proto`, made at its first use: answers the target's name in `result`.
function(_zlink_messages_of proto result)
  get_filename_component(path ${proto} ABSOLUTE)
  get_filename_component(stem ${path} NAME_WE)
  string(MD5 hash ${path})
  string(SUBSTRING ${hash} 0 8 hash)
  set(library zlink_messages_${stem}_${hash})
  if(NOT TARGET ${library})
    zlink_nanopb_library(${library} ${path})
  endif()
  set(${result} ${library} PARENT_SCOPE)
endfunction()

function(zlink_nanopb_library name proto)
  cmake_parse_arguments(PARSE_ARGV 2 arg "KEEP_PACKAGE;ALLOW_CALLBACKS" "" "")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "zlink_nanopb_library(${name}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  get_filename_component(path ${proto} ABSOLUTE)
  if(NOT EXISTS ${path})
    message(FATAL_ERROR "zlink_nanopb_library(${name}): ${path} does not exist")
  endif()
  get_filename_component(folder ${path} DIRECTORY)
  get_filename_component(stem ${path} NAME_WE)
  get_property(script GLOBAL PROPERTY _ZLINK_PROTOC_SCRIPT)
  get_property(packet_names GLOBAL PROPERTY _ZLINK_PACKET_NAMES)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${name}.proto)
  set(inputs ${path})
  if(EXISTS ${folder}/${stem}.options)
    list(APPEND inputs ${folder}/${stem}.options)
  endif()
  # A new import or a new .options file changes what is built.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})

  add_custom_command(
    OUTPUT ${out}/${stem}.pb.c ${out}/${stem}.pb.h ${out}/${stem}.zlink.h
    COMMAND ${CMAKE_COMMAND} -DPROTOC=${ZLINK_PROTOC} -DNANOPB=${ZLINK_PROTOC_GEN_NANOPB}
            -DPACKET_NAMES=${packet_names} -DFOLDER=${folder} -DSTEM=${stem} -DOUT=${out}
            -DKEEP_PACKAGE=${arg_KEEP_PACKAGE} -DALLOW_CALLBACKS=${arg_ALLOW_CALLBACKS} -P ${script}
    DEPENDS ${inputs} ${script} ${packet_names}
    COMMENT "Messages of ${stem}.proto"
    VERBATIM)

  add_library(${name} STATIC ${out}/${stem}.pb.c ${out}/${stem}.pb.h ${out}/${stem}.zlink.h)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
  target_include_directories(${name} SYSTEM PUBLIC ${out})
  target_link_libraries(${name} PUBLIC nanopb::protobuf-nanopb-static)
  if(TARGET zlink_compile)
    target_link_libraries(${name} PRIVATE zlink_compile)
  endif()

  file(STRINGS ${path} imports REGEX "^[ \t]*import[ \t]+(public[ \t]+)?\"[^\"]+\"")
  foreach(line IN LISTS imports)
    string(REGEX REPLACE "^[^\"]*\"([^\"]+)\".*$" "\\1" import ${line})
    if(EXISTS ${folder}/${import})
      _zlink_messages_of(${folder}/${import} library)
      target_link_libraries(${name} PUBLIC ${library})
    endif()
  endforeach()
endfunction()

function(zlink_proto_messages target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "PROTO")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_PROTO)
    message(FATAL_ERROR "zlink_proto_messages(${target} PROTO file.proto...)")
  endif()
  foreach(proto IN LISTS arg_PROTO)
    _zlink_messages_of(${proto} library)
    target_link_libraries(${target} PRIVATE ${library})
  endforeach()
endfunction()

function(zlink_add_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PROTO;LIBRARIES")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "zlink_add_module(${name} SOURCES a.c... [PROTO a.proto...] [LIBRARIES lib...])")
  endif()
  add_library(${name} MODULE ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden)
  target_compile_options(${name} PRIVATE -Wall -Wextra)
  if(TARGET zlink_compile)
    target_link_libraries(${name} PRIVATE zlink_compile)
  endif()
  if(arg_PROTO)
    zlink_proto_messages(${name} PROTO ${arg_PROTO})
  endif()
  # zlink_* symbols come from libzlink, which the loading process has; nanopb is the module's own and stays inside.
  if(TARGET zlink::zlink)
    target_link_libraries(${name} PRIVATE zlink::zlink)
  else()
    target_link_libraries(${name} PRIVATE $<TARGET_NAME_IF_EXISTS:zlink>)
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} nanopb::protobuf-nanopb-static)
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL)
endfunction()
