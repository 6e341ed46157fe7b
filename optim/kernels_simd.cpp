#include "optim/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/kernels_simd.cpp"
#include "core/simd/simd-inl.h"

#include "optim/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace eg::optim::HWY_NAMESPACE {
namespace {

#define EG_UPDATE(NAME, SUFFIX, T, PARAMETERS, ...)                                                                    \
  void NAME##SUFFIX PARAMETERS {                                                                                       \
    if (reduction() == Reduction::exact)                                                                               \
      NAME<Reduction::exact, T>(__VA_ARGS__);                                                                          \
    else                                                                                                               \
      NAME<Reduction::fast, T>(__VA_ARGS__);                                                                           \
  }
#define EG_UPDATES(SUFFIX, T)                                                                                          \
  EG_UPDATE(Sgd, SUFFIX, T, (const SgdNumbers& n, T* w, T* v, const T* g, std::int64_t count), n, w, v, g, count)      \
  EG_UPDATE(Adam, SUFFIX, T, (const AdamNumbers& n, T* w, T* m, T* v, const T* g, std::int64_t count), n, w, m, v, g,  \
            count)                                                                                                     \
  EG_UPDATE(RmsProp, SUFFIX, T, (const RmsPropNumbers& n, T* w, T* v, T* b, const T* g, std::int64_t count), n, w, v,  \
            b, g, count)                                                                                               \
  EG_UPDATE(Lion, SUFFIX, T, (const LionNumbers& n, T* w, T* m, const T* g, std::int64_t count), n, w, m, g, count)
EG_UPDATES(32, float)
EG_UPDATES(64, double)
#undef EG_UPDATES
#undef EG_UPDATE

} // namespace
} // namespace eg::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace eg::optim {
HWY_EXPORT(Sgd32);
HWY_EXPORT(Sgd64);
HWY_EXPORT(Adam32);
HWY_EXPORT(Adam64);
HWY_EXPORT(RmsProp32);
HWY_EXPORT(RmsProp64);
HWY_EXPORT(Lion32);
HWY_EXPORT(Lion64);

void sgd_update(const SgdNumbers& numbers, float* w, float* v, const float* g, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(Sgd32)(numbers, w, v, g, count);
}
void sgd_update(const SgdNumbers& numbers, double* w, double* v, const double* g, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(Sgd64)(numbers, w, v, g, count);
}
void adam_update(const AdamNumbers& numbers, float* w, float* m, float* v, const float* g, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(Adam32)(numbers, w, m, v, g, count);
}
void adam_update(const AdamNumbers& numbers, double* w, double* m, double* v, const double* g, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(Adam64)(numbers, w, m, v, g, count);
}
void rmsprop_update(const RmsPropNumbers& numbers, float* w, float* v, float* b, const float* g, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(RmsProp32)(numbers, w, v, b, g, count);
}
void rmsprop_update(const RmsPropNumbers& numbers, double* w, double* v, double* b, const double* g,
                    std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(RmsProp64)(numbers, w, v, b, g, count);
}
void lion_update(const LionNumbers& numbers, float* w, float* m, const float* g, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(Lion32)(numbers, w, m, g, count);
}
void lion_update(const LionNumbers& numbers, double* w, double* m, const double* g, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(Lion64)(numbers, w, m, g, count);
}

} // namespace eg::optim
#endif
