// Rows of the comparisons, of logic on truth values and of the questions about one number. All give bool.

#include "core/device/axes.h"
#include "core/device/device.h"
#include "core/device/module.h"
#include "core/element.h"
#include "core/ops/compare/table.h"
#include "core/ops/list.h"
#include "core/ops/pointwise/broadcast.h"
#include "core/ops/pointwise/samples.h"
#include "core/ops/views/movement.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <type_traits>

namespace eg {
namespace {

constexpr const char* why_no_gradient = "a truth value does not change when its inputs change a little";

// --- checks ---

std::vector<TensorSpec> truths_of_both(const OpArgs& args) {
  return {{broadcast_shapes(args.op.name.data(), args.in[0].shape(), args.in[1].shape()), DType::boolean}};
}

/// The type in which the inputs are compared.
DType type_of_both(const OpArgs& args) {
  const DType a = args.in[0].dtype(), b = args.in[1].dtype();
  return a == b ? a : arithmetic_type(a, b);
}

/// Whole numbers and f32 or f64 are compared as arithmetic takes them together.
std::vector<TensorSpec> infer_comparison(const OpArgs& args) {
  const DType a = args.in[0].dtype(), b = args.in[1].dtype();
  const auto mixes = [](DType dtype) { return is_whole(dtype) || is_floating(dtype); };
  if (a != b && !(mixes(a) && mixes(b)))
    throw DTypeError(fmt::format("{}: inputs have different types: a is {}, b is {}; convert one with to()",
                                 args.op.name, name_of(args.in[0].dtype()), name_of(args.in[1].dtype())));
  return truths_of_both(args);
}

std::vector<TensorSpec> infer_logic(const OpArgs& args) {
  check_dtype(args, 0, DType::boolean);
  check_dtype(args, 1, DType::boolean);
  return truths_of_both(args);
}

std::vector<TensorSpec> infer_not(const OpArgs& args) {
  check_dtype(args, 0, DType::boolean);
  return {{args.in[0].shape(), DType::boolean}};
}

std::vector<TensorSpec> infer_question(const OpArgs& args) {
  check_floating(args, 0);
  return {{args.in[0].shape(), DType::boolean}};
}

// --- kernels ---

template <class T, class F> void run_both(const OpArgs& args, Tensor& y, F f) {
  if (y.numel() == 0) return;
  const auto loop = pointwise::broadcast_loop<2>({args.in[0], args.in[1]}, y.shape());
  const T* a = args.in[0].data<T>();
  const T* b = args.in[1].data<T>();
  bool* to = y.mutable_data<bool>();
  const std::int64_t step_a = loop.step(0);
  const std::int64_t step_b = loop.step(1);
  for_each_piece(loop, [&](const std::array<std::int64_t, 2>& at, std::int64_t out, std::int64_t n) {
    const T* p = a + at[0];
    const T* q = b + at[1];
    bool* r = to + out;
    if (step_a == 1 && step_b == 1) {
      for (std::int64_t i = 0; i < n; ++i) r[i] = f(p[i], q[i]);
    } else if (step_a == 1 && step_b == 0) {
      for (std::int64_t i = 0; i < n; ++i) r[i] = f(p[i], *q);
    } else {
      for (std::int64_t i = 0; i < n; ++i) r[i] = f(p[i * step_a], q[i * step_b]);
    }
  });
}

template <class F> void compare_elements(const OpArgs& args, Tensor& y, F f) {
  const DType type = type_of_both(args);
  const std::array<Tensor, 2> in = {as_type(args.in[0], type), as_type(args.in[1], type)};
  visit_dtype(type, [&]<class T>() { run_both<T>(OpArgs{args.op, in, args.attrs}, y, f); });
}

template <class T, class F> void run_one(const OpArgs& args, Tensor& y, F f) {
  const Tensor x = packed(args.in[0]);
  const T* from = x.data<T>();
  bool* to = y.mutable_data<bool>();
  parallel::for_each(x.numel(), pointwise::chunk, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = f(from[i]);
  });
}

// --- on a device ---

void compare_on_device(compare::Relation relation, const OpArgs& args, Tensor& y) {
  if (y.numel() == 0) return;
  const DType type = type_of_both(args);
  const Tensor a = as_type(args.in[0], type), b = as_type(args.in[1], type);
  const device::CompareJob job{static_cast<int>(relation), type,
                               y.mutable_device_bytes(),   a.device_bytes(),
                               b.device_bytes(),           device::broadcast_axes<2>(y, {&a, &b})};
  device::launch(y.device(), args.op.name.data(), &device::Table::compare, job);
}

void ask_on_device(compare::Question question, const OpArgs& args, Tensor& y) {
  if (y.numel() == 0) return;
  const Tensor x = packed(args.in[0]);
  const device::QuestionJob job{static_cast<int>(question), x.dtype(), y.mutable_device_bytes(), x.device_bytes(),
                                x.numel()};
  device::launch(y.device(), args.op.name.data(), &device::Table::question, job);
}

// --- references ---

/// In double, which holds every sample exactly.
template <class F> std::vector<Tensor> reference_of_both(const OpArgs& args, F f) {
  const Shape shape = infer_comparison(args)[0].shape;
  const Tensor a = args.in[0].expand(shape);
  const Tensor b = args.in[1].expand(shape);
  return {tabulate(shape, DType::boolean, [&](const Index& i) { return f(read(a, i), read(b, i)) ? 1.0 : 0.0; })};
}

template <class F> std::vector<Tensor> reference_of_one(const OpArgs& args, F f) {
  const Tensor& x = args.in[0];
  return {tabulate(x.shape(), DType::boolean, [&](const Index& i) { return f(read(x, i)) ? 1.0 : 0.0; })};
}

// --- samples ---

/// Small whole numbers, many of them equal.
Tensor whole(const Shape& shape, DType dtype, std::uint64_t tag) {
  return sample_normal(shape, DType::f64, tag, 1.3).to(DType::i64).to(dtype);
}

Tensor truths(const Shape& shape, DType, std::uint64_t tag) { return whole(shape, DType::boolean, tag); }

/// Ordinary numbers, infinities and NaN.
Tensor specials(const Shape& shape, DType dtype, std::uint64_t tag) {
  Tensor x = sample_normal(shape, DType::f64, tag).contiguous();
  double* v = x.mutable_data<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    if (i % 3 == 1) v[i] = std::copysign(INFINITY, v[i]);
    if (i % 5 == 2) v[i] = NAN;
  }
  return x.to(dtype);
}

