/* test_scene.c - the parts of what happens to an image with objects, each by
 * hand: sampled parts, colours, noise and sizes. */
#include "data/scene.h"

#include "data/distort.h"
#include "data/noise.h"
#include "data/resample.h"
#include "data/sampler.h"
#include "testing/test.h"

static struct ct_image image;
static struct ct_image other;
static struct ct_codec codec;

static void fini(void *arg)
{
    (void)arg;
    ct_image_fini(&image);
    ct_image_fini(&other);
    ct_codec_fini(&codec);
}

static void start(int width, int height, int channels,
                  const unsigned char *pixels)
{
    image = other = (struct ct_image){ 0 };
    codec         = (struct ct_codec){ 0 };
    test_defer(fini, NULL);
    ASSERT_OK(ct_image_size(&image, width, height, channels));
    memcpy(image.pixels, pixels, (size_t)(width * height * channels));
}

static void pixels_are(const struct ct_image *im, const unsigned char *want)
{
    for (int i = 0; i < im->width * im->height * im->channels; i++)
        if (im->pixels[i] != want[i])
            FAIL("byte %d is %d, wanted %d", i, im->pixels[i], want[i]);
}

/* Red, green, blue, white, gray and a dark orange, as OpenCV gives them. */
TEST(scene, colours_become_hsv_and_come_back)
{
    static const unsigned char bgr[][3] = {
        { 0, 0, 255 }, { 0, 255, 0 }, { 255, 0, 0 }, { 255, 255, 255 },
        { 128, 128, 128 }, { 0, 60, 120 },
    };
    static const unsigned char hsv[][3] = {
        { 0, 255, 255 }, { 60, 255, 255 }, { 120, 255, 255 }, { 0, 0, 255 },
        { 0, 0, 128 }, { 15, 255, 120 },
    };

    for (int i = 0; i < 6; i++) {
        unsigned char got[3], back[3];

        ct_bgr_to_hsv(bgr[i], got);
        ct_hsv_to_bgr(got, back);
        for (int c = 0; c < 3; c++) {
            ASSERT_INT(hsv[i][c], got[c]);
            ASSERT_INT(bgr[i][c], back[c]);
        }
    }
}

TEST(scene, certain_distortions_do_what_they_say)
{
    static const unsigned char pixel[] = { 0, 0, 200 };
    Caffe__DistortionParameter p;
    struct ct_draws draws = { 1, 0, 0, 0 };

    caffe__distortion_parameter__init(&p);
    start(1, 1, 3, pixel);
    ct_distort(&p, &draws, &image);
    pixels_are(&image, pixel); /* nothing is asked for */
    p.contrast_prob  = 1;
    p.contrast_lower = p.contrast_upper = 0.5f;
    ct_distort(&p, &draws, &image);
    pixels_are(&image, (const unsigned char[]){ 0, 0, 100 });
    p.contrast_prob    = 0;
    p.saturation_prob  = 1;
    p.saturation_lower = p.saturation_upper = 0.5f;
    ct_distort(&p, &draws, &image); /* S 255 becomes 128 */
    pixels_are(&image, (const unsigned char[]){ 50, 50, 100 });
}

TEST(scene, a_sampled_part_meets_its_constraint)
{
    struct ct_object one = { { .4f, .4f, .6f, .6f }, 1, 0, false };
    struct ct_objects objects = { &one, 1, { 0 } };
    Caffe__AnnotatedDataParameter p;
    Caffe__SampleConstraint c;
    Caffe__BatchSampler b, *list = &b;
    Caffe__Sampler s;
    struct ct_bbox box = { 0 };
    int n              = 0;

    caffe__annotated_data_parameter__init(&p);
    caffe__batch_sampler__init(&b);
    caffe__sampler__init(&s);
    caffe__sample_constraint__init(&c);
    p.n_batch_sampler = 1;
    p.batch_sampler   = &list;
    b.sampler         = &s;
    b.sample_constraint = &c;
    b.has_max_sample    = true;
    b.max_sample        = 1;
    b.max_trials        = 50;
    s.min_scale         = .3f;
    s.min_aspect_ratio  = .5f;
    s.max_aspect_ratio  = 2;
    c.has_min_jaccard_overlap = true;
    c.min_jaccard_overlap     = .3f;
    for (int i = 0; i < 200; i++) {
        struct ct_draws draws = { 7, 0, i, 0 };

        if (!ct_sampler_draw(&p, &objects, &draws, &box))
            continue;
        n++;
        ASSERT(ct_bbox_overlap(box, one.box) >= .3f);
        ASSERT(box.xmin >= 0 && box.ymin >= 0);
        ASSERT(box.xmax <= 1 + 1e-6f && box.ymax <= 1 + 1e-6f);
    }
    ASSERT(n > 50);
    objects.n = 0; /* nothing can overlap then */
    ASSERT(!ct_sampler_draw(&p, &objects, &(struct ct_draws){ 7, 0, 0, 0 },
                            &box));
    c.has_min_jaccard_overlap = false; /* and nothing has to */
    ASSERT(ct_sampler_draw(&p, &objects, &(struct ct_draws){ 7, 0, 0, 0 },
                           &box));
}

