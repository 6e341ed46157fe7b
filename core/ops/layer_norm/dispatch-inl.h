// Defines the macros that end a file of normalisation kernels. The file has defined ForwardRows(job) and
// BackwardRows(job), templates over the element type, for each target. EG_NORM_KERNELS_OF_TARGET names their instances,
// still within the target's namespace; EG_DISPATCH_NORM(NAMESPACE), once and within eg, defines the functions `run` of
// that namespace of kernels.h, which pick the target at run time. Macros alone, so that this may be included above
// everything else.

#ifndef EQUIGRAD_LAYER_NORM_DISPATCH_INL_H
#define EQUIGRAD_LAYER_NORM_DISPATCH_INL_H

#define EG_NORM_KERNELS_OF_TARGET                                                                                      \
  void ForwardF32(const Forward<float>& job) { ForwardRows(job); }                                                     \
  void ForwardF64(const Forward<double>& job) { ForwardRows(job); }                                                    \
  void BackwardF32(const Backward<float>& job) { BackwardRows(job); }                                                  \
  void BackwardF64(const Backward<double>& job) { BackwardRows(job); }

#define EG_DISPATCH_NORM(NAMESPACE)                                                                                    \
  HWY_EXPORT(ForwardF32);                                                                                              \
  HWY_EXPORT(ForwardF64);                                                                                              \
  HWY_EXPORT(BackwardF32);                                                                                             \
  HWY_EXPORT(BackwardF64);                                                                                             \
  void NAMESPACE::run(const norm_kernels::Forward<float>& job) { HWY_DYNAMIC_DISPATCH(ForwardF32)(job); }              \
  void NAMESPACE::run(const norm_kernels::Forward<double>& job) { HWY_DYNAMIC_DISPATCH(ForwardF64)(job); }             \
  void NAMESPACE::run(const norm_kernels::Backward<float>& job) { HWY_DYNAMIC_DISPATCH(BackwardF32)(job); }            \
  void NAMESPACE::run(const norm_kernels::Backward<double>& job) { HWY_DYNAMIC_DISPATCH(BackwardF64)(job); }

#endif
