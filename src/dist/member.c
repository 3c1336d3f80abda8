/* member.c - signs of life, and their absence. */
#include "dist/member.h"

#include "base/mem.h"

enum ct_status dist_members_init(struct dist_members *m, int n, double now)
{
    *m = (struct dist_members){ .n = n, .n_alive = n };
    CT_TRY(ct_alloc((size_t)n, sizeof(*m->one), "members", &m->one));
    for (int i = 0; i < n; i++)
        m->one[i].heard = now;
    return CT_OK;
}

void dist_members_fini(struct dist_members *m)
{
    ct_free(m->one);
    *m = (struct dist_members){ 0 };
}

static void suspect(struct dist_members *m, int i)
{
    m->one[i].suspect = true;
    m->n_alive--;
    m->epoch++;
}

void dist_members_heard(struct dist_members *m, int i, double now)
{
    m->one[i].heard = now;
}

bool dist_members_came(struct dist_members *m, int i, double now)
{
    bool back = m->one[i].suspect;

    m->one[i].n_missed_in_row = 0;
    m->one[i].heard           = now;
    m->one[i].suspect         = false;
    m->n_alive += back;
    m->epoch += back;
    return back;
}

bool dist_members_missed(struct dist_members *m, int i)
{
    struct dist_member *one = &m->one[i];

    one->n_missed++;
    if (++one->n_missed_in_row < DIST_MISSES || one->suspect)
        return false;
    suspect(m, i);
    return true;
}

int dist_members_silent(struct dist_members *m, double now, double limit)
{
    int first = -1;

    for (int i = 0; i < m->n && limit > 0; i++)
        if (!m->one[i].suspect && now - m->one[i].heard > limit) {
            suspect(m, i);
            first = first < 0 ? i : first;
        }
    return first;
}
