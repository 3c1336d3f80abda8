/* test_draw.c - nets as boxes and arrows, laid out in rows. */
#include "observe/draw.h"
#include "testing/test.h"

enum { WIDE = 100, HIGH = 40 };

static Caffe__NetParameter *net;
static struct draw_graph graph;
static struct draw_layout layout;
static struct ct_text text;

static void drop(void *arg)
{
    (void)arg;
    draw_graph_fini(&graph);
    draw_layout_fini(&layout);
    ct_text_fini(&text);
    ct_message_free(net);
    net = NULL;
}

static void parse(const char *prototxt)
{
    net    = NULL;
    graph  = (struct draw_graph){ 0 };
    layout = (struct draw_layout){ 0 };
    text   = (struct ct_text){ 0 };
    test_defer(drop, NULL);
    ASSERT_OK(ct_text_parse(&caffe__net_parameter__descriptor, prototxt,
                            strlen(prototxt), "net", &net));
}

static void lay_out(const char *prototxt)
{
    parse(prototxt);
    ASSERT_OK(draw_graph_make(net, &graph));
    ASSERT_OK(draw_layout_make(&graph, WIDE, HIGH, &layout));
}

#define LAYER(name, bottoms, top)                                            \
    "layer { name: '" name "' type: 'X' " bottoms " top: '" top "' }\n"
#define READS(blob) "bottom: '" blob "' "

/* A diamond with a way past it, and a layer in place. */
static const char diamond[] =
    LAYER("data", "", "a") LAYER("left", READS("a"), "b")
    LAYER("right", READS("a"), "c") LAYER("relu", READS("c"), "c")
    LAYER("sum", READS("b") READS("c") READS("a"), "d");

TEST(draw, arrows_come_from_the_last_layer_that_made_the_blob)
{
    static const int want[][2] = { { 0, 1 }, { 0, 2 }, { 2, 3 }, { 1, 4 },
                                   { 3, 4 }, { 0, 4 } };

    parse(diamond);
    ASSERT_OK(draw_graph_make(net, &graph));
    ASSERT_INT(5, graph.n_boxes);
    ASSERT_INT(6, graph.n_arrows);
    for (int i = 0; i < 6; i++) {
        ASSERT_INT(want[i][0], graph.arrow[i].from);
        ASSERT_INT(want[i][1], graph.arrow[i].to);
    }
    ASSERT_STR("c", graph.arrow[4].blob);
}

TEST(draw, a_bottom_that_nobody_makes_is_refused)
{
    parse(LAYER("ip", READS("nowhere"), "x"));
    ASSERT_STATUS(CT_EINVAL, draw_graph_make(net, &graph));
    ASSERT_HAS("ip", ct_last_error());
    ASSERT_HAS("nowhere", ct_last_error());
}

TEST(draw, boxes_do_not_overlap_and_arrows_lead_down)
{
    lay_out(diamond);
    for (int a = 0; a < graph.n_arrows; a++) {
        double y = layout.box[graph.arrow[a].from].y;

        for (int i = layout.first[a]; i < layout.first[a + 1]; i++) {
            ASSERT(layout.bend[i].y > y);
            y = layout.bend[i].y;
        }
        ASSERT(layout.box[graph.arrow[a].to].y > y);
    }
    for (int i = 0; i < graph.n_boxes; i++)
        for (int k = 0; k < i; k++)
            ASSERT(layout.box[i].y != layout.box[k].y ||
                   fabs(layout.box[i].x - layout.box[k].x) >= WIDE);
    for (int i = 0; i < graph.n_boxes; i++) {
        ASSERT(layout.box[i].x >= WIDE / 2.0);
        ASSERT(layout.box[i].x <= layout.width - WIDE / 2.0);
        ASSERT(layout.box[i].y <= layout.height - HIGH / 2.0);
    }
    /* data, then left and right, relu, sum */
    ASSERT(layout.box[1].y == layout.box[2].y);
    ASSERT(layout.box[3].y > layout.box[2].y);
    /* The arrow past the diamond bends in two rows, that of left in one. */
    ASSERT_INT(2, layout.first[6] - layout.first[5]);
    ASSERT_INT(1, layout.first[4] - layout.first[3]);
}

TEST(draw, a_chain_is_straight)
{
    lay_out(LAYER("a", "", "a") LAYER("b", READS("a"), "b")
            LAYER("c", READS("b"), "c"));
    for (int i = 1; i < 3; i++)
        ASSERT_FLOAT(layout.box[0].x, layout.box[i].x, 1e-6);
}

TEST(draw, crossings_are_undone)
{
    /* a feeds d, b feeds c: in the order of the file they would cross. */
    lay_out(LAYER("a", "", "a") LAYER("b", "", "b")
            LAYER("c", READS("b"), "c") LAYER("d", READS("a"), "d"));
    ASSERT((layout.box[0].x < layout.box[1].x) ==
           (layout.box[3].x < layout.box[2].x));
}

TEST(draw, a_source_stands_above_who_reads_it_first)
{
    lay_out(LAYER("data", "", "x") LAYER("a", READS("x"), "a")
            LAYER("b", READS("a"), "b") LAYER("label", "", "l")
            LAYER("loss", READS("b") READS("l"), "loss"));
    ASSERT_FLOAT(layout.box[2].y, layout.box[3].y, 0);
}

TEST(draw, the_picture_names_layers_types_and_blobs)
{
    parse("layer { name: 'a<b' type: 'Input' top: 'x&y' }\n"
          "layer { name: 'conv' type: 'Convolution' bottom: 'x&y' top: 'c' "
          "convolution_param { num_output: 20 kernel_size: 5 stride: 2 } }");
    ASSERT_OK(ct_draw_net(net, &text));
    ASSERT_HAS("a&lt;b", text.s);
    ASSERT_HAS("x&amp;y", text.s);
    ASSERT_HAS("20 x 5x5, stride 2", text.s);
    ASSERT_HAS("</svg>", text.s);
    ct_text_fini(&text);
    ASSERT_OK(ct_draw_dot(net, &text));
    ASSERT_HAS("l0 -> l1 [tooltip=\"x&y\"]", text.s);
}
