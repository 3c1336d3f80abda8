/* test_proposal.c - one anchor of 16 x 16 pixels, from (0, 0) to (15, 15), at
 * two positions 16 pixels apart, in an image of 20 x 32 pixels. */
#include "base/rng.h"
#include "testing/files.h"
#include "testing/layer_test.h"

/* Background, then foreground; codes dx, dy, dw, dh of both positions. */
static const float scores[] = { 0.8f, 0.1f, 0.2f, 0.9f };
static const float codes[]  = { 0.5f, 0, 0, 0, 0, 0, 0, 0.69314718f };
static const float size[]   = { 20, 32, 1 };

static struct layer_case *image(enum ct_device_kind dev, const char *param,
                                const float *score, const float *code)
{
    char text[256];
    struct layer_case *c;

    snprintf(text, sizeof(text), "name: 'p' type: 'Proposal' proposal_param { "
             "ratio: 1 scale: 1 %s }", param);
    c = layer_case(dev, text);
    case_bottom(c, 0, CT_SHAPE(1, 2, 1, 2), score);
    case_bottom(c, 1, CT_SHAPE(1, 4, 1, 2), code);
    case_bottom(c, 2, CT_SHAPE(1, 3), size);
    return c;
}

/* The second anchor is twice as high and cut at the image; the first moves half
 * a width: centre 8 + 8, and ends half a width behind it. */
TEST_EACH_DEVICE(proposal, boxes_are_decoded_cut_and_ordered_by_score)
{
    struct layer_case *c = image(dev, "min_size: 4", scores, codes);

    case_tops(c, 2);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 2, 5);
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 0, 16, 0, 31, 19, 0, 8, 0, 24, 16);
    ASSERT_NEAR(c, "top[1].data", 1e-6f, 0.9f, 0.2f);
}

/* They overlap in 9 x 17 = 153 of 16 x 20 + 17 x 17 - 153 = 456: 0.3355. */
TEST_EACH_DEVICE(proposal, a_box_suppresses_those_that_overlap_it)
{
    struct layer_case *c = image(dev, "nms_thresh: 0.33", scores, codes);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 5);
    c = image(dev, "nms_thresh: 0.34", scores, codes);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 2, 5);
}

TEST_EACH_DEVICE(proposal, counts_limit_what_is_looked_at_and_left)
{
    struct layer_case *c = image(dev, "post_nms_topn: 1", scores, codes);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 0, 16, 0, 31, 19);
    c = image(dev, "pre_nms_topn: 1", scores, codes);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_SHAPE(c, "top[0]", 1, 5);
}

/* The second box is 16 wide, the first 17. */
TEST_EACH_DEVICE(proposal, small_boxes_are_dropped)
{
    struct layer_case *c = image(dev, "min_size: 16.5", scores, codes);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 0, 8, 0, 24, 16);
    c = image(dev, "min_size: 100", scores, codes);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 0, 0, 0, 0, 31, 19); /* all of the image */
}

TEST_EACH_DEVICE(proposal, codes_that_are_not_finite_are_dropped)
{
    static const float wild[] = { 0, 0, 0, NAN, 0, 1000, 0, 0 };
    struct layer_case *c = image(dev, "", scores, wild);

    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 0, 0, 0, 16, 16);
}

