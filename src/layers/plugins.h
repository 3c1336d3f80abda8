/* plugins.h - what nets ask of the plug-ins. */
#ifndef CT_LAYERS_PLUGINS_H
#define CT_LAYERS_PLUGINS_H

#include "cortado/plugin.h"

/* Before a net is built: loads the plug-ins that the environment and the
 * prototxt name. */
CT_MUST_CHECK enum ct_status ct_plugins_load_asked(
    const Caffe__NetParameter *param);

#endif
