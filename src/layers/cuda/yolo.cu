/* yolo.cu - RegionLoss and Yolov3 on a GPU; formulas and shapes as in yolo.h
 * and their .c files.  A truth whose label is no class fills no class. */
#include "layers/cuda/pass_draws.h"
#include "layers/cuda/loss_kernels.h"
#include "layers/yolov3.h"

/* `early_rows`: a run that has seen fewer images has hardly begun; 0: never. */
__global__ static void empty_boxes(int64_t n, struct yolo y,
                                   struct draws draws, uint64_t early_rows,
                                   const float *x, const float *truth,
                                   float *act, float *delta)
{
    CT_TURN();
    const int64_t cells = y.h * y.w;
    const bool early    = early_rows > 0 && draws.first(y.n) < early_rows;

    CT_KERNEL_EACH (i, n)
        yolo_empty(&y, x, truth, i / cells / y.num, i / cells % y.num,
                   i % cells, early, act, delta);
}

/* A thread an image: its truths come one after the other. */
__global__ static void fill_boxes(struct yolo y, const float *truth,
                                  const float *act, float *delta)
{
    CT_TURN();
    CT_KERNEL_EACH (b, y.n)
        yolo_fill(&y, truth, b, act, delta);
}

struct squares {
    const float *delta;

    __device__ float operator()(int64_t i, bool *) const
    {
        return delta[i] * delta[i];
    }
};

static enum ct_status forward(const struct ct_layer *l, const struct ct_io *io,
                              const struct yolo *y, uint64_t early_rows)
{
    const int64_t n = y->n * y->num * y->h * y->w;
    const float *truth = ct_data(io->bottom[1]);
    float *act = ct_data(y->act), *delta = ct_data(y->delta);

    if (n > 0) {
        CT_TRY(CT_LAUNCH(l->dev, n, empty_boxes, n, *y, draws_of(l),
                         early_rows, (const float *)ct_data(io->bottom[0]),
                         truth, act, delta));
        CT_TRY(CT_LAUNCH(l->dev, y->n, fill_boxes, *y, truth,
                         (const float *)act, delta));
    }
    return ct_loss_run(l->dev, io->bottom[0]->count, squares{ delta },
                       y->n > 1 ? (double)y->n : 1, NULL,
                       ct_data(io->top[0]));
}

__global__ static void yolo_grad(int64_t n, struct yolov3 s,
                                 const float *weight, const float *act,
                                 const float *delta, float *dx)
{
    CT_TURN();
    CT_KERNEL_EACH (i, n)
        dx[i] = *weight / (float)s.yolo.n * delta[i] *
                yolov3_slope(&s, i, act[i]);
}

static enum ct_status backward(const struct ct_layer *l,
                               const struct ct_io *io, const struct yolov3 *s)
{
    const int64_t n = io->bottom[0]->count;

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    return CT_LAUNCH(l->dev, n, yolo_grad, n, *s,
                     (const float *)ct_diff(io->top[0]),
                     (const float *)ct_data(s->yolo.act),
                     (const float *)ct_data(s->yolo.delta),
                     ct_diff(io->bottom[0]));
}

extern "C" enum ct_status ct_cuda_region_loss_forward(struct ct_layer *l,
                                                      const struct ct_io *io)
{
    return forward(l, io, (const struct yolo *)l->state, 12800);
}

extern "C" enum ct_status ct_cuda_region_loss_backward(struct ct_layer *l,
                                                       const struct ct_io *io)
{
    struct yolov3 s = {};

    s.yolo = *(const struct yolo *)l->state;
    return backward(l, io, &s);
}

extern "C" enum ct_status ct_cuda_yolov3_forward(struct ct_layer *l,
                                                 const struct ct_io *io)
{
    return forward(l, io, &((const struct yolov3 *)l->state)->yolo, 0);
}

extern "C" enum ct_status ct_cuda_yolov3_backward(struct ct_layer *l,
                                                  const struct ct_io *io)
{
    return backward(l, io, (const struct yolov3 *)l->state);
}
