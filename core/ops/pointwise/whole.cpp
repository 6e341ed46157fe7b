#include "core/ops/pointwise/whole.h"

#include "core/ops/pointwise/broadcast.h"
#include "core/ops/whole_attribute.h"

#include <atomic>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace eg::pointwise {
namespace {

using Whole = std::int64_t;
using Limits = std::numeric_limits<Whole>;
__extension__ using Wide = __int128;

/// False where 64 bits do not hold the number.
bool narrowed(Wide value, Whole& y) {
  y = static_cast<Whole>(value);
  return static_cast<Wide>(y) == value;
}

// Functions of whole numbers: they write y and return true, or return false where there is none.

bool quotient_below(Whole a, Whole b, Whole& y) {
  if (b == 0 || (b == -1 && a == Limits::min())) return false;
  y = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  return true;
}
/// The remainder with the sign of a. By -1 it is 0, also of the least number, whose quotient there is none.
bool truncated_remainder(Whole a, Whole b, Whole& y) {
  if (b == 0) return false;
  y = b == -1 ? 0 : a % b;
  return true;
}
bool floored_remainder(Whole a, Whole b, Whole& y) {
  if (!truncated_remainder(a, b, y)) return false;
  if (y != 0 && (y < 0) != (b < 0)) y += b;
  return true;
}
/// By squaring; what is beyond 64 bits on the way is so at the end, unless no further factor follows.
bool power(Whole base, Whole exponent, Whole& y) {
  if (exponent < 0) return false;
  y = 1;
  while (true) {
    if (exponent % 2 != 0 && __builtin_mul_overflow(y, base, &y)) return false;
    exponent /= 2;
    if (exponent == 0) return true;
    if (__builtin_mul_overflow(base, base, &base)) return false;
  }
}

/// Calls visitor(f) with the function of an op.
template <class Visitor> void with_function(Binary op, Visitor&& visitor) {
  switch (op) {
  case Binary::add:
    return visitor([](Whole a, Whole b, Whole& y) { return !__builtin_add_overflow(a, b, &y); });
  case Binary::sub:
    return visitor([](Whole a, Whole b, Whole& y) { return !__builtin_sub_overflow(a, b, &y); });
  case Binary::mul:
    return visitor([](Whole a, Whole b, Whole& y) { return !__builtin_mul_overflow(a, b, &y); });
  case Binary::minimum:
    return visitor([](Whole a, Whole b, Whole& y) { return y = std::min(a, b), true; });
  case Binary::maximum:
    return visitor([](Whole a, Whole b, Whole& y) { return y = std::max(a, b), true; });
  case Binary::floor_divide:
    return visitor(quotient_below);
  case Binary::fmod:
    return visitor(truncated_remainder);
  case Binary::remainder:
    return visitor(floored_remainder);
  case Binary::pow:
    return visitor(power);
  default:
    throw DTypeError("pointwise: whole numbers have no kernel here");
  }
}

[[noreturn]] void refuse(const OpArgs& args, Binary op, Whole a, Whole b) {
  const bool divides = op == Binary::floor_divide || op == Binary::fmod || op == Binary::remainder;
  if (divides && b == 0) throw ValueError(fmt::format("{}: {} is divided by 0", args.op.name, a));
  if (op == Binary::pow && b < 0)
    throw ValueError(fmt::format("pow: {} to the power {} is no whole number; convert one with to(\"f64\")", a, b));
  throw ValueError(fmt::format("{}: the result for {} and {} is beyond integers of 64 bits; convert one with "
                               "to(\"f64\")",
                               args.op.name, a, b));
}

/// The parameters of an op of one input: its real attributes, saturated to 64 bits.
struct Parameters {
  Whole first = 0;
  Whole second = 0;
};

Whole parameter(const Attrs& attrs, std::string_view name) {
  if (const auto whole = whole_attribute(attrs, name)) return *whole;
  const double value = attrs.real(name);
  if (value >= 0x1p63) return Limits::max();
  return value < -0x1p63 ? Limits::min() : static_cast<Whole>(value);
}

Parameters whole_parameters(const OpArgs& args) {
  Parameters p;
  const auto& specs = args.op.attributes;
  if (specs.size() > 0) p.first = parameter(args.attrs, specs[0].name);
  if (specs.size() > 1) p.second = parameter(args.attrs, specs[1].name);
  return p;
}

template <class Visitor> void with_function(Unary op, Parameters p, Visitor&& visitor) {
  switch (op) {
  case Unary::neg:
    return visitor([](Whole x, Whole& y) { return !__builtin_sub_overflow(Whole{0}, x, &y); });
  case Unary::abs:
    return visitor([](Whole x, Whole& y) { return x == Limits::min() ? false : (y = x < 0 ? -x : x, true); });
  case Unary::sign:
    return visitor([](Whole x, Whole& y) { return y = (x > 0) - (x < 0), true; });
  case Unary::square:
    return visitor([](Whole x, Whole& y) { return !__builtin_mul_overflow(x, x, &y); });
  case Unary::relu:
    return visitor([](Whole x, Whole& y) { return y = std::max<Whole>(x, 0), true; });
  case Unary::affine: // the sum of a product of 64 bits and a number fits 128
    return visitor([p](Whole x, Whole& y) { return narrowed(static_cast<Wide>(p.first) * x + p.second, y); });
  case Unary::clamp:
    return visitor([p](Whole x, Whole& y) { return y = std::min(std::max(x, p.first), p.second), true; });
  case Unary::pow_scalar:
    return visitor([p](Whole x, Whole& y) { return power(x, p.first, y); });
  default: // floor, ceil, trunc, round
    return visitor([](Whole x, Whole& y) { return y = x, true; });
  }
}

} // namespace