std::vector<Sample> comparison_samples(DType dtype) {
  std::vector<Sample> samples = pointwise::binary_samples(broadcast_of_both, dtype, whole, whole);
  samples.push_back({{whole({3, 5}, DType::i64, 1), whole({5}, DType::i64, 2)}, {}, "whole numbers"});
  samples.push_back({{whole({7}, DType::u8, 3), whole({7}, DType::u8, 4)}, {}, "bytes"});
  samples.push_back({{whole({3, 5}, dtype, 9), whole({5}, DType::i64, 10)}, {}, "whole numbers beside others"});
  samples.push_back({{truths({2, 7}, dtype, 5), truths({2, 1}, dtype, 6)}, {}, "truth values"});
  samples.push_back({{specials({33}, dtype, 7), specials({33}, dtype, 8)}, {}, "infinities and NaN"});
  return samples;
}

std::vector<Sample> logic_samples(DType dtype) {
  return pointwise::binary_samples(broadcast_of_both, dtype, truths, truths);
}
std::vector<Sample> not_samples(DType dtype) { return pointwise::unary_samples(dtype, truths, {}); }
std::vector<Sample> question_samples(DType dtype) { return pointwise::unary_samples(dtype, specials, {}); }

std::vector<Refusal> comparison_refusals() {
  return {{{Tensor::zeros({3}), Tensor::zeros({3}, DType::bf16)}, {}, "different types: a is f32, b is bf16"},
          {{Tensor::zeros({3}), Tensor::zeros({3}, DType::f64)}, {}, "different types"},
          {{Tensor::zeros({4, 3}), Tensor::zeros({5, 2})}, {}, "shapes do not broadcast: a is [4, 3], b is [5, 2]"},
          {{Tensor::zeros({3}), Tensor()}, {}, "must be given"}};
}

