#include "nn/init.h"

#include "core/base/context.h"
#include "core/call.h"
#include "core/device/device.h"
#include "core/exact/elementary.h"
#include "core/threads/parallel.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

namespace eg::nn::init {
namespace {

/// c[0] + c[1] x + ... + c[7] x^7
double polynomial(const double (&c)[8], double x) {
  double y = c[7];
  for (int i = 6; i >= 0; --i) y = y * x + c[i];
  return y;
}

/// On a device: the CPU's elements, copied.
template <class T, class F> void fill_with(Tensor& x, F value) {
  if (!x.device().is_cpu()) {
    const PauseRecording pause;
    Tensor here = Tensor::empty(x.shape(), x.dtype(), Device::cpu());
    fill_with<T>(here, value);
    return x.copy_from(here);
  }
  T* data = x.mutable_data<T>("init");
  parallel::for_each(x.numel(), 16384, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) data[i] = static_cast<T>(value(static_cast<std::uint64_t>(i)));
  });
}

/// Element i becomes value(i).
template <class F> void fill_each(const char* name, Tensor& x, F value) {
  if (!is_floating(x.dtype()))
    throw DTypeError(fmt::format("init::{}: a tensor to initialise is f32 or f64, not {}", name, name_of(x.dtype())));
  if (!x.is_contiguous()) throw ValueError(fmt::format("init::{}: the tensor is not densely packed", name));
  if (skipping()) return;
  if (x.dtype() == DType::f32)
    fill_with<float>(x, value);
  else
    fill_with<double>(x, value);
}

struct Fan {
  double in, out;
};

Fan fan_of(const char* name, const Tensor& x) {
  if (x.rank() != 2 || x.numel() == 0)
    throw ShapeError(fmt::format("init::{}: a weight is [out, in], not {}", name, x.shape().str()));
  return {static_cast<double>(x.size(1)), static_cast<double>(x.size(0))};
}

void uniform_within(const char* name, Tensor& x, double bound, RandomKey key) {
  fill_each(name, x, [=](std::uint64_t i) { return bound * (2.0 * uniform_at(key, i) - 1.0); });
}

} // namespace

SkipScope::SkipScope() { ++execution_context().settings.init_skips; }
SkipScope::~SkipScope() { --execution_context().settings.init_skips; }
bool skipping() { return execution_context().settings.init_skips > 0; }

double inverse_normal_cdf(double p) {
  static constexpr double a[8] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                                  1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                  3.3430575583588128105e+4, 2.5090809287301226727e+3};
  static constexpr double b[8] = {1.0,
                                  4.2313330701600911252e+1,
                                  6.8718700749205790830e+2,
                                  5.3941960214247511077e+3,
                                  2.1213794301586595867e+4,
                                  3.9307895800092710610e+4,
                                  2.8729085735721942674e+4,
                                  5.2264952788528545610e+3};
  static constexpr double c[8] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                                  3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                                  2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double d[8] = {1.0,
                                  2.05319162663775882187e0,
                                  1.67638483018380384940e0,
                                  6.89767334985100004550e-1,
                                  1.48103976427480074590e-1,
                                  1.51986665636164571966e-2,
                                  5.47593808499534494600e-4,
                                  1.05075007164441684324e-9};
  static constexpr double e[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                                  2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                  2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double f[8] = {1.0,
                                  5.99832206555887937690e-1,
                                  1.36929880922735805310e-1,
                                  1.48753612908506148525e-2,
                                  7.86869131145613259100e-4,
                                  1.84631831751005468180e-5,
                                  1.42151175831644588870e-7,
                                  2.04426310338993978564e-15};
  if (!(p > 0.0 && p < 1.0)) throw ValueError(fmt::format("inverse_normal_cdf: {} is not in (0, 1)", p));
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
  }
  const double tail = std::sqrt(-elementary::log(q < 0.0 ? p : 1.0 - p));
  const double z = tail <= 5.0 ? polynomial(c, tail - 1.6) / polynomial(d, tail - 1.6)
                               : polynomial(e, tail - 5.0) / polynomial(f, tail - 5.0);
  return q < 0.0 ? -z : z;
}

void trunc_normal(Tensor& x, double stddev, RandomKey key) {
  const double low = 0.5 * elementary::erfc(std::numbers::sqrt2); // Phi(-2)
  const double width = 1.0 - 2.0 * low;
  fill_each("trunc_normal", x,
            [=](std::uint64_t i) { return stddev * inverse_normal_cdf(low + width * uniform_at(key, i)); });
}

void xavier_uniform(Tensor& x, RandomKey key, double gain) {
  const Fan fan = fan_of("xavier_uniform", x);
  uniform_within("xavier_uniform", x, gain * std::sqrt(6.0 / (fan.in + fan.out)), key);
}

void xavier_normal(Tensor& x, RandomKey key, double gain) {
  const Fan fan = fan_of("xavier_normal", x);
  normal(x, gain * std::sqrt(2.0 / (fan.in + fan.out)), key);
}

void kaiming_uniform(Tensor& x, RandomKey key, double a) {
  const Fan fan = fan_of("kaiming_uniform", x);
  uniform_within("kaiming_uniform", x, std::sqrt(6.0 / ((1.0 + a * a) * fan.in)), key);
}

void kaiming_normal(Tensor& x, RandomKey key, double a) {
  const Fan fan = fan_of("kaiming_normal", x);
  normal(x, std::sqrt(2.0 / ((1.0 + a * a) * fan.in)), key);
}

void uniform(Tensor& x, double low, double high, RandomKey key) {
  fill_each("uniform", x, [=](std::uint64_t i) { return low + (high - low) * uniform_at(key, i); });
}

void normal(Tensor& x, double stddev, RandomKey key) {
  if (skipping()) return;
  const PauseRecording pause;
  const DeviceScope here(Device::cpu());
  x.copy_from(random_normal(x.shape(), key, 0.0, stddev, x.dtype()));
}

void constant(Tensor& x, double value) { x.fill(value); }

} // namespace eg::nn::init
