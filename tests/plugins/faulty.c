/* faulty.c - plug-ins with a fault each, as FAULT names it. */
#include <cortado/plugin.h>

enum { VERSION = 1, SIZE, EMPTY, NAMELESS, HALF, TAKEN };

static enum ct_status nothing(struct ct_layer *l, const struct ct_io *io)
{
    (void)l, (void)io;
    return CT_OK;
}

static const struct ct_layer_type type = {
    .name     = FAULT == NAMELESS ? "" : FAULT == TAKEN ? "ReLU" : "Faulty",
    .reshape  = nothing,
    .forward  = { [CT_CPU] = FAULT == HALF ? NULL : nothing },
    .backward = { [CT_CPU] = nothing },
};

#ifdef ENTRY
CT_PLUGIN_SHOWN const struct ct_plugin *cortado_plugin(void);

const struct ct_plugin *cortado_plugin(void)
{
    static const struct ct_layer_type *const layers[] = { &type };
    static const struct ct_plugin plugin              = {
        FAULT == VERSION ? CT_PLUGIN_VERSION + 1 : CT_PLUGIN_VERSION,
        sizeof(struct ct_layer_type) + (FAULT == SIZE ? 8 : 0),
        sizeof(struct ct_layer),
        sizeof(struct ct_blob),
        "faulty",
        layers,
        FAULT == EMPTY ? 0 : 1
    };

    return &plugin;
}
#else
const struct ct_layer_type *faulty_type(void);

const struct ct_layer_type *faulty_type(void)
{
    return &type;
}
#endif
