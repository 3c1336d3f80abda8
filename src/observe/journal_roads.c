/* journal_roads.c - links between ranks, and the road of every gradient. */
#include "dist/engine.h"
#include "observe/journal_inner.h"
#include "observe/json.h"

enum { MOST_MEASURED = 16 }; /* ranks: links grow with their square */

enum ct_status ct_journal_measure_links(struct ct_journal *j,
                                        struct ct_dist *d)
{
    struct ct_pairs mine = { 0 };
    enum ct_status st;

    if (!d || ct_dist_size(d) < 2 || ct_dist_size(d) > MOST_MEASURED ||
        d->view.serves)
        return CT_OK;
    st = dist_links(d, j ? &j->links : &mine);
    ct_pairs_fini(&mine);
    return st;
}

static void add_links(struct ct_text *t, const struct ct_pairs *p)
{
    ct_json_key(t, "links");
    ct_text_add(t, "{");
    ct_json_field_number(t, "ranks", p->size);
    for (int what = 0; what < 2; what++) {
        ct_json_key(t, what ? "bytes_per_second" : "latency_seconds");
        ct_text_add(t, "[");
        for (int i = 0; i < p->size * p->size; i++) {
            const struct ct_link *l = &p->link[i];
            const double v = i % (p->size + 1) == 0 ? 0
                             : what ? (l->beta > 0 ? 1 / l->beta : 0)
                                    : l->alpha;

            ct_json_comma(t);
            ct_json_add_number(t, v);
        }
        ct_text_add(t, "]");
    }
    ct_text_add(t, "}");
}

static void add_machine(struct ct_text *t, const struct ct_dist *d)
{
    const struct dist_machine *m = &d->roads.options.machine;

    if (!d->roads.measured)
        return;
    ct_json_field_number(t, "message_seconds", m->alpha);
    ct_json_field_number(t, "seconds_per_byte", m->beta);
    ct_json_field_number(t, "add_seconds_per_byte", m->gamma);
    ct_json_field_number(t, "flops", m->flops);
    ct_json_field_number(t, "step_seconds", d->roads.step);
}

void journal_roads(struct ct_journal *j, struct ct_text *out)
{
    const struct ct_dist *d = j->dist;
    struct dist_travel road;

    if (!d || !d->net || d->view.size < 2)
        return;
    ct_text_add(out, "{");
    ct_json_field_number(out, "time", journal_clock());
    ct_json_field_string(out, "way", dist_way(d));
    ct_json_field_string(out, "asked", d->options->road);
    add_machine(out, d);
    if (j->links.size > 1)
        add_links(out, &j->links);
    ct_json_key(out, "params");
    ct_text_add(out, "[");
    for (int i = 0; i < ct_net_n_params(d->net); i++) {
        if (!dist_travel_of(d, i, &road))
            continue;
        ct_json_comma(out);
        ct_text_add(out, "{");
        ct_json_field_string(out, "param", road.param);
        ct_json_field_string(out, "road", road.name);
        ct_json_field_number(out, "floats", road.floats);
        ct_json_field_number(out, "bytes", road.bytes);
        ct_json_field_number(out, "predicted", road.predicted);
        ct_json_field_number(out, "measured", road.measured);
        ct_json_key(out, "may_choose");
        ct_text_add(out, road.may_choose ? "true" : "false");
        ct_text_add(out, "}");
    }
    ct_text_add(out, "]}\n");
}
