/* losses_boxes.c - heads of detectors with their losses: SSD's, YOLO's.
 *
 * What they read of a source: "truth" has rows of objects, "boxes" some for
 * each image. */
#include <stdio.h>
#include <string.h>

#include "drawing.h"

static struct value *special(struct drawing *d, const char *name)
{
    for (int i = 0; i < d->n_blobs; i++)
        if (strcmp(d->blob[i].name, name) == 0)
            return &d->blob[i];
    return NULL;
}

/* Nothing else reads what the last layer made. */
static struct value *hide(struct drawing *d)
{
    struct value *b = &d->blob[d->n_blobs - 1];

    b->label = b->steps = true;
    return b;
}

/* A map with so many values for each place, each of a size that losses like;
 * not in place, and without a weight of its own. */
static struct value *head(struct drawing *d, struct value *map, int outputs)
{
    const bool wide = stream_chance(&d->r, 40);
    struct ct_text *t = open_layer(d, "Convolution");

    d->weighs = 0;
    add_bottom(d, map);
    add_top(d, map->batch);
    ct_text_addf(t, "convolution_param { num_output: %d kernel_size: %d "
                 "pad: %d bias_filler { type: 'uniform' min: -0.5 max: 0.5 } "
                 "weight_filler { type: 'gaussian' std: 0.2 } } ", outputs,
                 wide ? 3 : 1, wide);
    return close_layer(d) ? hide(d) : NULL;
}

/* Numbers of each place together, as SSD has them. */
static struct value *in_rows(struct drawing *d, struct value *b)
{
    struct ct_text *t;

    if (!b)
        return NULL;
    t = open_layer(d, "Permute");
    add_bottom(d, b);
    add_top(d, b->batch);
    hide(d);
    ct_text_add(t, "permute_param { order: 0 order: 2 order: 3 order: 1 } ");
    if (!close_layer(d))
        return NULL;
    b = hide(d);
    (void)open_layer(d, "Flatten");
    add_bottom(d, b);
    add_top(d, b->batch);
    hide(d);
    return close_layer(d) ? hide(d) : NULL;
}

/* Priors of the map; *n: of each place. */
static struct value *priors(struct drawing *d, struct value *map,
                            struct value *image, int *n)
{
    static const char *const variance[] = {
        "", "variance: 0.5 ",
        "variance: 0.5 variance: 0.4 variance: 0.8 variance: 0.6 "
    };
    const int side = 1 + stream_below(&d->r, 4);
    struct ct_text *t = open_layer(d, "PriorBox");

    *n = 1;
    d->weighs = 0;
    add_bottom(d, map);
    add_bottom(d, image);
    add_top(d, false);
    hide(d);
    ct_text_addf(t, "prior_box_param { min_size: %d %s", side,
                 variance[stream_below(&d->r, 3)]);
    if (stream_chance(&d->r, 40)) {
        ct_text_addf(t, "max_size: %d ", side + 1 + stream_below(&d->r, 3));
        ++*n;
    }
    if (stream_chance(&d->r, 40)) {
        const bool flip = stream_chance(&d->r, 60);

        ct_text_addf(t, "aspect_ratio: %d flip: %s ",
                     2 + stream_below(&d->r, 2), flip ? "true" : "false");
        *n += 1 + flip;
    }
    if (stream_chance(&d->r, 30))
        ct_text_add(t, "clip: true ");
    if (stream_chance(&d->r, 30))
        ct_text_addf(t, "offset: %g ", stream_between(&d->r, 0.3, 0.7));
    if (stream_chance(&d->r, 20))
        ct_text_addf(t, "step: %g ", stream_between(&d->r, 0.8, 2));
    ct_text_add(t, "} ");
    return close_layer(d) ? hide(d) : NULL;
}

static const char *one_of(struct drawing *d, int n, const char *const *words)
{
    return words[stream_below(&d->r, n)];
}

