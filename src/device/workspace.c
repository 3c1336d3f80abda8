/* workspace.c - grows to what the greediest user needs. */
#include "device/workspace.h"

#include "base/mem.h"

enum ct_status ct_workspace_need(struct ct_workspace *w, size_t bytes)
{
    float *more;

    if (bytes <= w->bytes)
        return CT_OK;
    CT_TRY(ct_alloc(1, bytes, "workspace", &more));
    ct_free(w->ptr);
    w->ptr   = more;
    w->bytes = bytes;
    return CT_OK;
}

void ct_workspace_fini(struct ct_workspace *w)
{
    ct_free(w->ptr);
    *w = (struct ct_workspace){ 0 };
}
