/*
 * What the public macros make of a module: its tables, its packet names, its descriptor, and a real shared object
 * built by zlink_add_module (compile_fail/good.c), loaded as the node does it.
 */
#include <dlfcn.h>
#include <string.h>

#include <zlink/zlink.h>

#include "harness.h"
#include "order.zlink.h"
#include "shop.zlink.h"

static zlink_status_t on_add(zlink_turn_t *turn, void *self, const AddReq *request, AddRes *reply)
{
    (void)turn;
    (void)self;
    reply->total = request->amount + 1;
    return ZLINK_OK;
}

static zlink_status_t on_note(zlink_turn_t *turn, void *self, const PriceReq *message)
{
    (void)turn;
    (void)self;
    (void)message;
    return ZLINK_REJECTED;
}

static const zlink_handler_t handlers[] = {
    ZLINK_ON_REQUEST(AddReq, AddRes, on_add),
    ZLINK_ON_SEND(PriceReq, on_note),
    ZLINK_HANDLERS_END,
};

static void test_rows_hold_what_was_written(void **state)
{
    typedef zlink_status_t (*request_function_t)(zlink_turn_t *, void *, const AddReq *, AddRes *);
    const AddReq request = {.amount = 41};
    AddRes reply = AddRes_init_zero;

    (void)state;
    assert_int_equal(handlers[0].kind, ZLINK_HANDLER_REQUEST);
    assert_string_equal(handlers[0].request.packet, "tests.shop.AddReq");
    assert_string_equal(handlers[0].reply.packet, "tests.shop.AddRes");
    assert_ptr_equal(handlers[0].request.fields, AddReq_fields);
    assert_int_equal(handlers[0].request.size, sizeof(AddReq));
    assert_int_equal(handlers[0].reply.size, sizeof(AddRes));
    assert_int_equal(((request_function_t)handlers[0].function)(NULL, NULL, &request, &reply), ZLINK_OK);
    assert_int_equal(reply.total, 42);

    assert_int_equal(handlers[1].kind, ZLINK_HANDLER_SEND);
    assert_string_equal(handlers[1].request.packet, "tests.shop.PriceReq");
    assert_null(handlers[1].reply.packet);
    assert_int_equal(handlers[2].kind, ZLINK_HANDLER_END);
}

static void test_asks_and_replies(void **state)
{
    const PriceReq price = PriceReq_init_zero;
    PriceRes answer;
    zlink_ask_t ask = ZLINK_ASK(PriceReq, &price);
    zlink_reply_t reply = ZLINK_REPLY(PriceRes, &answer);

    (void)state;
    assert_string_equal(ask.type.packet, "tests.shop.PriceReq");
    assert_ptr_equal(ask.message, &price);
    assert_int_equal(ask.timeout_ms, 0);
    ask = ZLINK_ASK_WITHIN(PriceReq, &price, 250);
    assert_int_equal(ask.timeout_ms, 250);
    assert_string_equal(reply.type.packet, "tests.shop.PriceRes");
    assert_ptr_equal(reply.message, &answer);
}

static void test_packet_names_of_nested_and_imported_messages(void **state)
{
    Order order = Order_init_zero;

    (void)state;
    assert_string_equal(Order_packet, "tests.order.Order");
    assert_string_equal(Order_Line_packet, "tests.order.Order.Line");
    strcpy(order.gift.what.item, "tea"); /* a struct of the imported file */
    assert_int_equal(sizeof(order.gift.what), sizeof(PriceReq));
}

/* What the node offers to modules: here it only remembers. */
static const zlink_spot_type_t *added_type;
static const zlink_channel_type_t *added_channel;

void zlink_module_add_spot_type(zlink_module_t *module, const zlink_spot_type_t *type)
{
    assert_non_null(module);
    added_type = type;
}

void zlink_module_add_channel(zlink_module_t *module, const zlink_channel_type_t *type)
{
    assert_non_null(module);
    added_channel = type;
}

static void test_a_module_loads_and_registers(void **state)
{
    void *object = dlopen(ZLINK_TESTS_MODULE, RTLD_LAZY | RTLD_LOCAL);
    const zlink_module_descriptor_t *descriptor;
    int module;

    (void)state;
    if (object == NULL) {
        fail_msg("%s", dlerror());
        return;
    }
    descriptor = dlsym(object, ZLINK_MODULE_DESCRIPTOR_SYMBOL);
    assert_non_null(descriptor);
    assert_int_equal(descriptor->magic, ZLINK_MODULE_MAGIC);
    assert_int_equal(descriptor->abi_version, ZLINK_MODULE_ABI_VERSION);
    assert_int_equal(descriptor->pb_layout, ZLINK_MODULE_PB_LAYOUT);
    assert_string_equal(descriptor->name, "cart");

    descriptor->body((zlink_module_t *)&module);
    assert_string_equal(added_type->name, "cart");
    assert_int_equal(added_type->kind, ZLINK_INSTANCE_SPOT);
    assert_string_equal(added_type->handlers[0].request.packet, "tests.shop.AddReq");
    assert_string_equal(added_channel->name, "audit");

    /* Nothing but the descriptor gets out of a module: two modules may use one .proto. */
    assert_null(dlsym(object, "AddReq_msg"));
    assert_null(dlsym(object, "cart_module_body"));
    dlclose(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_hold_what_was_written),
        cmocka_unit_test(test_asks_and_replies),
        cmocka_unit_test(test_packet_names_of_nested_and_imported_messages),
        cmocka_unit_test(test_a_module_loads_and_registers),
    };

    return zlink_test_main(tests);
}