/* Everything that MultiBoxLoss can be told. */
static void multibox_words(struct drawing *d, struct ct_text *t, bool shared)
{
    static const char *const loc[]  = { "", "loc_loss_type: L2 " };
    static const char *const conf[] = { "", "", "conf_loss_type: LOGISTIC " };
    static const char *const match[] = { "", "", "match_type: BIPARTITE ",
                                         "overlap_threshold: 0.3 " };
    static const char *const code[] = { "", "code_type: CENTER_SIZE ",
                                        "code_type: CENTER_SIZE ",
                                        "code_type: CORNER_SIZE " };
    static const char *const mining[] = {
        "mining_type: NONE ", "", "neg_pos_ratio: 1.5 neg_overlap: 0.3 ",
        "mining_type: HARD_EXAMPLE sample_size: 3 ",
        "mining_type: HARD_EXAMPLE sample_size: 8 ", "do_neg_mining: true "
    };
    const char *way = shared ? one_of(d, 6, mining) : mining[0];
    const char *as  = one_of(d, 4, code);

    ct_text_addf(t, "multibox_loss_param { num_classes: %d ",
                 d->data.classes);
    ct_text_add(t, one_of(d, 2, loc));
    ct_text_add(t, one_of(d, 3, conf));
    ct_text_add(t, one_of(d, 4, match));
    ct_text_add(t, as);
    ct_text_add(t, way);
    if (!shared)
        ct_text_add(t, "share_location: false ");
    if (d->data.classes == 2 && stream_chance(&d->r, 30))
        ct_text_add(t, "map_object_to_agnostic: true ");
    if (stream_chance(&d->r, 20))
        ct_text_add(t, "use_prior_for_matching: false ");
    else if (stream_chance(&d->r, 25) && !strstr(as, "CENTER"))
        ct_text_add(t, "bp_inside: true ");
    if (stream_chance(&d->r, 30))
        ct_text_add(t, "use_difficult_gt: false ");
    if (stream_chance(&d->r, 25))
        ct_text_add(t, "encode_variance_in_target: true ");
    if (stream_chance(&d->r, 15))
        ct_text_add(t, "ignore_cross_boundary_bbox: true ");
    if (way != mining[0] && stream_chance(&d->r, 25))
        ct_text_addf(t, "nms_param { nms_threshold: 0.4 %s} %s",
                     stream_chance(&d->r, 30) ? "top_k: 12 " : "",
                     stream_chance(&d->r, 50) ? "use_prior_for_nms: true "
                                              : "");
    if (stream_chance(&d->r, 30))
        ct_text_addf(t, "loc_weight: %g ", stream_between(&d->r, 0.3, 2));
    ct_text_add(t, "} ");
}

/* Locations, confidences and priors of one map. */
struct ssd {
    struct value *part[3];
};

static bool draw_ssd(struct drawing *d, bool shared, struct ssd *out)
{
    struct value *map = pick(d, 4), *image = pick(d, 4);
    const int of_image = image ? (int)(image - d->blob) : 0;
    const int of_map   = map ? (int)(map - d->blob) : 0;
    int n, at[3];

    if (!map || !image || !map->batch || dim(map, 0) != d->out->batch)
        return false;
    if (!priors(d, map, &d->blob[of_image], &n))
        return false;
    if (dim(&d->blob[d->n_blobs - 1], 2) > 4 * 60)
        return false; /* too many to compare often */
    at[2] = d->n_blobs - 1;
    if (!in_rows(d, head(d, &d->blob[of_map],
                         4 * n * (shared ? 1 : d->data.classes))))
        return false;
    at[0] = d->n_blobs - 1;
    if (!in_rows(d, head(d, &d->blob[of_map], n * d->data.classes)))
        return false;
    at[1] = d->n_blobs - 1;
    for (int i = 0; i < 3; i++)
        out->part[i] = &d->blob[at[i]];
    return true;
}

/* What two maps have, behind each other. */
static bool join(struct drawing *d, struct ssd *a, const struct ssd *b)
{
    for (int i = 0; i < 3; i++) {
        struct ct_text *t = open_layer(d, "Concat");

        d->weighs = 0;
        add_bottom(d, a->part[i]);
        add_bottom(d, b->part[i]);
        add_top(d, i < 2);
        hide(d);
        ct_text_addf(t, "concat_param { axis: %d } ", i < 2 ? 1 : 2);
        if (!close_layer(d))
            return false;
        a->part[i] = hide(d);
    }
    return true;
}

