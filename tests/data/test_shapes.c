/* test_shapes.c - drawn pictures are what their boxes say. */
#include "data/shapes.h"

#include "base/text.h"
#include "testing/test.h"

static struct ct_image one, two;
static struct ct_objects a, b;

static void fini(void *arg)
{
    (void)arg;
    ct_image_fini(&one);
    ct_image_fini(&two);
    ct_objects_fini(&a);
    ct_objects_fini(&b);
}

static void start(void)
{
    one = two = (struct ct_image){ 0 };
    a = b = (struct ct_objects){ 0 };
    test_defer(fini, NULL);
}

TEST(shapes, a_picture_follows_from_seed_and_index)
{
    const size_t n = (size_t)3 * 64 * 64;

    start();
    ASSERT_OK(ct_shapes_draw(3, 5, 64, &one, &a));
    ASSERT_OK(ct_shapes_draw(3, 5, 64, &two, &b));
    ASSERT(memcmp(one.pixels, two.pixels, n) == 0);
    ASSERT_INT(a.n, b.n);
    ASSERT_OK(ct_shapes_draw(3, 6, 64, &two, &b));
    ASSERT(memcmp(one.pixels, two.pixels, n) != 0);
    ASSERT_OK(ct_shapes_draw(4, 5, 64, &two, &b));
    ASSERT(memcmp(one.pixels, two.pixels, n) != 0);
}

/* Every box is inside, holds a colour that backgrounds do not have, and all
 * labels come up. */
TEST(shapes, boxes_hold_bright_shapes_of_every_class)
{
    int count[CT_N_SHAPES] = { 0 };

    start();
    for (uint64_t i = 0; i < 60; i++) {
        ASSERT_OK(ct_shapes_draw(1, i, 96, &one, &a));
        ASSERT(a.n >= 1 && a.n <= 4);
        for (int64_t k = 0; k < a.n; k++) {
            const struct ct_bbox *x = &a.at[k].box;
            const int cx = (int)((x->xmin + x->xmax) / 2 * 96);
            const int cy = (int)((x->ymin + x->ymax) / 2 * 96);
            const unsigned char *p = one.pixels + (cy * 96 + cx) * 3;
            int top = 0;

            ASSERT(x->xmin >= 0 && x->ymin >= 0);
            ASSERT(x->xmax <= 1 && x->ymax <= 1);
            ASSERT(x->xmax - x->xmin > .15f && x->ymax - x->ymin > .15f);
            for (int c = 0; c < 3; c++)
                top = p[c] > top ? p[c] : top;
            ASSERT(top >= 205);
            ASSERT(a.at[k].label >= 1 && a.at[k].label < CT_N_SHAPES);
            count[a.at[k].label]++;
        }
    }
    for (int c = 1; c < CT_N_SHAPES; c++)
        ASSERT(count[c] > 20);
}
