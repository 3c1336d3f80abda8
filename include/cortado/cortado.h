/* cortado/cortado.h - the whole installed API. */
#ifndef CT_CORTADO_H
#define CT_CORTADO_H

#include "cortado/access.h"
#include "cortado/blob.h"
#include "cortado/device.h"
#include "cortado/dist.h"
#include "cortado/elastic.h"
#include "cortado/events.h"
#include "cortado/image.h"
#include "cortado/layer.h"
#include "cortado/log.h"
#include "cortado/mem.h"
#include "cortado/net.h"
#include "cortado/onnx.h"
#include "cortado/plugin.h"
#include "cortado/proto.h"
#include "cortado/python.h"
#include "cortado/shape.h"
#include "cortado/solver.h"
#include "cortado/status.h"

#endif
