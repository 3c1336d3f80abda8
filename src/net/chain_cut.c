/* chain_cut.c - a batch cut into lanes and groups; see chain.h.
 *
 * With T threads, of whose parts of the batch `left` images are not in a lane
 * yet, each gets a lane of 5/8 of that in whole groups, and so on; then one of
 * half a group, of a quarter, down to `least`.  So a core at 5/8 of the others'
 * speed is done with its first lane when they are done with everything.  For
 * 100 images a thread and groups of 20:
 *
 *     | 60 | 60 | .. | 60 | 20 | .. | 20 | 10 | .. | 10 | 5 | .. | 5 | 5 | ..
 *
 * Cores of one speed have the same to do at the end.  Small groups are slower
 * by the image (LeNet's by a tenth, 4 to 16 of them for 32 at once), so a
 * thread's part that is few groups is one lane. */
#include "base/mem.h"
#include "net/chain.h"

enum { MANY = 4 }; /* groups of a thread's part that is worth cutting */

/* The lane that each thread gets next; `left`: images of each. */
static int64_t next_size(const struct net_chain *c, int64_t left)
{
    int64_t n = left * 5 / 8;

    if (n >= c->size)
        n = n / c->size * c->size;
    else
        for (n = c->size; n > 1 && (n + 1) / 2 >= c->least &&
                          3 * n > 2 * left;)
            n = (n + 1) / 2;
    return left - n < c->least ? left : n;
}

/* Groups of a lane, as even as they can be. */
static void add_lane(const struct ct_net *net, struct net_chain *c,
                     int64_t image, int64_t n_images)
{
    struct chain_lane *l = &c->lane[c->n_lane++];
    const int64_t n      = (n_images + c->size - 1) / c->size;

    l->first = c->n_group;
    for (int64_t g = 0; g < n; g++) {
        struct chain_group *group = &c->group[c->n_group++];

        group->first = image + n_images * g / n;
        group->n     = image + n_images * (g + 1) / n - group->first;
    }
    l->end      = c->n_group;
    l->run      = net->run;
    l->run.work = &l->work;
    l->work     = (struct ct_workspace){ .tuning = net->work.tuning,
                                         .lane   = true };
}

static void cut_batch(const struct ct_net *net, struct net_chain *c)
{
    const int64_t T   = c->n_hand;
    const bool choice = T > 1 && c->batch / T >= MANY * c->size;
    int64_t image     = 0;

    while (image < c->batch) {
        const int64_t left = c->batch - image, each = (left + T - 1) / T;
        const int64_t size = choice ? next_size(c, each) : each;
        const int64_t all  = size < each ? T * size : left;

        for (int64_t t = 0; t < T; t++) {
            const int64_t n = all * (t + 1) / T - all * t / T;

            if (n > 0)
                add_lane(net, c, image, n);
            image += n;
        }
    }
}

enum ct_status net_chain_cut(struct ct_net *net, struct net_chain *c)
{
    const int threads = ct_device_cpu_threads();
    const size_t most = (size_t)c->batch + 1;

    c->n_hand = threads > c->batch ? (int)c->batch : threads;
    CT_TRY(ct_alloc((size_t)c->n_hand + 1, sizeof(*c->hand), "chain",
                    &c->hand));
    CT_TRY(ct_alloc(most, sizeof(*c->lane), "chain", &c->lane));
    CT_TRY(ct_alloc(most, sizeof(*c->group), "chain", &c->group));
    cut_batch(net, c);
    for (int i = 0; i < c->n_hand; i++)
        CT_TRY(ct_buffer_create(net->dev, c->value_bytes, "lane",
                                &c->hand[i].values));
    for (int i = 1; i < c->n_lane; i++)
        CT_TRY(ct_buffer_create(net->dev, c->sum_bytes, "lane gradients",
                                &c->lane[i].sums));
    return CT_OK;
}

void net_chain_lend(const struct chain_hand *hand, struct chain_lane *lane)
{
    lane->work.ptr   = hand->work.ptr;
    lane->work.bytes = hand->work.bytes;
}

void net_chain_return(struct chain_hand *hand, struct chain_lane *lane)
{
    hand->work.ptr   = lane->work.ptr;
    hand->work.bytes = lane->work.bytes;
    lane->work.ptr   = NULL;
    lane->work.bytes = 0;
}

enum ct_status net_chain_level(struct net_chain *c)
{
    for (int i = 1; i < c->n_hand; i++)
        CT_TRY(ct_workspace_need(&c->hand[i].work, c->hand[0].work.bytes));
    return CT_OK;
}
