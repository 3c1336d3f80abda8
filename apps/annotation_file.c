/* annotation_file.c - the annotations of one image. */
#include "annotation_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe/json.h"

enum { MOST_NUMBER = 64 };

enum ct_status annotation_source_check(const struct annotation_source *s)
{
    const bool names = strcmp(s->form, "xml") == 0 ||
                       strcmp(s->form, "json") == 0;

    if (!names && strcmp(s->form, "txt") != 0)
        return ct_fail(CT_EINVAL, "--label_type is \"%s\"; use xml, json or "
                       "txt", s->form);
    if (names && !s->map)
        return ct_fail(CT_EINVAL, "annotations in %s name their objects: give "
                       "--label_map_file", s->form);
    for (size_t i = 0; s->map && i < s->map->n_item; i++) {
        const Caffe__LabelMapItem *a = s->map->item[i];

        if (!a->name || !a->has_label || a->label < 0)
            return ct_fail(CT_EINVAL, "item %zu of the label map needs a name "
                           "and a label of 0 or more", i + 1);
        for (size_t k = 0; k < i; k++)
            if (strcmp(a->name, s->map->item[k]->name) == 0 ||
                a->label == s->map->item[k]->label)
                return ct_fail(CT_EINVAL, "the label map has \"%s\", label "
                               "%d, twice", a->name, a->label);
    }
    return CT_OK;
}

static enum ct_status label_of(const struct annotation_source *s,
                               const char *name, const char *path, int *out)
{
    for (size_t i = 0; i < s->map->n_item; i++)
        if (strcmp(s->map->item[i]->name, name) == 0) {
            *out = s->map->item[i]->label;
            return CT_OK;
        }
    return ct_fail(CT_EINVAL, "%s: the label map does not know \"%s\"", path,
                   name);
}

/* Box in pixels of a width x height image. */
static enum ct_status add_object(struct ct_objects *out, int label,
                                 bool difficult, const double box[4],
                                 double width, double height,
                                 const char *path)
{
    struct ct_object o = { { (float)(box[0] / width), (float)(box[1] / height),
                             (float)(box[2] / width),
                             (float)(box[3] / height) },
                           label, 0, difficult };

    if (!(width > 0) || !(height > 0))
        return ct_fail(CT_EPARSE, "%s: an image of %g x %g pixels", path,
                       width, height);
    if (!isfinite(o.box.xmin) || !isfinite(o.box.ymin) ||
        !(o.box.xmax > o.box.xmin) || !(o.box.ymax > o.box.ymin) ||
        !isfinite(o.box.xmax) || !isfinite(o.box.ymax))
        return ct_fail(CT_EPARSE, "%s: object %lld has the box %g %g %g %g: "
                       "xmin, ymin, xmax and ymax must be numbers in this "
                       "order", path, (long long)out->n + 1, box[0], box[1],
                       box[2], box[3]);
    for (int64_t i = 0; i < out->n; i++)
        o.instance += out->at[i].label == label;
    return ct_objects_add(out, &o);
}

/* ---- xml */

struct span {
    const char *at, *end;
};

static bool span_is(struct span s, const char *text)
{
    const size_t n = strlen(text);

    return (size_t)(s.end - s.at) == n && memcmp(s.at, text, n) == 0;
}

/* Past `text`, or NULL. */
static const char *past(struct span s, const char *text)
{
    const char *p = memmem(s.at, (size_t)(s.end - s.at), text, strlen(text));

    return p ? p + strlen(text) : NULL;
}

/* Past a comment, a declaration or an end tag at s->at, if there is one; false
 * when it has no end. */
static bool skip_other(struct span *s, bool *skipped)
{
    const char *p = NULL;

    *skipped = true;
    if (s->end - s->at >= 4 && memcmp(s->at, "<!--", 4) == 0)
        p = past(*s, "-->");
    else if (s->end - s->at >= 2 && (s->at[1] == '?' || s->at[1] == '!' ||
                                     s->at[1] == '/'))
        p = past(*s, ">");
    else
        *skipped = false;
    s->at = p ? p : s->at;
    return !*skipped || p;
}

