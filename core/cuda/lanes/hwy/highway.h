#pragma once
// Defines the functions of Highway that the project's vector code uses for one lane, as plain numbers.
//
// In front of the include path of .cu files, so that the tables' vector columns compile for a device as they are. Fused
// products are by name (fma), so that the results have the bits of AVX2 and AVX-512.

#include "core/cuda/gpu.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define HWY_INLINE EG_DEVICE_FUNCTION inline
#define HWY_ATTR
#define HWY_MAYBE_UNUSED
#define HWY_NAMESPACE N_LANE
#define HWY_BEFORE_NAMESPACE() static_assert(true)
#define HWY_AFTER_NAMESPACE() static_assert(true)
#define HWY_ONCE 0
#define HWY_SCALAR 1 // the targets that vector code distinguishes
#define HWY_SSE2 2
#define HWY_AVX3 3
#define HWY_TARGET HWY_SCALAR

namespace hwy::HWY_NAMESPACE {

template <class T> struct Lane { using type = T; };
template <class T> using ScalableTag = Lane<T>;
template <class D> using TFromD = typename D::type;
template <class D> using Vec = typename D::type;
template <class T, class D> using Rebind = Lane<T>;
template <class D> using Half = D;
template <class T> struct UnsignedOf;
template <> struct UnsignedOf<float> { using type = std::uint32_t; };
template <> struct UnsignedOf<double> { using type = std::uint64_t; };
template <class D> using RebindToUnsigned = Lane<typename UnsignedOf<TFromD<D>>::type>;

template <class D> HWY_INLINE TFromD<D> Set(D, TFromD<D> x) { return x; }
template <class D> HWY_INLINE TFromD<D> Zero(D) { return 0; }
template <class D> HWY_INLINE constexpr std::size_t Lanes(D) { return 1; }
template <class D> HWY_INLINE TFromD<D> LoadU(D, const TFromD<D>* p) { return *p; }
template <class D, class T> HWY_INLINE void StoreU(T x, D, T* p) { *p = x; }
template <class D> HWY_INLINE bool FirstN(D, std::size_t n) { return n > 0; }
template <class M, class D> HWY_INLINE TFromD<D> MaskedLoad(M m, D, const TFromD<D>* p) { return m ? *p : 0; }
template <class T, class M, class D> HWY_INLINE void BlendedStore(T x, M m, D, T* p) {
  if (m) *p = x;
}
template <class T> HWY_INLINE T GetLane(T x) { return x; }
template <class D> HWY_INLINE TFromD<D> PromoteTo(D, float x) { return x; }
template <class D> HWY_INLINE float DemoteTo(D, double x) { return static_cast<float>(x); }

template <class T> HWY_INLINE T Add(T a, T b) { return a + b; }
template <class T> HWY_INLINE T Sub(T a, T b) { return a - b; }
template <class T> HWY_INLINE T Mul(T a, T b) { return a * b; }
template <class T> HWY_INLINE T Div(T a, T b) { return a / b; }
template <class T> HWY_INLINE T Neg(T a) { return -a; }
HWY_INLINE float Fused(float a, float b, float c) { return fmaf(a, b, c); }
HWY_INLINE double Fused(double a, double b, double c) { return fma(a, b, c); }
template <class T> HWY_INLINE T MulAdd(T a, T b, T c) { return Fused(a, b, c); }
template <class T> HWY_INLINE T MulSub(T a, T b, T c) { return Fused(a, b, -c); }
template <class T> HWY_INLINE T NegMulAdd(T a, T b, T c) { return Fused(-a, b, c); }
HWY_INLINE float Sqrt(float x) { return sqrtf(x); }
HWY_INLINE double Sqrt(double x) { return sqrt(x); }
HWY_INLINE float Abs(float x) { return fabsf(x); }
HWY_INLINE double Abs(double x) { return fabs(x); }
HWY_INLINE float CopySign(float x, float s) { return copysignf(x, s); }
HWY_INLINE double CopySign(double x, double s) { return copysign(x, s); }
HWY_INLINE float Floor(float x) { return floorf(x); }
HWY_INLINE double Floor(double x) { return floor(x); }
HWY_INLINE float Ceil(float x) { return ceilf(x); }
HWY_INLINE double Ceil(double x) { return ceil(x); }
HWY_INLINE float Trunc(float x) { return truncf(x); }
HWY_INLINE double Trunc(double x) { return trunc(x); }
template <class T> HWY_INLINE bool Lt(T a, T b) { return a < b; }
template <class T> HWY_INLINE bool Le(T a, T b) { return a <= b; }
template <class T> HWY_INLINE bool Gt(T a, T b) { return a > b; }
template <class T> HWY_INLINE bool Ge(T a, T b) { return a >= b; }
template <class T> HWY_INLINE bool Eq(T a, T b) { return a == b; }
template <class T> HWY_INLINE bool IsNaN(T a) { return a != a; }
template <class T> HWY_INLINE T And(T a, T b) { return a & b; }
HWY_INLINE bool And(bool a, bool b) { return a && b; }
template <class T> HWY_INLINE T Or(T a, T b) { return a | b; }
HWY_INLINE bool Or(bool a, bool b) { return a || b; }
template <class T> HWY_INLINE T IfThenElse(bool m, T a, T b) { return m ? a : b; }
template <class T> HWY_INLINE T IfThenElseZero(bool m, T a) { return m ? a : T(0); }
template <int n, class T> HWY_INLINE T ShiftLeft(T x) { return x << n; }
template <int n, class T> HWY_INLINE T ShiftRight(T x) { return x >> n; }
template <class D, class T> HWY_INLINE TFromD<D> BitCast(D, T x) {
  static_assert(sizeof(TFromD<D>) == sizeof(T));
  TFromD<D> y;
  memcpy(&y, &x, sizeof x);
  return y;
}

} // namespace hwy::HWY_NAMESPACE
