/* agree.c - one order of jobs for all ranks. */
#include "comm/agree.h"

enum { TAG = CT_TAG_END - 2 };

void ct_agree_init(struct ct_agree *a, struct ct_comm *c)
{
    *a = (struct ct_agree){ .comm   = c,
                            .parent = c->rank > 0 ? (c->rank - 1) /
                                                        CT_AGREE_FAN
                                                  : -1 };
    for (int i = 1; i <= CT_AGREE_FAN; i++) {
        int64_t child = (int64_t)c->rank * CT_AGREE_FAN + i;

        if (child < c->size)
            ct_flight_init(&a->child[a->n_children++], c, (int)child, TAG);
    }
}

enum ct_status ct_agree_tell(struct ct_agree *a, uint64_t number)
{
    const int64_t place = (int64_t)(a->n % CT_DEPTH);

    for (int i = 0; i < a->n_children; i++) /* then word[place] is free */
        CT_TRY(ct_flight_wait(&a->child[i], (int64_t)a->n - CT_DEPTH + 1));
    a->word[place] = number;
    for (int i = 0; i < a->n_children; i++)
        CT_TRY(ct_flight_send(&a->child[i], &a->word[place],
                              sizeof(a->word[place])));
    a->n++;
    return CT_OK;
}

enum ct_status ct_agree_hear(struct ct_agree *a, uint64_t *number)
{
    struct ct_request got;

    CT_TRY(ct_comm_receive(a->comm, a->parent, TAG, number, sizeof(*number),
                           &got));
    CT_TRY(ct_comm_wait(a->comm, a->parent, &got));
    return ct_agree_tell(a, *number);
}

enum ct_status ct_agree_end(struct ct_agree *a)
{
    for (int i = 0; i < a->n_children; i++)
        CT_TRY(ct_flight_wait(&a->child[i], (int64_t)a->n));
    return CT_OK;
}
