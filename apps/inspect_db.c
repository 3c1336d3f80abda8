/* inspect_db.c - the page of a database. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "data/survey.h"
#include "inspect.h"
#include "progress.h"

enum { SHOWN_LABELS = 12 };

static void print_range(const char *between, struct ct_survey_range r)
{
    if (r.min == r.max)
        printf("%s%d", between, r.min);
    else
        printf("%s%d..%d", between, r.min, r.max);
}

static void print_keys(const struct ct_survey *s)
{
    int64_t n = s->n_records < CT_SURVEY_KEYS ? s->n_records : CT_SURVEY_KEYS;

    printf("keys      ");
    for (int64_t i = 0; i < n; i++)
        printf("%s%s", i ? ", " : "", s->first_key[i]);
    if (s->n_records > CT_SURVEY_KEYS)
        printf("%s%s", s->n_records > CT_SURVEY_KEYS + 1 ? " ... " : ", ",
               s->last_key);
    putchar('\n');
}

static void print_datum(const struct ct_survey *s)
{
    static const char *const kind[] = { "raw bytes", "floats",
                                        "encoded images" };
    const int64_t n[] = { s->n_raw, s->n_float, s->n_encoded };
    int n_kinds       = 0;

    for (int i = 0; i < 3; i++)
        n_kinds += n[i] > 0;
    if (n_kinds == 0)
        return;
    printf("datums    ");
    print_range("", s->channels);
    print_range(" x ", s->height);
    print_range(" x ", s->width);
    printf(" (channels x height x width)");
    for (int i = 0; i < 3; i++)
        if (n[i] && n_kinds > 1)
            printf(", %" PRId64 " %s", n[i], kind[i]);
        else if (n[i])
            printf(", %s", kind[i]);
    putchar('\n');
}

static void print_labels(const struct ct_survey *s)
{
    const struct ct_survey_label *l = s->label;
    const char *what = s->n_annotated ? "objects" : "records";
    int64_t least = 0, most = 0;

    if (s->n_labels == 0)
        return;
    for (int64_t i = 0; i < s->n_labels; i++) {
        least = l[i].n < l[least].n ? i : least;
        most  = l[i].n > l[most].n ? i : most;
    }
    if (s->n_annotated)
        printf("boxes     %" PRId64 " objects in %" PRId64 " records\n",
               s->n_objects, s->n_annotated);
    printf("labels    %s%" PRId64 " different, %d to %d",
           s->more_labels ? "more than " : "", s->n_labels, l[0].label,
           l[s->n_labels - 1].label);
    if (l[least].n == l[most].n)
        printf("; %" PRId64 " %s each\n", l[most].n, what);
    else
        printf("; %" PRId64 " to %" PRId64 " %s each\n", l[least].n,
               l[most].n, what);
    for (int64_t i = 0; i < s->n_labels && i < SHOWN_LABELS; i++)
        printf("%s%d: %" PRId64, i ? "  " : "          ", l[i].label, l[i].n);
    printf("%s\n", s->n_labels > SHOWN_LABELS ? "  ..." : "");
}

static void print_verdict(const struct ct_survey *s, bool deep)
{
    if (s->n_damaged)
        printf("DAMAGED   %" PRId64 " of %" PRId64 " records; the first is "
               "%s\n", s->n_damaged, s->n_records, s->first_damage);
    if (s->end[0])
        printf("DAMAGED   reading ends after %" PRId64 " records: %s\n",
               s->n_records, s->end);
    if (ct_survey_whole(s))
        printf("whole     %s\n",
               s->n_records == 0             ? "but empty"
               : !s->n_encoded               ? "every record was read"
               : deep                        ? "every image was decoded"
                                             : "every record was read; --deep "
                                               "decodes the images as well");
}

enum ct_status inspect_db(struct inspect *in)
{
    struct ct_survey s;
    struct progress p;
    enum ct_status st;
    char size[32];

    progress_start(&p, 0);
    st = ct_survey_db(in->path, in->deep, &p.watch, &s);
    progress_end(&p, st);
    CT_TRY(st);
    printf("%s: %s database\n", in->path,
           strcmp(s.backend, "lmdb") == 0 ? "LMDB" : "LevelDB");
    printf("records   %" PRId64 ", %s\n", s.n_records,
           inspect_bytes(s.n_bytes, size, sizeof(size)));
    if (s.n_records)
        print_keys(&s);
    print_datum(&s);
    print_labels(&s);
    print_verdict(&s, in->deep);
    in->whole = ct_survey_whole(&s);
    ct_survey_fini(&s);
    return CT_OK;
}
