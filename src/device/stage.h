/* stage.h - arrays on their way between a device and the CPU's memory, beside
 * what the device computes.
 *
 *     out    follows all that was queued on the device before it, and runs
 *            next to what is queued after it; marks tell the CPU how far the
 *            copies have come
 *     in     starts at once, next to everything; what is queued behind
 *            ct_stage_follow_in() comes after it
 *
 * A turn is one round of copies out.  All of it, ct_stage_begin() to
 * ct_stage_join(), may be recorded in a graph; the CPU counts turns by itself
 * with ct_stage_expect().  On the CPU everything happens at once.
 *
 * One thread uses a stage. */
#ifndef CT_DEVICE_STAGE_H
#define CT_DEVICE_STAGE_H

#include "cortado/device.h"

struct ct_stage;

/* With n_marks marks. */
CT_MUST_CHECK enum ct_status ct_stage_create(const struct ct_device *d,
                                             int n_marks,
                                             struct ct_stage **out);
void ct_stage_destroy(struct ct_stage *s); /* takes NULL; waits for copies */

/* Zeroed memory of the CPU that copies are fast with. */
CT_MUST_CHECK enum ct_status ct_stage_alloc(const struct ct_device *d,
                                            size_t bytes, const char *name,
                                            void *out);
void ct_stage_free(const struct ct_device *d, void *p);

/* The CPU's side: another turn comes; its marks are not set yet. */
void ct_stage_expect(struct ct_stage *s);
/* Waits until mark i of this turn is set.  While it does, what ct_stage_judge()
 * names is asked now and then whether it ever will be. */
CT_MUST_CHECK enum ct_status ct_stage_wait(struct ct_stage *s, int i);

void ct_stage_judge(struct ct_stage *s, enum ct_status (*judge)(void *arg),
                    void *arg);

/* The device's side, queued: the turn begins, copies go out, mark i is set
 * when those so far are there, the device goes on when all are. */
CT_MUST_CHECK enum ct_status ct_stage_begin(struct ct_stage *s);
CT_MUST_CHECK enum ct_status ct_stage_out(struct ct_stage *s, size_t bytes,
                                          const void *from, void *to);
CT_MUST_CHECK enum ct_status ct_stage_mark(struct ct_stage *s, int i);
CT_MUST_CHECK enum ct_status ct_stage_join(struct ct_stage *s);

/* `from` stays as it is until the device has gone on from follow_in. */
CT_MUST_CHECK enum ct_status ct_stage_in(struct ct_stage *s, size_t bytes,
                                         const void *from, void *to);
CT_MUST_CHECK enum ct_status ct_stage_follow_in(struct ct_stage *s);

/* Sixteen bytes that no other GPU has, in any machine; zeros on the CPU. */
struct ct_device_uuid {
    unsigned char byte[16];
};
struct ct_device_uuid ct_device_uuid(const struct ct_device *d);

/* How a kind of device does it. */
struct ct_stage_ops {
    enum ct_status (*alloc)(const struct ct_device *d, size_t bytes,
                            const char *name, void **out);
    void (*free)(const struct ct_device *d, void *p);
    enum ct_status (*create)(const struct ct_device *d, int n_marks,
                             struct ct_stage **out);
    void (*destroy)(struct ct_stage *s);
    enum ct_status (*wait)(struct ct_stage *s, int i);
    enum ct_status (*begin)(struct ct_stage *s);
    enum ct_status (*out)(struct ct_stage *s, size_t bytes, const void *from,
                          void *to);
    enum ct_status (*mark)(struct ct_stage *s, int i);
    enum ct_status (*join)(struct ct_stage *s);
    enum ct_status (*in)(struct ct_stage *s, size_t bytes, const void *from,
                         void *to);
    enum ct_status (*follow_in)(struct ct_stage *s);
};
/* The head of every kind's. */
struct ct_stage {
    const struct ct_stage_ops *ops;
    const struct ct_device    *dev;
    uint64_t                   turn; /* that the CPU expects */
    enum ct_status           (*judge)(void *arg); /* NULL: nobody */
    void                      *judge_arg;
};
/* cuda/stage.c, or cuda/absent.c, where it is NULL. */
const struct ct_stage_ops *ct_cuda_stage_ops(void);

#endif