/* Faster R-CNN's nine anchors, as its authors print them. */
TEST_EACH_DEVICE(proposal, default_anchors_are_faster_r_cnns)
{
    static const float want[9][4] = {
        { -84, -40, 99, 55 },     { -176, -88, 191, 103 },
        { -360, -184, 375, 199 }, { -56, -56, 71, 71 },
        { -120, -120, 135, 135 }, { -248, -248, 263, 263 },
        { -36, -80, 51, 95 },     { -80, -168, 95, 183 },
        { -168, -344, 183, 359 },
    };
    static const float huge[] = { 2000, 2000, 1 };
    float score[18] = { 0 }, code[36] = { 0 };

    for (int i = 0; i < 9; i++) {
        struct layer_case *c = layer_case(dev, "type: 'Proposal' "
                                          "proposal_param { min_size: 1 "
                                          "post_nms_topn: 1 }");

        for (int k = 0; k < 9; k++)
            score[9 + k] = k == i;
        /* Moved by whole widths, so that nothing is cut. */
        code[4 * i] = 1000 / (want[i][2] - want[i][0] + 1);
        code[4 * i + 1] = 1000 / (want[i][3] - want[i][1] + 1);
        case_bottom(c, 0, CT_SHAPE(1, 18, 1, 1), score);
        case_bottom(c, 1, CT_SHAPE(1, 36, 1, 1), code);
        case_bottom(c, 2, CT_SHAPE(1, 3), huge);
        ASSERT_OK(case_setup(c));
        ASSERT_OK(case_forward(c));
        ASSERT_NEAR(c, "top[0].data", 1e-3f, 0, 1000 + want[i][0],
                    1000 + want[i][1], 1001 + want[i][2], 1001 + want[i][3]);
        code[4 * i] = code[4 * i + 1] = 0;
    }
}

TEST_EACH_DEVICE(proposal, images_of_a_batch_are_apart)
{
    static const float two[] = { 0, 0.9f, 0, 0.5f }, code[8] = { 0 };
    static const float sizes[] = { 20, 32, 1, 1, 10, 12, 1, 1 };
    struct layer_case *c = image(dev, "min_size: 4", scores, codes);

    case_bottom(c, 0, CT_SHAPE(2, 2, 1, 1), two);
    case_bottom(c, 1, CT_SHAPE(2, 4, 1, 1), code);
    case_bottom(c, 2, CT_SHAPE(2, 4), sizes);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    ASSERT_NEAR(c, "top[0].data", 1e-5f, 0, 0, 0, 16, 16, 1, 0, 0, 11, 9);
}

/* ---- many boxes, against the definition */

enum { MANY_H = 20, MANY_W = 20, MANY_A = 9, MANY_N = 2,
       MANY = MANY_H * MANY_W * MANY_A, BEFORE = 1000, AFTER = 70 };

struct want { float box[4], score; int dropped; };

/* Sizes stay, and places are sixteenths of a width, so that no sum rounds. */
static void draw_many(float *score, float *code)
{
    for (int i = 0; i < MANY_N * 2 * MANY; i++) /* with equal ones */
        score[i] = (float)(ct_philox_word(7, 0, (uint64_t)i) % 400) / 256 -
                   0.5f;
    for (int i = 0; i < MANY_N * 4 * MANY; i++) {
        const int k = i / (MANY_H * MANY_W) % 4;

        code[i] = k < 2 ? (float)(ct_philox_word(7, 1, (uint64_t)i) % 33) /
                                  16 - 1
                        : 0;
    }
}

static float cut(float x, float most)
{
    return fminf(fmaxf(x, 0), most);
}

static float area(const float *b)
{
    return (b[2] - b[0] + 1) * (b[3] - b[1] + 1);
}

static bool overlap_more(const float *a, const float *b, float than)
{
    const float w = fminf(a[2], b[2]) - fmaxf(a[0], b[0]) + 1;
    const float h = fminf(a[3], b[3]) - fmaxf(a[1], b[1]) + 1;

    return w > 0 && h > 0 && w * h / (area(a) + area(b) - w * h) > than;
}

/* Every box of an image, as the anchors that are checked above give it. */
static void all_boxes(const float *score, const float *code,
                      const float *sizes, struct want *out)
{
    static const float ratio[] = { 0.5f, 1, 2 }, scale[] = { 8, 16, 32 };
    const int plane = MANY_H * MANY_W;

    for (int i = 0; i < MANY; i++) {
        const int a = i % MANY_A, at = i / MANY_A;
        const float w = roundf(sqrtf(256 / ratio[a / 3]));
        const float h = roundf(w * ratio[a / 3]);
        const float wide = w * scale[a % 3], high = h * scale[a % 3];
        const float x = 8 + (float)(at % MANY_W * 16) +
                        code[(4 * a) * plane + at] * wide;
        const float y = 8 + (float)(at / MANY_W * 16) +
                        code[(4 * a + 1) * plane + at] * high;

        out[i].score  = score[(MANY_A + a) * plane + at];
        out[i].box[0] = cut(x - wide / 2, sizes[1] - 1);
        out[i].box[1] = cut(y - high / 2, sizes[0] - 1);
        out[i].box[2] = cut(x + wide / 2, sizes[1] - 1);
        out[i].box[3] = cut(y + high / 2, sizes[0] - 1);
        out[i].dropped = out[i].box[2] - out[i].box[0] + 1 < 16 ||
                         out[i].box[3] - out[i].box[1] + 1 < 16;
    }
}