std::vector<Refusal> logic_refusals() {
  const auto no = [](const Shape& shape) { return Tensor::zeros(shape, DType::boolean); };
  return {{{Tensor::zeros({3}), no({3})}, {}, "a must be bool, it is f32"},
          {{no({3}), Tensor::zeros({3}, DType::i64)}, {}, "b must be bool, it is i64"},
          {{no({4, 3}), no({5, 2})}, {}, "shapes do not broadcast: a is [4, 3], b is [5, 2]"}};
}

std::vector<Refusal> not_refusals() { return {{{Tensor::zeros({3})}, {}, "x must be bool, it is f32"}}; }

std::vector<Refusal> question_refusals() {
  return {{{Tensor::zeros({3}, DType::i64)}, {}, "x must be f32 or f64, it is i64"}};
}

// --- beside a number ---

/// The result of a comparison for elements below a number that none of them equals, and for those above.
struct Verdict {
  bool below;
  bool above;
};

/// True when a number and the element of `dtype` that it is rounded to are on the same side of every other element:
/// a finite number that becomes infinite does not.
bool holds_number(DType dtype, double value) {
  bool held = false;
  visit_dtype(dtype, [&]<class T>() {
    held = holds<T>(value);
    if constexpr (!std::is_integral_v<T> && !std::is_same_v<T, double>)
      held = held && std::isinf(static_cast<float>(static_cast<T>(value))) == std::isinf(value);
  });
  return held;
}

/// A comparison of floating elements with a finite number beyond the largest of them: infinities alone are past it.
Tensor beside_finite(const Tensor& a, double b, Verdict verdict) {
  const auto scalar = [&](double value) { return pointwise::number_like("compare", a, value); };
  if (verdict.below == verdict.above) return verdict.below ? ne(a, scalar(NAN)) : eq(a, scalar(NAN));
  const Tensor end = scalar(std::copysign(INFINITY, b));
  if (b > 0.0) return verdict.below ? lt(a, end) : ge(a, end);
  return verdict.below ? le(a, end) : gt(a, end);
}

/// A comparison with a number that the type does not hold. `<=` with its floor decides on which side of it a whole
/// number is.
Tensor beside(const Tensor& a, double b, Verdict verdict) {
  const DeviceScope there(a.device());
  Tensor result;
  visit_dtype(a.dtype(), [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      const auto scalar = [](T value) { return Tensor::from<T>({value}, {}); };
      const Tensor least = scalar(Limits::min());
      const auto all = [&](bool truth) { return truth ? ge(a, least) : lt(a, least); };
      if (std::isnan(b)) {
        result = all(verdict.below && verdict.above);
      } else if (verdict.below == verdict.above || b < static_cast<double>(Limits::min())) {
        result = all(verdict.above);
      } else {
        const bool beyond = b >= std::ldexp(1.0, Limits::digits);
        const Tensor last = scalar(beyond ? Limits::max() : static_cast<T>(std::floor(b)));
        result = verdict.below ? le(a, last) : gt(a, last);
      }
    } else {
      result = beside_finite(a, b, verdict);
    }
  });
  return result;
}

} // namespace