/* Where the element `name` that begins before s ends: at its end tag. */
static const char *inner_end(struct span s, struct span name)
{
    const size_t n = (size_t)(name.end - name.at);
    int depth      = 1;

    while ((s.at = memchr(s.at, '<', (size_t)(s.end - s.at)))) {
        const char *tag  = s.at;
        const bool closes = s.end - s.at > 1 && s.at[1] == '/';
        const char *word  = s.at + 1 + closes;
        const char *close;

        s.at++;
        if ((size_t)(s.end - word) <= n || memcmp(word, name.at, n) != 0 ||
            !strchr(" \t\r\n/>", word[n]))
            continue;
        close = memchr(word, '>', (size_t)(s.end - word));
        if (!close)
            return NULL;
        if (!closes && close[-1] == '/')
            continue;
        depth += closes ? -1 : 1;
        if (depth == 0)
            return tag;
    }
    return NULL;
}

/* The next element at this level.  1: there is one; 0: no more; -1: broken. */
static int next_element(struct span *s, struct span *name, struct span *inner)
{
    for (;;) {
        const char *p = memchr(s->at, '<', (size_t)(s->end - s->at));
        bool skipped;

        if (!p)
            return 0;
        s->at = p;
        if (!skip_other(s, &skipped))
            return -1;
        if (skipped)
            continue;
        name->at = p + 1;
        for (name->end = name->at; name->end < s->end &&
                                   !strchr(" \t\r\n/>", *name->end);)
            name->end++;
        p = memchr(name->end, '>', (size_t)(s->end - name->end));
        if (!p || name->end == name->at)
            return -1;
        inner->at = p + 1;
        s->at     = p + 1;
        if (p[-1] == '/') {
            inner->end = inner->at;
            return 1;
        }
        inner->end = inner_end((struct span){ inner->at, s->end }, *name);
        if (!inner->end)
            return -1;
        s->at = inner->end;
        return 1;
    }
}

/* The number that an element holds. */
static bool span_number(struct span s, double *out)
{
    char text[MOST_NUMBER], *end;
    const size_t n = (size_t)(s.end - s.at);

    if (n == 0 || n >= sizeof(text))
        return false;
    memcpy(text, s.at, n);
    text[n] = '\0';
    *out    = strtod(text, &end);
    while (*end && strchr(" \t\r\n", *end))
        end++;
    return end != text && !*end;
}

/* Numbers by the names of their elements; all that are found. */
static int xml_numbers(struct span s, const char *const *wanted, int n,
                       double *out)
{
    struct span name, inner;
    int found = 0;

    while (next_element(&s, &name, &inner) == 1)
        for (int i = 0; i < n; i++)
            if (span_is(name, wanted[i]))
                found += span_number(inner, &out[i]);
    return found;
}

static enum ct_status xml_object(const struct annotation_source *s,
                                 struct span in, const char *path,
                                 const double size[2], struct ct_objects *out)
{
    static const char *const side[] = { "xmin", "ymin", "xmax", "ymax" };
    char text[256] = "";
    double box[4], difficult = 0;
    struct span name, inner;
    int n_sides = 0, label = 0;

    while (next_element(&in, &name, &inner) == 1) {
        if (span_is(name, "name"))
            snprintf(text, sizeof(text), "%.*s", (int)(inner.end - inner.at),
                     inner.at);
        else if (span_is(name, "difficult"))
            (void)span_number(inner, &difficult);
        else if (span_is(name, "bndbox"))
            n_sides = xml_numbers(inner, side, 4, box);
    }
    if (!text[0] || n_sides != 4)
        return ct_fail(CT_EPARSE, "%s: object %lld has no %s", path,
                       (long long)out->n + 1,
                       text[0] ? "bndbox of xmin, ymin, xmax and ymax"
                               : "name");
    CT_TRY(label_of(s, text, path, &label));
    return add_object(out, label, difficult != 0, box, size[0], size[1], path);
}

static enum ct_status read_xml(const struct annotation_source *s,
                               struct span in, const char *path, int width,
                               int height, struct ct_objects *out)
{
    static const char *const side[] = { "width", "height" };
    double size[2] = { width, height }, own[2];
    struct span name, root, at, inner;
    int more;

    if (next_element(&in, &name, &root) != 1 || !span_is(name, "annotation"))
        return ct_fail(CT_EPARSE, "%s: no <annotation> that is complete",
                       path);
    for (at = root; (more = next_element(&at, &name, &inner)) == 1;)
        if (span_is(name, "size") &&
            xml_numbers(inner, side, 2, own) == 2 && own[0] > 0 && own[1] > 0)
            memcpy(size, own, sizeof(size));
    for (at = root; more == 0 &&
                    (more = next_element(&at, &name, &inner)) == 1; more = 0)
        if (span_is(name, "object"))
            CT_TRY(xml_object(s, inner, path, size, out));
    return more == 0 ? CT_OK
                     : ct_fail(CT_EPARSE, "%s: an element has no end", path);
}

