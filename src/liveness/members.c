/* members.c - keeps track of signs of life. */
#include "liveness/members.h"

#include "base/mem.h"

enum ct_status live_members_init(struct live_members *m, int n, double now)
{
    *m = (struct live_members){ .n = n, .n_alive = n };
    CT_TRY(ct_alloc((size_t)n, sizeof(*m->one), "members", &m->one));
    for (int i = 0; i < n; i++)
        m->one[i].heard = now;
    return CT_OK;
}

void live_members_fini(struct live_members *m)
{
    ct_free(m->one);
    *m = (struct live_members){ 0 };
}

static void suspect(struct live_members *m, int i)
{
    m->one[i].suspect = true;
    m->n_alive--;
    m->epoch++;
}

void live_members_heard(struct live_members *m, int i, double now)
{
    m->one[i].heard = now;
}

bool live_members_came(struct live_members *m, int i, double now)
{
    bool back = m->one[i].suspect;

    m->one[i].n_missed_in_row = 0;
    m->one[i].heard           = now;
    m->one[i].suspect         = false;
    m->n_alive += back;
    m->epoch += back;
    return back;
}

bool live_members_missed(struct live_members *m, int i)
{
    struct live_member *one = &m->one[i];

    one->n_missed++;
    if (++one->n_missed_in_row < LIVE_MISSES || one->suspect)
        return false;
    suspect(m, i);
    return true;
}

int live_members_silent(struct live_members *m, double now, double limit)
{
    int first = -1;

    for (int i = 0; i < m->n && limit > 0; i++)
        if (!m->one[i].suspect && now - m->one[i].heard > limit) {
            suspect(m, i);
            first = first < 0 ? i : first;
        }
    return first;
}

bool live_members_is_suspect(const struct live_members *m, int i)
{
    return m->one[i].suspect;
}

uint64_t live_members_n_missed(const struct live_members *m, int i)
{
    return m->one[i].n_missed;
}