// clang-format off
#define EG_BOTH_ROW(NAME, MATH, VALUE, INFER, KERNEL, SAMPLES, REFUSES)                                                \
  constinit const OpDef NAME##_op = row({                                                                              \
      .name = #NAME,                                                                                                   \
      .math = MATH,                                                                                                    \
      .inputs = {{"a"}, {"b"}},                                                                                        \
      .infer = INFER,                                                                                                  \
      .cpu = [](const OpArgs& args, std::span<Tensor> out) {                                                           \
        KERNEL(args, out[0], [](auto a, auto b) { return VALUE; });                                                    \
      },                                                                                                               \
      .cuda = [](const OpArgs& args, std::span<Tensor> out) {                                                          \
        compare_on_device(compare::Relation::NAME, args, out[0]);                                                      \
      },                                                                                                               \
      .cuda_same_bits = true,                                                                                          \
      .no_gradient = why_no_gradient,                                                                                  \
      .reference =                                                                                                     \
          [](const OpArgs& args) {                                                                                     \
            return reference_of_both(args, [](double a, double b) { return VALUE; });                                  \
          },                                                                                                           \
      .samples = SAMPLES,                                                                                              \
      .refuses = REFUSES,                                                                                              \
      .symmetries = pointwise_symmetries,                                                                              \
      .work = elementwise_work<1>,                                                                                     \
  });                                                                                                                  \
  Tensor NAME(const Tensor& a, const Tensor& b) { return call1(NAME##_op, {a, b}); }

#define EG_COMPARISON_ROW(NAME, MATH, VALUE, VERDICT)                                                                  \
  EG_BOTH_ROW(NAME, MATH, VALUE, infer_comparison, compare_elements, comparison_samples, comparison_refusals)                   \
  Tensor NAME(const Tensor& a, double b) {                                                                             \
    return holds_number(a.dtype(), b) ? NAME(a, pointwise::number_like(#NAME, a, b)) : beside(a, b, VERDICT);          \
  }
#define EG_LOGIC_ROW(NAME, MATH, VALUE)                                                                                \
  EG_BOTH_ROW(NAME, MATH, VALUE, infer_logic, run_both<bool>, logic_samples, logic_refusals)

#define EG_ONE_ROW(NAME, MATH, VALUE, INFER, KERNEL, SAMPLES, REFUSES)                                                 \
  constinit const OpDef NAME##_op = row({                                                                              \
      .name = #NAME,                                                                                                   \
      .math = MATH,                                                                                                    \
      .inputs = {{"x"}},                                                                                               \
      .infer = INFER,                                                                                                  \
      .cpu = KERNEL,                                                                                                   \
      .cuda = [](const OpArgs& args, std::span<Tensor> out) { ask_on_device(compare::Question::NAME, args, out[0]); }, \
      .cuda_same_bits = true,                                                                                          \
      .no_gradient = why_no_gradient,                                                                                  \
      .reference = [](const OpArgs& args) { return reference_of_one(args, [](auto x) { return VALUE; }); },            \
      .samples = SAMPLES,                                                                                              \
      .refuses = REFUSES,                                                                                              \
      .symmetries = pointwise_symmetries,                                                                              \
      .work = elementwise_work<1>,                                                                                     \
  });                                                                                                                  \
  Tensor NAME(const Tensor& x) { return call1(NAME##_op, {x}); }

#define EG_QUESTION_ROW(NAME, MATH, VALUE)                                                                             \
  EG_ONE_ROW(NAME, MATH, VALUE, infer_question, ([](const OpArgs& args, std::span<Tensor> out) {                       \
               visit_floating(args.in[0].dtype(), [&]<class T>() {                                                     \
                 run_one<T>(args, out[0], [](T x) { return VALUE; });                                                  \
               });                                                                                                     \
             }), question_samples, question_refusals)
// clang-format on

EG_COMPARISONS(EG_COMPARISON_ROW)
EG_LOGIC(EG_LOGIC_ROW)
EG_QUESTIONS(EG_QUESTION_ROW)
EG_ONE_ROW(logical_not, "y = not x", x == 0, infer_not,
           ([](const OpArgs& args, std::span<Tensor> out) { run_one<bool>(args, out[0], [](bool x) { return !x; }); }),
           not_samples, not_refusals)

} // namespace eg
