set(proto_tests ${PROJECT_SOURCE_DIR}/tests)

zlink_unit_test(frame zlink_frame)
zlink_unit_test(metadata zlink_proto)
zlink_unit_test(wire zlink_proto)
zlink_unit_test(golden_frames zlink_proto)
target_compile_definitions(test_golden_frames PRIVATE ZLINK_TESTS_ROOT="${PROJECT_SOURCE_DIR}")
zlink_unit_test(name_table zlink_proto)

# Two targets with the same .proto, one of them a module.
zlink_unit_test(module_macros ${CMAKE_DL_LIBS})
zlink_proto_messages(test_module_macros PROTO ${proto_tests}/compile_fail/shop.proto
                     ${proto_tests}/compile_fail/order.proto)
zlink_add_module(test_cart SOURCES ${proto_tests}/compile_fail/good.c PROTO ${proto_tests}/compile_fail/shop.proto)
add_dependencies(test_module_macros test_cart)
target_compile_definitions(test_module_macros PRIVATE ZLINK_TESTS_MODULE="$<TARGET_FILE:test_cart>")
set_target_properties(test_module_macros PROPERTIES ENABLE_EXPORTS ON)

# The macros' types are checked by the compiler: what must not compile does not.
add_test(
  NAME compile_fail
  COMMAND ${CMAKE_COMMAND} -DCOMPILER=${CMAKE_C_COMPILER} -DFOLDER=${proto_tests}/compile_fail
          "-DINCLUDES=$<TARGET_PROPERTY:test_module_macros,INCLUDE_DIRECTORIES>" -P
          ${proto_tests}/compile_fail/compile.cmake)

# A client in another language, written from docs/wire.md; it knows nothing of the C code.
add_test(NAME wire_client COMMAND /usr/bin/python3 ${proto_tests}/wire_client/test_wire_client.py)
set_tests_properties(wire_client PROPERTIES TIMEOUT 120)

# A field that would silently become a callback stops the build with a line that says what to do.
add_test(
  NAME proto_without_limit
  COMMAND ${CMAKE_COMMAND} -DPROTOC=${ZLINK_PROTOC} -DNANOPB=${ZLINK_PROTOC_GEN_NANOPB}
          -DPACKET_NAMES=${PROJECT_SOURCE_DIR}/tools/zlink_packet_names.py -DFOLDER=${proto_tests}/compile_fail
          -DSTEM=no_limit -DOUT=${CMAKE_CURRENT_BINARY_DIR}/no_limit -DKEEP_PACKAGE=FALSE -DALLOW_CALLBACKS=FALSE -P
          ${PROJECT_SOURCE_DIR}/cmake/ZlinkProtoc.cmake)
set_tests_properties(proto_without_limit PROPERTIES PASS_REGULAR_EXPRESSION "field \"text\" has no limit")
