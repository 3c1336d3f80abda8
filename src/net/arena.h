/* arena.h - the memory that a net's parameters lie in, for those who send,
 * update and keep them.
 *
 * The first CT_ARENA_RIDERS floats of the arenas (ct_net_arena_data) belong to
 * no parameter: numbers that travel with the gradients stand there. */
#ifndef CT_NET_ARENA_H
#define CT_NET_ARENA_H

#include "cortado/net.h"

struct ct_buffer;

enum { CT_ARENA_RIDERS = 16 };

/* Lets parameters lie as the layers that read them take them, values and
 * gradients, or as Caffe has them again; and with them `n_more` arrays that
 * are laid out as the arenas.  Blobs say how they lie, and ct_blob_get() gives
 * Caffe's order in any case. */
CT_MUST_CHECK enum ct_status ct_net_pack(struct ct_net *net, bool packed,
                                         float *const *more, int n_more);
/* Moves the arena of gradients, as it is, to this memory; NULL: to memory of
 * the net's own. */
CT_MUST_CHECK enum ct_status ct_net_move_diffs(struct ct_net *net,
                                               struct ct_buffer *memory);
/* Gradients that lie in memory of others move to memory of the net's own; none
 * is made where the net has it, or has no gradients. */
CT_MUST_CHECK enum ct_status ct_net_own_diffs(struct ct_net *net);
/* Values and gradients become zeros, and take no memory until they are touched.
 * For a net of the CPU that is about to get others. */
void ct_net_clear_arenas(struct ct_net *net);
/* Gradients lie in this memory from now on; what they were is lost. */
void ct_net_lend_diffs(struct ct_net *net, struct ct_buffer *memory);
/* Learned parameters lie in `shared`, which is filled and laid out as the
 * arena; those with lr_mult 0, such as statistics, stay the net's own and are
 * in no arena.  NULL: all lie in an arena of the net's own again, as they are.
 * Nets that share weights with this one must be told again. */
CT_MUST_CHECK enum ct_status ct_net_share_values(struct ct_net *net,
                                                 struct ct_buffer *shared);
/* As in the net `from`, which has the same parameters and shares its learned
 * ones: this one shares them, too, and gets copies of the others. */
CT_MUST_CHECK enum ct_status ct_net_share_values_of(
    struct ct_net *net, const struct ct_net *from);
/* The array in which they lie is only this net's by now, and its arena: those
 * that are not learned go there as well.  Nets that share weights with this one
 * must be told again. */
CT_MUST_CHECK enum ct_status ct_net_keep_values(struct ct_net *net);
/* Takes the arenas over from `from`, which will be destroyed.  It has the same
 * parameters, and no other rank shares them.  No value is copied and no page is
 * touched for the first time.  Gradients in borrowed memory stay behind.  For
 * nets on the CPU. */
void ct_net_take_arenas(struct ct_net *net, const struct ct_net *from);
/* Such parameters lie in another array of that kind from now on.  Nets that
 * share weights with this one still read the old one. */
void ct_net_swap_values(struct ct_net *net, struct ct_buffer *shared);
/* Whether the layer makes the gradient of this parameter itself; else its
 * factors are taken from it (struct ct_factors), and the gradient is made
 * elsewhere. */
void ct_net_make_gradient(struct ct_net *net, int param, bool itself);

#endif