/* The best of them, one after the other; returns how many. */
static int choose_many(struct want *all, struct want *out)
{
    int n = 0;

    for (int seen = 0; seen < BEFORE && n < AFTER; seen++) {
        int best = -1, k = 0;

        for (int i = 0; i < MANY; i++)
            if (!all[i].dropped &&
                (best < 0 || all[i].score > all[best].score))
                best = i;
        if (best < 0)
            break;
        all[best].dropped = 1;
        while (k < n && !overlap_more(all[best].box, out[k].box, 0.7f))
            k++;
        if (k == n)
            out[n++] = all[best];
    }
    return n;
}

TEST_EACH_DEVICE(proposal, many_boxes_are_chosen_as_defined)
{
    static float score[MANY_N * 2 * MANY], code[MANY_N * 4 * MANY];
    static const float sizes[] = { 300, 280, 1, 200, 320, 1 };
    static struct want all[MANY], want[AFTER];
    static float rows[MANY_N * AFTER * 5], best[MANY_N * AFTER];
    struct layer_case *c = layer_case(
        dev, test_format("type: 'Proposal' proposal_param { min_size: 16 "
                         "pre_nms_topn: %d post_nms_topn: %d }", BEFORE,
                         AFTER));
    int n = 0;

    draw_many(score, code);
    case_bottom(c, 0, CT_SHAPE(MANY_N, 2 * MANY_A, MANY_H, MANY_W), score);
    case_bottom(c, 1, CT_SHAPE(MANY_N, 4 * MANY_A, MANY_H, MANY_W), code);
    case_bottom(c, 2, CT_SHAPE(MANY_N, 3), sizes);
    case_tops(c, 2);
    ASSERT_OK(case_setup(c));
    ASSERT_OK(case_forward(c));
    for (int i = 0; i < MANY_N; i++) {
        int chosen;

        all_boxes(score + i * 2 * MANY, code + i * 4 * MANY, sizes + 3 * i,
                  all);
        chosen = choose_many(all, want);
        ASSERT(chosen > 5);
        for (int k = 0; k < chosen; k++, n++) {
            rows[5 * n] = (float)i;
            memcpy(rows + 5 * n + 1, want[k].box, sizeof(want[k].box));
            best[n] = want[k].score;
        }
    }
    ASSERT_SHAPE(c, "top[0]", n, 5);
    case_near(c, __FILE__, __LINE__, "top[0].data", 1e-4f, rows, 5 * n);
    case_near(c, __FILE__, __LINE__, "top[1].data", 0, best, n);
}

TEST_EACH_DEVICE(proposal, shapes_that_do_not_fit_are_refused)
{
    static const float none[] = { 0, 32, 1 };
    struct layer_case *c = image(dev, "ratio: 2", scores, codes);

    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer p: 2 anchors (ratios times scales) need bottoms of N x 4",
               ct_last_error());
    c = image(dev, "", scores, codes);
    case_bottom(c, 2, CT_SHAPE(1, 2), size);
    ASSERT_STATUS(CT_ESHAPE, case_setup(c));
    ASSERT_HAS("layer p: bottom 2 must have height", ct_last_error());
    c = image(dev, "post_nms_topn: 0", scores, codes);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    c = image(dev, "ratio: 0", scores, codes);
    ASSERT_STATUS(CT_EINVAL, case_setup(c));
    c = image(dev, "", scores, codes);
    case_bottom(c, 2, CT_SHAPE(1, 3), none);
    ASSERT_OK(case_setup(c));
    ASSERT_STATUS(CT_EINVAL, case_forward(c));
    ASSERT_HAS("layer p: image 0 has 0 x 32 pixels", ct_last_error());
}
