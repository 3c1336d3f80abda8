/* fuzz_http.c - any bytes as requests to a board, and as JSON. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cortado/log.h"
#include "observe/board.h"
#include "observe/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool act(const char *action, void *arg)
{
    (void)action, (void)arg;
    abort(); /* nobody knows the token */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const folder[] = { "/nowhere" };
    static struct ct_board *board;
    struct ct_board_options o = { .folder = folder, .n_folders = 1,
                                  .act = act };
    struct ct_http_request r;
    struct ct_json *j = NULL;
    int n;

    ct_log_set_level(CT_LOG_NONE);
    if (!board && ct_board_create(&o, &board) != CT_OK)
        abort();
    n = ct_http_parse((const char *)data, size, &r);
    if (n > 0) {
        struct ct_http_answer a = { 200, "", { 0 }, -1 };

        if ((size_t)n > size || r.path[0] != '/' || strstr(r.path, "/.."))
            abort();
        ct_board_answer(&r, &a, board);
        if (a.status == 202)
            abort();
        ct_text_fini(&a.body);
    }
    if (ct_json_parse((const char *)data, size, "input", &j) == CT_OK)
        ct_json_free(j);
    return 0;
}
