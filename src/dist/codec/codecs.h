/* codecs.h - the codecs of codecs.def, by name; for codec.c and for tests.
 *
 * What includes this is compiled again when the list changes. */
#ifndef CT_DIST_CODEC_CODECS_H
#define CT_DIST_CODEC_CODECS_H

#include "dist/codec/codec.h"

#define DIST_CODEC(name) extern const struct dist_codec_type dist_codec_##name;
#include "dist/codec/codecs.def"
#undef DIST_CODEC

#endif
