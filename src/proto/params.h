/* params.h - the parameters of a layer, its own or the defaults.
 *
 *     const Caffe__ReLUParameter *p = ct_relu_param(layer->param);
 *
 * For each `<name>_param` of LayerParameter a function ct_<name>_param() that
 * gives the layer's message, or one with every field unset and at its default
 * when the layer has none.  Borrowed: as long as the layer's parameters live.
 * (The field `base` of ExpParameter and LogParameter is `base_` in C: every
 * struct of protobuf-c has a first member `base`.) */
#ifndef CT_PROTO_PARAMS_H
#define CT_PROTO_PARAMS_H

#include "cortado/caffe.pb-c.h"

/* The generated initialisers write float defaults as double constants. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wfloat-conversion"
#if defined(__clang__)
#pragma GCC diagnostic ignored "-Wimplicit-float-conversion"
#endif

#define CT_PARAM(field, type, init)                                          \
    static inline const Caffe__##type *ct_##field(                           \
        const Caffe__LayerParameter *p)                                      \
    {                                                                        \
        static const Caffe__##type defaults = init;                          \
                                                                             \
        return p->field ? p->field : &defaults;                              \
    }

CT_PARAM(transform_param, TransformationParameter,
         CAFFE__TRANSFORMATION_PARAMETER__INIT)
CT_PARAM(loss_param, LossParameter, CAFFE__LOSS_PARAMETER__INIT)
CT_PARAM(accuracy_param, AccuracyParameter, CAFFE__ACCURACY_PARAMETER__INIT)
CT_PARAM(argmax_param, ArgMaxParameter, CAFFE__ARG_MAX_PARAMETER__INIT)
CT_PARAM(batch_norm_param, BatchNormParameter,
         CAFFE__BATCH_NORM_PARAMETER__INIT)
CT_PARAM(bias_param, BiasParameter, CAFFE__BIAS_PARAMETER__INIT)
CT_PARAM(clip_param, ClipParameter, CAFFE__CLIP_PARAMETER__INIT)
CT_PARAM(concat_param, ConcatParameter, CAFFE__CONCAT_PARAMETER__INIT)
CT_PARAM(contrastive_loss_param, ContrastiveLossParameter,
         CAFFE__CONTRASTIVE_LOSS_PARAMETER__INIT)
CT_PARAM(convolution_param, ConvolutionParameter,
         CAFFE__CONVOLUTION_PARAMETER__INIT)
CT_PARAM(crop_param, CropParameter, CAFFE__CROP_PARAMETER__INIT)
CT_PARAM(data_param, DataParameter, CAFFE__DATA_PARAMETER__INIT)
CT_PARAM(dropout_param, DropoutParameter, CAFFE__DROPOUT_PARAMETER__INIT)
CT_PARAM(dummy_data_param, DummyDataParameter,
         CAFFE__DUMMY_DATA_PARAMETER__INIT)
CT_PARAM(eltwise_param, EltwiseParameter, CAFFE__ELTWISE_PARAMETER__INIT)
CT_PARAM(elu_param, ELUParameter, CAFFE__ELUPARAMETER__INIT)
CT_PARAM(embed_param, EmbedParameter, CAFFE__EMBED_PARAMETER__INIT)
CT_PARAM(exp_param, ExpParameter, CAFFE__EXP_PARAMETER__INIT)
CT_PARAM(flatten_param, FlattenParameter, CAFFE__FLATTEN_PARAMETER__INIT)
CT_PARAM(hdf5_data_param, HDF5DataParameter, CAFFE__HDF5_DATA_PARAMETER__INIT)
CT_PARAM(hdf5_output_param, HDF5OutputParameter,
         CAFFE__HDF5_OUTPUT_PARAMETER__INIT)
CT_PARAM(hinge_loss_param, HingeLossParameter,
         CAFFE__HINGE_LOSS_PARAMETER__INIT)
CT_PARAM(image_data_param, ImageDataParameter,
         CAFFE__IMAGE_DATA_PARAMETER__INIT)
CT_PARAM(infogain_loss_param, InfogainLossParameter,
         CAFFE__INFOGAIN_LOSS_PARAMETER__INIT)
CT_PARAM(inner_product_param, InnerProductParameter,
         CAFFE__INNER_PRODUCT_PARAMETER__INIT)
CT_PARAM(input_param, InputParameter, CAFFE__INPUT_PARAMETER__INIT)
CT_PARAM(log_param, LogParameter, CAFFE__LOG_PARAMETER__INIT)
CT_PARAM(lrn_param, LRNParameter, CAFFE__LRNPARAMETER__INIT)
CT_PARAM(memory_data_param, MemoryDataParameter,
         CAFFE__MEMORY_DATA_PARAMETER__INIT)
CT_PARAM(mvn_param, MVNParameter, CAFFE__MVNPARAMETER__INIT)
CT_PARAM(parameter_param, ParameterParameter, CAFFE__PARAMETER_PARAMETER__INIT)
CT_PARAM(pooling_param, PoolingParameter, CAFFE__POOLING_PARAMETER__INIT)
CT_PARAM(power_param, PowerParameter, CAFFE__POWER_PARAMETER__INIT)
CT_PARAM(prelu_param, PReLUParameter, CAFFE__PRE_LUPARAMETER__INIT)
CT_PARAM(python_param, PythonParameter, CAFFE__PYTHON_PARAMETER__INIT)
CT_PARAM(recurrent_param, RecurrentParameter, CAFFE__RECURRENT_PARAMETER__INIT)
CT_PARAM(reduction_param, ReductionParameter, CAFFE__REDUCTION_PARAMETER__INIT)
CT_PARAM(relu_param, ReLUParameter, CAFFE__RE_LUPARAMETER__INIT)
CT_PARAM(reshape_param, ReshapeParameter, CAFFE__RESHAPE_PARAMETER__INIT)
CT_PARAM(scale_param, ScaleParameter, CAFFE__SCALE_PARAMETER__INIT)
CT_PARAM(sigmoid_param, SigmoidParameter, CAFFE__SIGMOID_PARAMETER__INIT)
CT_PARAM(softmax_param, SoftmaxParameter, CAFFE__SOFTMAX_PARAMETER__INIT)
CT_PARAM(spp_param, SPPParameter, CAFFE__SPPPARAMETER__INIT)
CT_PARAM(slice_param, SliceParameter, CAFFE__SLICE_PARAMETER__INIT)
CT_PARAM(swish_param, SwishParameter, CAFFE__SWISH_PARAMETER__INIT)
CT_PARAM(tanh_param, TanHParameter, CAFFE__TAN_HPARAMETER__INIT)
CT_PARAM(threshold_param, ThresholdParameter, CAFFE__THRESHOLD_PARAMETER__INIT)
CT_PARAM(tile_param, TileParameter, CAFFE__TILE_PARAMETER__INIT)
CT_PARAM(window_data_param, WindowDataParameter,
         CAFFE__WINDOW_DATA_PARAMETER__INIT)
CT_PARAM(permute_param, PermuteParameter, CAFFE__PERMUTE_PARAMETER__INIT)
CT_PARAM(prior_box_param, PriorBoxParameter, CAFFE__PRIOR_BOX_PARAMETER__INIT)
CT_PARAM(detection_output_param, DetectionOutputParameter,
         CAFFE__DETECTION_OUTPUT_PARAMETER__INIT)
CT_PARAM(annotated_data_param, AnnotatedDataParameter,
         CAFFE__ANNOTATED_DATA_PARAMETER__INIT)
CT_PARAM(multibox_loss_param, MultiBoxLossParameter,
         CAFFE__MULTI_BOX_LOSS_PARAMETER__INIT)
CT_PARAM(detection_evaluate_param, DetectionEvaluateParameter,
         CAFFE__DETECTION_EVALUATE_PARAMETER__INIT)
CT_PARAM(norm_param, NormalizeParameter, CAFFE__NORMALIZE_PARAMETER__INIT)
CT_PARAM(roi_pooling_param, ROIPoolingParameter,
         CAFFE__ROIPOOLING_PARAMETER__INIT)
CT_PARAM(interp_param, InterpParameter, CAFFE__INTERP_PARAMETER__INIT)
CT_PARAM(upsample_param, UpsampleParameter, CAFFE__UPSAMPLE_PARAMETER__INIT)
CT_PARAM(shuffle_channel_param, ShuffleChannelParameter,
         CAFFE__SHUFFLE_CHANNEL_PARAMETER__INIT)
CT_PARAM(smooth_l1_loss_param, SmoothL1LossParameter,
         CAFFE__SMOOTH_L1_LOSS_PARAMETER__INIT)
CT_PARAM(proposal_param, ProposalParameter, CAFFE__PROPOSAL_PARAMETER__INIT)
CT_PARAM(psroi_pooling_param, PSROIPoolingParameter,
         CAFFE__PSROIPOOLING_PARAMETER__INIT)
CT_PARAM(roi_align_param, ROIAlignParameter, CAFFE__ROIALIGN_PARAMETER__INIT)
CT_PARAM(box_annotator_ohem_param, BoxAnnotatorOHEMParameter,
         CAFFE__BOX_ANNOTATOR_OHEMPARAMETER__INIT)
CT_PARAM(bbox_reg_param, BBoxRegParameter, CAFFE__BBOX_REG_PARAMETER__INIT)
CT_PARAM(decode_bbox_param, DecodeBBoxParameter,
         CAFFE__DECODE_BBOX_PARAMETER__INIT)
CT_PARAM(proposal_target_param, ProposalTargetParameter,
         CAFFE__PROPOSAL_TARGET_PARAMETER__INIT)
CT_PARAM(bn_param, BNParameter, CAFFE__BNPARAMETER__INIT)
CT_PARAM(dense_image_data_param, DenseImageDataParameter,
         CAFFE__DENSE_IMAGE_DATA_PARAMETER__INIT)
CT_PARAM(reorg_param, ReorgParameter, CAFFE__REORG_PARAMETER__INIT)
CT_PARAM(region_loss_param, RegionLossParameter,
         CAFFE__REGION_LOSS_PARAMETER__INIT)
CT_PARAM(yolov3_detection_output_param, Yolov3DetectionOutputParameter,
         CAFFE__YOLOV3_DETECTION_OUTPUT_PARAMETER__INIT)
CT_PARAM(yolov3_param, Yolov3Parameter, CAFFE__YOLOV3_PARAMETER__INIT)
CT_PARAM(l1_loss_param, L1LossParameter, CAFFE__L1_LOSS_PARAMETER__INIT)
CT_PARAM(pad_param, PadParameter, CAFFE__PAD_PARAMETER__INIT)
CT_PARAM(matmul_param, MatMulParameter, CAFFE__MAT_MUL_PARAMETER__INIT)
CT_PARAM(center_loss_param, CenterLossParameter,
         CAFFE__CENTER_LOSS_PARAMETER__INIT)
CT_PARAM(focal_loss_param, FocalLossParameter,
         CAFFE__FOCAL_LOSS_PARAMETER__INIT)
CT_PARAM(group_norm_param, GroupNormParameter,
         CAFFE__GROUP_NORM_PARAMETER__INIT)

#undef CT_PARAM
#pragma GCC diagnostic pop

#endif