void check_whole_parameters(const OpArgs& args) {
  if (!is_whole(args.in[0].dtype())) return;
  for (const AttrSpec& spec : args.op.attributes) {
    if (whole_attribute(args.attrs, spec.name)) continue;
    const double value = args.attrs.real(spec.name);
    const bool bound = std::isinf(value) && args.op.attributes.size() > 1 && spec.name.starts_with("m"); // min, max
    if (!bound && !(value == std::floor(value) && std::abs(value) < 0x1p63))
      throw DTypeError(fmt::format("{}: {} is {}; beside whole numbers it must be whole: convert x with to(\"f32\")",
                                   args.op.name, spec.name, value));
    if (spec.name == "exponent" && value < 0)
      throw DTypeError(fmt::format("pow_scalar: exponent is {}; of whole numbers there are powers with exponents from "
                                   "0 on: convert x with to(\"f32\")",
                                   value));
  }
}

void run_whole(Unary op, const OpArgs& args, Tensor& y) {
  const Tensor x = packed(as_type(args.in[0], DType::i64));
  if (x.numel() == 0) return;
  const Whole* from = x.data<Whole>();
  Whole* to = y.mutable_data<Whole>();
  with_function(op, whole_parameters(args), [&](auto f) {
    std::atomic<bool> all = true;
    parallel::for_each(x.numel(), chunk, [&](std::int64_t begin, std::int64_t end) {
      bool good = true;
      for (std::int64_t i = begin; i < end; ++i) good &= f(from[i], to[i]);
      if (!good) all = false;
    });
    if (all) return;
    for (std::int64_t i = 0;; ++i)
      if (Whole unused = 0; !f(from[i], unused))
        throw ValueError(fmt::format("{}: the result for {} is beyond integers of 64 bits; convert x with to(\"f64\")",
                                     args.op.name, from[i]));
  });
}

void run_whole(Binary op, const OpArgs& args, Tensor& y) {
  const std::array<Tensor, 2> in = {as_type(args.in[0], DType::i64), as_type(args.in[1], DType::i64)};
  const BroadcastLoop<2> loop = broadcast_loop(in, y.shape());
  const Whole* a = in[0].data<Whole>();
  const Whole* b = in[1].data<Whole>();
  Whole* to = y.mutable_data<Whole>();
  const std::int64_t step_a = loop.step(0), step_b = loop.step(1);
  with_function(op, [&](auto f) {
    std::atomic<bool> all = true;
    for_each_piece(loop, [&](const std::array<std::int64_t, 2>& at, std::int64_t out, std::int64_t n) {
      bool good = true;
      for (std::int64_t i = 0; i < n; ++i) good &= f(a[at[0] + i * step_a], b[at[1] + i * step_b], to[out + i]);
      if (!good) all = false;
    });
    if (all) return;
    const std::int64_t n = loop.inner();
    for (std::int64_t run = 0; run * n < y.numel(); ++run)
      for (std::int64_t i = 0; i < n; ++i) {
        const Whole p = a[loop.offset(0, run) + i * step_a], q = b[loop.offset(1, run) + i * step_b];
        if (Whole unused = 0; !f(p, q, unused)) refuse(args, op, p, q);
      }
  });
}

} // namespace eg::pointwise
