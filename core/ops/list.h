#pragma once
// The explicit list of op rows, one name a line. registry.cpp makes the registry from it; every name declares
// `extern const OpDef NAME_op`, defined beside the op's kernels.

#include "core/op.h"

#define EG_OP_LIST(X)                                                                                                  \
  X(neg)                                                                                                               \
  X(exp)                                                                                                               \
  X(log)                                                                                                               \
  X(sqrt)                                                                                                              \
  X(rsqrt)                                                                                                             \
  X(tanh)                                                                                                              \
  X(sigmoid)                                                                                                           \
  X(relu)                                                                                                              \
  X(gelu)                                                                                                              \
  X(gelu_tanh)                                                                                                         \
  X(silu)                                                                                                              \
  X(affine)                                                                                                            \
  X(add)                                                                                                               \
  X(sub)                                                                                                               \
  X(mul)                                                                                                               \
  X(div)                                                                                                               \
  X(tanh_backward)                                                                                                     \
  X(sigmoid_backward)                                                                                                  \
  X(relu_backward)                                                                                                     \
  X(gelu_backward)                                                                                                     \
  X(gelu_tanh_backward)                                                                                                \
  X(silu_backward)                                                                                                     \
  X(sum)                                                                                                               \
  X(mean)                                                                                                              \
  X(sum_to)                                                                                                            \
  X(max)                                                                                                               \
  X(argmax)                                                                                                            \
  X(dropout)                                                                                                           \
  X(matmul)                                                                                                            \
  X(einsum)                                                                                                            \
  X(linear)                                                                                                            \
  X(linear_gelu)                                                                                                       \
  X(unfold)                                                                                                            \
  X(fold)                                                                                                              \
  X(conv2d)                                                                                                            \
  X(conv2d_input_backward)                                                                                             \
  X(conv2d_weight_backward)                                                                                            \
  X(max_pool2d)                                                                                                        \
  X(adaptive_max_pool2d)                                                                                               \
  X(avg_pool2d)                                                                                                        \
  X(avg_pool2d_backward)                                                                                               \
  X(adaptive_avg_pool2d)                                                                                               \
  X(adaptive_avg_pool2d_backward)                                                                                      \
  X(interpolate)                                                                                                       \
  X(interpolate_backward)                                                                                              \
  X(fft_low_pass)                                                                                                      \
  X(softmax)                                                                                                           \
  X(softmax_backward)                                                                                                  \
  X(masked_softmax)                                                                                                    \
  X(log_softmax)                                                                                                       \
  X(log_softmax_backward)                                                                                              \
  X(layer_norm)                                                                                                        \
  X(layer_norm_backward)                                                                                               \
  X(rms_norm)                                                                                                          \
  X(rms_norm_backward)                                                                                                 \
  X(batch_norm)                                                                                                        \
  X(batch_norm_backward)                                                                                               \
  X(batch_norm_inference)                                                                                              \
  X(group_norm)                                                                                                        \
  X(instance_norm)                                                                                                     \
  X(rotary)                                                                                                            \
  X(glu)                                                                                                               \
  X(glu_backward)                                                                                                      \
  X(reglu)                                                                                                             \
  X(reglu_backward)                                                                                                    \
  X(swiglu)                                                                                                            \
  X(swiglu_backward)                                                                                                   \
  X(geglu)                                                                                                             \
  X(geglu_backward)                                                                                                    \
  X(drop_path)                                                                                                         \
  X(scaled_dot_product_attention)                                                                                      \
  X(scaled_dot_product_attention_backward)                                                                             \
  X(attention_qkv)                                                                                                     \
  X(attention_qkv_backward)                                                                                            \
  X(cross_entropy)                                                                                                     \
  X(cross_entropy_backward)                                                                                            \
  X(soft_cross_entropy)                                                                                                \
  X(nll_loss)                                                                                                          \
  X(bce_with_logits)                                                                                                   \
  X(mse_loss)                                                                                                          \
  X(l1_loss)                                                                                                           \
  X(smooth_l1_loss)                                                                                                    \
  X(huber_loss)                                                                                                        \
  X(kl_div)                                                                                                            \
  X(cosine_similarity)                                                                                                 \
  X(cosine_embedding_loss)                                                                                             \
  X(huber)                                                                                                             \
  X(huber_slope)                                                                                                       \
  X(log_sigmoid)                                                                                                       \
  X(xlogx)                                                                                                             \
  X(reshape)                                                                                                           \
  X(transpose)                                                                                                         \
  X(permute)                                                                                                           \
  X(slice)                                                                                                             \
  X(slice_backward)                                                                                                    \
  X(expand)                                                                                                            \
  X(squeeze)                                                                                                           \
  X(unsqueeze)                                                                                                         \
  X(contiguous)                                                                                                        \
  X(cast)                                                                                                              \
  X(concat)                                                                                                            \
  X(stack)                                                                                                             \
  X(pad)                                                                                                               \
  X(patchify)                                                                                                          \
  X(unpatchify)                                                                                                        \
  X(embedding)                                                                                                         \
  X(embedding_backward)                                                                                                \
  X(index_select)                                                                                                      \
  X(index_select_backward)                                                                                             \
  X(gather)                                                                                                            \
  X(scatter_add)                                                                                                       \
  X(permute_rows)                                                                                                      \
  X(permute_columns)                                                                                                   \
  X(invert_permutation)

namespace eg {

#define EG_DECLARE(NAME) extern const OpDef NAME##_op;
EG_OP_LIST(EG_DECLARE)
#undef EG_DECLARE

} // namespace eg
