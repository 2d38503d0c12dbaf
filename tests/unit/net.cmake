zlink_unit_test(stream zlink_net)
