// Defines the macros that end a file of pointwise vector kernels. The file has defined `template <Reduction r,
// class T> pointwise::Kernels<T> Kernels()` for each target. EG_KERNELS_OF_TARGET names its instances, still within the
// target's namespace; EG_DISPATCH_KERNELS(NAME), once and within eg, defines pointwise::NAME, which picks the target at
// run time. Macros alone, so that this may be included above everything else.

#ifndef EQUIGRAD_POINTWISE_DISPATCH_INL_H
#define EQUIGRAD_POINTWISE_DISPATCH_INL_H

#define EG_KERNELS_OF_TARGET                                                                                           \
  pointwise::Kernels<float> KernelsF32(Reduction r) {                                                                  \
    return r == Reduction::exact ? Kernels<Reduction::exact, float>() : Kernels<Reduction::fast, float>();             \
  }                                                                                                                    \
  pointwise::Kernels<double> KernelsF64(Reduction r) {                                                                 \
    return r == Reduction::exact ? Kernels<Reduction::exact, double>() : Kernels<Reduction::fast, double>();           \
  }

#define EG_DISPATCH_KERNELS(NAME)                                                                                      \
  HWY_EXPORT(KernelsF32);                                                                                              \
  HWY_EXPORT(KernelsF64);                                                                                              \
  template <> pointwise::Kernels<float> pointwise::NAME(Reduction r) { return HWY_DYNAMIC_DISPATCH(KernelsF32)(r); }   \
  template <> pointwise::Kernels<double> pointwise::NAME(Reduction r) { return HWY_DYNAMIC_DISPATCH(KernelsF64)(r); }

#endif