/* ---- json */

static enum ct_status json_object(const struct annotation_source *s,
                                  const struct ct_json *j, const char *path,
                                  const double size[2],
                                  struct ct_objects *out)
{
    const struct ct_json *bbox = ct_json_get(j, "bbox");
    const struct ct_json *id   = ct_json_get(j, "category_id");
    char name[MOST_NUMBER];
    double box[4];
    int label = 0;

    for (int i = 0; i < 4; i++)
        box[i] = ct_json_number(ct_json_at(bbox, i), NAN);
    if (!id)
        return ct_fail(CT_EPARSE, "%s: object %lld has no category_id", path,
                       (long long)out->n + 1);
    snprintf(name, sizeof(name), "%g", ct_json_number(id, -1));
    CT_TRY(label_of(s, ct_json_text(id, name), path, &label));
    box[2] += box[0];
    box[3] += box[1];
    return add_object(out, label,
                      ct_json_number(ct_json_get(j, "iscrowd"), 0) != 0, box,
                      size[0], size[1], path);
}

static enum ct_status read_json(const struct annotation_source *s,
                                const char *text, size_t n_bytes,
                                const char *path, int width, int height,
                                struct ct_objects *out)
{
    const struct ct_json *image, *list;
    struct ct_json *root = NULL;
    enum ct_status st;
    double size[2];

    CT_TRY(ct_json_parse(text, n_bytes, path, &root));
    image   = ct_json_get(root, "image");
    list    = ct_json_get(root, "annotation");
    size[0] = ct_json_number(ct_json_get(image, "width"), width);
    size[1] = ct_json_number(ct_json_get(image, "height"), height);
    st      = list && list->kind == CT_JSON_LIST
                  ? CT_OK
                  : ct_fail(CT_EPARSE, "%s: no list \"annotation\"", path);
    for (const struct ct_json *j = st == CT_OK ? list->child : NULL;
         j && st == CT_OK; j = j->next)
        st = json_object(s, j, path, size, out);
    ct_json_free(root);
    return st;
}

/* ---- txt */

static enum ct_status read_txt(struct span in, const char *path, int width,
                               int height, struct ct_objects *out)
{
    for (long number = 1; in.at < in.end; number++) {
        const char *end = memchr(in.at, '\n', (size_t)(in.end - in.at));
        char line[512];
        double box[4];
        int label, used = 0;
        size_t n;

        end = end ? end : in.end;
        n   = (size_t)(end - in.at);
        snprintf(line, sizeof(line), "%.*s", (int)(n < 511 ? n : 511), in.at);
        in.at = end + (end < in.end);
        if (strspn(line, " \t\r") == strlen(line))
            continue;
        if (sscanf(line, "%d %lf %lf %lf %lf %n", &label, &box[0], &box[1],
                   &box[2], &box[3], &used) != 5 || line[used] || label < 0)
            return ct_fail(CT_EPARSE, "%s:%ld: a line is \"label xmin ymin "
                           "xmax ymax\"", path, number);
        CT_TRY(add_object(out, label, false, box, width, height, path));
    }
    return CT_OK;
}

/* For qsort(): a record has one group for each label. */
static int by_label(const void *a, const void *b)
{
    const struct ct_object *x = a, *y = b;

    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    return x->instance < y->instance ? -1 : x->instance > y->instance;
}

enum ct_status annotation_read(const struct annotation_source *s,
                               const char *text, size_t n_bytes,
                               const char *path, int width, int height,
                               struct ct_objects *out)
{
    const struct span all = { text, text + n_bytes };

    out->n = 0;
    if (strcmp(s->form, "xml") == 0)
        CT_TRY(read_xml(s, all, path, width, height, out));
    else if (strcmp(s->form, "json") == 0)
        CT_TRY(read_json(s, text, n_bytes, path, width, height, out));
    else
        CT_TRY(read_txt(all, path, width, height, out));
    if (out->n > 0)
        qsort(out->at, (size_t)out->n, sizeof(*out->at), by_label);
    return CT_OK;
}