/* 4 x 2 pixels to half and double. */
TEST(scene, sizes_change_as_opencv_changes_them)
{
    static const unsigned char x[] = { 10, 20, 30, 40, 50, 60, 70, 80 };

    start(4, 2, 1, x);
    ASSERT_OK(ct_image_resample(&codec, &image, 2, 1,
                                CAFFE__RESIZE_PARAMETER__INTERP_MODE__AREA,
                                &other));
    pixels_are(&other, (const unsigned char[]){ 35, 55 });
    ASSERT_OK(ct_image_resample(&codec, &image, 2, 1,
                                CAFFE__RESIZE_PARAMETER__INTERP_MODE__NEAREST,
                                &other));
    pixels_are(&other, (const unsigned char[]){ 10, 30 });
    /* 3 of 4: 4/3 inputs each, (10 + 20/3) / (4/3) = 12.5, ... */
    ASSERT_OK(ct_image_resample(&codec, &image, 3, 2,
                                CAFFE__RESIZE_PARAMETER__INTERP_MODE__AREA,
                                &other));
    pixels_are(&other, (const unsigned char[]){ 12, 25, 38, 52, 65, 78 });
    /* x = .5 and 2.5: cubic weights -3/32, 19/32, 19/32, -3/32 of the edge's
     * 10 again, 10, 20, 30 are 14.0625 and 35.9375. */
    ASSERT_OK(ct_image_resample(&codec, &image, 2, 2,
                                CAFFE__RESIZE_PARAMETER__INTERP_MODE__CUBIC,
                                &other));
    pixels_are(&other, (const unsigned char[]){ 14, 36, 54, 76 });
}

TEST(scene, one_colour_stays_one_colour_in_any_size)
{
    unsigned char same[7 * 5];

    memset(same, 93, sizeof(same));
    start(7, 5, 1, same);
    for (int mode = 1; mode <= 5; mode++)
        for (int k = 0; k < 3; k++) {
            const int size[][2] = { { 3, 2 }, { 20, 11 }, { 1, 9 } };

            ASSERT_OK(ct_image_resample(
                &codec, &image, size[k][0], size[k][1],
                (Caffe__ResizeParameter__InterpMode)mode, &other));
            for (int i = 0; i < size[k][0] * size[k][1]; i++)
                ASSERT_INT(93, other.pixels[i]);
        }
}

static void noisy(Caffe__NoiseParameter *p)
{
    ASSERT_OK(ct_noise(p, &(struct ct_draws){ 3, 0, 0, 0 }, &codec, &other,
                       &image));
    caffe__noise_parameter__init(p);
}

TEST(scene, noise_is_worked_out_by_hand)
{
    static const unsigned char x[] = { 0, 63, 64, 255, 10, 200, 90, 91, 92 };
    Caffe__NoiseParameter p;
    Caffe__SaltPepperParameter salt;
    float value = 255;
    int n       = 0;

    caffe__noise_parameter__init(&p);
    caffe__salt_pepper_parameter__init(&salt);
    start(3, 3, 1, x);
    p.posterize = true;
    noisy(&p);
    pixels_are(&image, (const unsigned char[]){ 32, 32, 96, 224, 32, 224, 96,
                                                96, 96 });
    p.inverse = true;
    noisy(&p);
    pixels_are(&image, (const unsigned char[]){ 223, 223, 159, 31, 223, 31,
                                                159, 159, 159 });
    p.erode = true;
    noisy(&p);
    pixels_are(&image, (const unsigned char[]){ 31, 159, 31, 31, 31, 31, 31,
                                                159, 31 });
    /* Two values: the lower becomes 0, the higher 255. */
    p.hist_eq = true;
    noisy(&p);
    pixels_are(&image, (const unsigned char[]){ 0, 255, 0, 0, 0, 0, 0, 255,
                                                0 });
    p.has_prob = true;
    p.prob     = 0;
    p.inverse  = true;
    noisy(&p);
    ASSERT_INT(0, image.pixels[0]); /* it does not happen */
    memset(image.pixels, 7, 9);
    p.saltpepper       = true;
    p.saltpepper_param = &salt;
    salt.fraction      = .4f;
    salt.n_value       = 1;
    salt.value         = &value;
    noisy(&p);
    for (int i = 0; i < 9; i++)
        n += image.pixels[i] == 255;
    ASSERT(n >= 1 && n <= 3);
    memset(image.pixels, 7, 9);
    p.gauss_blur = p.clahe = true;
    noisy(&p);
    for (int i = 1; i < 9; i++)
        ASSERT_INT(image.pixels[0], image.pixels[i]);
}

/* White, and a saturated blue: published values of CIE Lab. */
TEST(scene, lab_is_cies)
{
    static const unsigned char two[] = { 255, 255, 255, 255, 0, 0 };
    struct ct_room room = { 0 };
    const float *lab;

    start(2, 1, 3, two);
    ASSERT_OK(ct_image_lab(&image, &room));
    lab = room.ptr;
    ASSERT_FLOAT(100, lab[0], .1);
    ASSERT_FLOAT(0, lab[1], .1);
    ASSERT_FLOAT(32.30, lab[3], .1);
    ASSERT_FLOAT(79.19, lab[4], .2);
    ASSERT_FLOAT(-107.86, lab[5], .2);
    ct_room_fini(&room);
}
