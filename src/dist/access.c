/* access.c - joining peers, for bindings. */
#include <string.h>

#include "cortado/dist.h"

enum ct_status ct_dist_open(const char *text, struct ct_dist **out)
{
    Caffe__DistributedParameter *options = NULL;
    enum ct_status st;

    CT_TRY(ct_text_parse(&caffe__distributed_parameter__descriptor, text,
                         strlen(text), "distributed options", &options));
    st = ct_dist_create(options, out);
    ct_message_free(options);
    return st;
}
