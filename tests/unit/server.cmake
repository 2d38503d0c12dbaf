zlink_unit_test(config_value zlink_config)
zlink_unit_test(config zlink_config)
target_compile_definitions(test_config PRIVATE ZLINK_EXAMPLE_CONFIG="${PROJECT_SOURCE_DIR}/configs/example.yaml")
zlink_unit_test(certs zlink_ctl mbedx509 mbedcrypto)
