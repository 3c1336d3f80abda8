/* node.h - a message that holds itself, by hand.
 *
 *     message Node { optional Node child = 1; }
 *
 * For what no message of Caffe can do: nest without end. */
#ifndef CT_TESTS_PROTO_NODE_H
#define CT_TESTS_PROTO_NODE_H

#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

struct node {
    ProtobufCMessage base;
    struct node *child;
};

static void node_init(ProtobufCMessage *m);

static const ProtobufCMessageDescriptor node_type;

static const ProtobufCFieldDescriptor node_fields[] = {
    {
        .name       = "child",
        .id         = 1,
        .label      = PROTOBUF_C_LABEL_OPTIONAL,
        .type       = PROTOBUF_C_TYPE_MESSAGE,
        .offset     = offsetof(struct node, child),
        .descriptor = &node_type,
    },
};

static const unsigned node_by_name[] = { 0 };

static const ProtobufCIntRange node_ranges[] = { { 1, 0 }, { 0, 1 } };

static const ProtobufCMessageDescriptor node_type = {
    .magic                 = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
    .name                  = "Node",
    .sizeof_message        = sizeof(struct node),
    .n_fields              = 1,
    .fields                = node_fields,
    .fields_sorted_by_name = node_by_name,
    .n_field_ranges        = 1,
    .field_ranges          = node_ranges,
    .message_init          = node_init,
};

static void node_init(ProtobufCMessage *m)
{
    *(struct node *)m = (struct node){ .base = { &node_type, 0, NULL } };
}

#endif