static bool draw_multibox(struct drawing *d, struct value *truth)
{
    static const char *const words[] = {
        "", "", "loss_param { normalization: BATCH_SIZE } ",
        "loss_param { normalization: BATCH_SIZE } ",
        "loss_param { normalization: FULL } ",
        "loss_param { normalization: NONE } ",
    };
    const bool shared = stream_chance(&d->r, 75);
    const int how     = stream_below(&d->r, 6);
    const int at      = (int)(truth - d->blob);
    struct ssd a, b;
    struct ct_text *t;

    if (!draw_ssd(d, shared, &a))
        return false;
    if (stream_chance(&d->r, 25) && draw_ssd(d, shared, &b) && !join(d, &a, &b))
        return false;
    t = open_layer(d, "MultiBoxLoss");
    for (int i = 0; i < 3; i++)
        add_bottom(d, a.part[i]);
    add_bottom(d, &d->blob[at]);
    /* Priors have no gradient, and their map may be learned. */
    ct_text_addf(t, "propagate_down: %s propagate_down: %s "
                 "propagate_down: false propagate_down: false ",
                 stream_chance(&d->r, 92) ? "true" : "false",
                 stream_chance(&d->r, 92) ? "true" : "false");
    ct_text_add(t, words[how]);
    multibox_words(d, t, shared);
    d->deals_next = how >= 2 && how < 5; /* others count what they find */
    return close_loss(d, t);
}

/* Anchors in cells, or in pixels; a mask of them, or all. */
static bool draw_yolo(struct drawing *d, struct value *boxes)
{
    const bool region = stream_chance(&d->r, 50);
    const int n       = 1 + stream_below(&d->r, 3);
    const int all     = region ? n : n + stream_below(&d->r, 3);
    const int at      = (int)(boxes - d->blob);
    struct value *map = pick(d, 4);
    struct ct_text *t;

    if (!map || !map->batch || dim(map, 0) != d->out->batch)
        return false;
    map = head(d, map, n * (5 + d->data.classes));
    if (!map)
        return false;
    t = open_layer(d, region ? "RegionLoss" : "Yolov3");
    add_bottom(d, map);
    add_bottom(d, &d->blob[at]);
    ct_text_addf(t, "%s { num: %d num_class: %d thresh: %g coord_scale: %g "
                 "class_scale: %g object_scale: %g noobject_scale: 0.6 ",
                 region ? "region_loss_param" : "yolov3_param", n,
                 d->data.classes, stream_between(&d->r, 0.1, 0.5),
                 stream_between(&d->r, 0.5, 2), stream_between(&d->r, 0.5, 2),
                 stream_between(&d->r, 0.5, 3));
    for (int i = 0; i < 2 * all; i++)
        ct_text_addf(t, "biases: %g ", stream_between(&d->r, 0.3, 2));
    if (region)
        ct_text_addf(t, "rescore: %d bias_match: %d ",
                     stream_below(&d->r, 2), stream_below(&d->r, 2));
    for (int i = 0; i < n && !region; i++)
        ct_text_addf(t, "mask: %d ", i + all - n);
    if (!region)
        ct_text_addf(t, "anchors_scale: %d %s", 1 + stream_below(&d->r, 2),
                     stream_chance(&d->r, 50) ? "use_logic_gradient: true "
                                              : "");
    ct_text_add(t, "} ");
    return close_loss(d, t);
}

bool can_find_boxes(struct drawing *d)
{
    return special(d, "truth") || special(d, "boxes");
}

bool draw_box_loss(struct drawing *d)
{
    struct value *truth = special(d, "truth");

    if (d->n_layers > MOST_LAYERS - 24 || d->n_blobs > MOST_BLOBS - 24)
        return false;
    return truth ? draw_multibox(d, truth)
                 : draw_yolo(d, special(d, "boxes"));
}
