/* test_json.c - JSON is written as it is read, and only JSON is read. */
#include "observe/json.h"

#include "testing/test.h"

static struct ct_json *parse(const char *text)
{
    struct ct_json *j = NULL;

    ASSERT_OK(ct_json_parse(text, strlen(text), "test", &j));
    return j;
}

TEST(json, values_of_every_kind_are_read)
{
    struct ct_json *j = parse(" {\"a\":[1,-2.5e3,true,null],\"b\":{\"c\":"
                              "\"x\\n\\u00e9\\ud83d\\ude00\\\"\"},\"d\":{}} ");
    const struct ct_json *a = ct_json_get(j, "a");

    ASSERT_INT(3, j->n);
    ASSERT_INT(4, a->n);
    ASSERT_FLOAT(-2500, ct_json_number(ct_json_at(a, 1), 0), 0);
    ASSERT_FLOAT(1, ct_json_number(ct_json_at(a, 2), 0), 0);
    ASSERT_INT(CT_JSON_NULL, ct_json_at(a, 3)->kind);
    ASSERT(!ct_json_at(a, 4));
    ASSERT_HAS("x\n\xc3\xa9\xf0\x9f\x98\x80\"",
               ct_json_text(ct_json_get(ct_json_get(j, "b"), "c"), ""));
    ASSERT_FLOAT(7, ct_json_number(ct_json_get(j, "none"), 7), 0);
    ct_json_free(j);
}

TEST(json, what_is_no_json_is_refused)
{
    static const char *const bad[] = {
        "", "{", "[1,", "[1,]", "{\"a\" 1}", "{\"a\":1,}", "nul", "01x",
        "\"a", "\"\\x\"", "\"\\ud800\"", "1 2", "+1", ".5", "{1:2}",
        "\"\x01\"", "[1}", "\"\\u00\""
    };
    char deep[200];
    struct ct_json *j;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (ct_json_parse(bad[i], strlen(bad[i]), "test", &j) != CT_EPARSE)
            FAIL("'%s' was taken for JSON", bad[i]);
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    ASSERT_STATUS(CT_EPARSE, ct_json_parse(deep, 200, "test", &j));
    ASSERT_HAS("too many levels", ct_last_error());
}

TEST(json, what_is_written_is_read_back)
{
    struct ct_text t = { 0 };
    struct ct_json *j;

    ct_text_add(&t, "{");
    ct_json_field_string(&t, "text", "a \"b\"\\\n\x01 \xc3\xa9 \xff");
    ct_json_field_number(&t, "big", 1731739431.125);
    ct_json_field_number(&t, "small", 1.25e-7);
    ct_json_field_number(&t, "nan", (double)NAN);
    ct_json_key(&t, "list");
    ct_text_add(&t, "[");
    for (int i = 0; i < 3; i++) {
        ct_json_comma(&t);
        ct_json_add_number(&t, i);
    }
    ct_text_add(&t, "]}");
    j = parse(t.s);
    ASSERT_HAS("a \"b\"\\\n\x01 \xc3\xa9 ?",
               ct_json_text(ct_json_get(j, "text"), ""));
    ASSERT_FLOAT(1731739431.125, ct_json_number(ct_json_get(j, "big"), 0),
                 1e-3);
    ASSERT_FLOAT(1.25e-7, ct_json_number(ct_json_get(j, "small"), 0), 1e-13);
    ASSERT_INT(CT_JSON_NULL, ct_json_get(j, "nan")->kind);
    ASSERT_INT(3, ct_json_get(j, "list")->n);
    ct_json_free(j);
    ct_text_fini(&t);
}
