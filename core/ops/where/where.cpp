// where, and the rows that are made of it and of arithmetic: masked_fill, lerp, addcmul, addcdiv.

#include "core/device/axes.h"
#include "core/device/module.h"
#include "core/ops/list.h"
#include "core/ops/pointwise/broadcast.h"
#include "core/ops/pointwise/kernels.h"
#include "core/ops/pointwise/ternary.h"
#include "core/ops/views/movement.h"
#include "core/ops/where/where_kernels.h"
#include "core/ops/whole_attribute.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <type_traits>

namespace eg {
namespace {

/// Shape that all inputs broadcast to, one after the other.
Shape shape_of_all(const OpArgs& args) {
  Shape shape = args.in[0].shape();
  for (std::size_t i = 1; i < args.in.size(); ++i) {
    try {
      shape = broadcast_shapes(args.op.name.data(), shape, args.in[i].shape());
    } catch (const ShapeError&) {
      std::string shapes;
      for (std::size_t k = 0; k < args.in.size(); ++k)
        shapes += fmt::format("{}{} is {}", k == 0 ? "" : ", ", input_name(args.op, k), args.in[k].shape().str());
      throw ShapeError(fmt::format("{}: shapes do not broadcast: {}", args.op.name, shapes));
    }
  }
  return shape;
}

std::vector<TensorSpec> infer_where(const OpArgs& args) {
  check_dtype(args, 0, DType::boolean);
  if (args.in[1].dtype() != args.in[2].dtype())
    throw DTypeError(fmt::format("where: inputs have different types: a is {}, b is {}; convert one with to()",
                                 name_of(args.in[1].dtype()), name_of(args.in[2].dtype())));
  return {{shape_of_all(args), args.in[1].dtype()}};
}

/// c ? a : b by bits: random truth values would make the processor guess a branch wrong every other time.
template <class T> T chosen(bool c, T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t,
                                                     std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;
  static_assert(sizeof(T) == sizeof(Bits));
  const auto mask = static_cast<Bits>(Bits{0} - static_cast<Bits>(c));
  return std::bit_cast<T>(
      static_cast<Bits>((std::bit_cast<Bits>(a) & mask) | (std::bit_cast<Bits>(b) & static_cast<Bits>(~mask))));
}

template <class T> void run_where(const OpArgs& args, Tensor& y) {
  if (y.numel() == 0) return;
  const auto loop = pointwise::broadcast_loop<3>({args.in[0], args.in[1], args.in[2]}, y.shape());
  const bool* c = args.in[0].data<bool>();
  const T* a = args.in[1].data<T>();
  const T* b = args.in[2].data<T>();
  T* to = y.mutable_data<T>();
  const std::array<std::int64_t, 3> step{loop.step(0), loop.step(1), loop.step(2)};
  for_each_piece(loop, [&](const std::array<std::int64_t, 3>& at, std::int64_t out, std::int64_t n) {
    const bool* p = c + at[0];
    const T* q = a + at[1];
    const T* r = b + at[2];
    T* s = to + out;
    const auto steps_or_stays = [](std::int64_t k) { return k == 0 || k == 1; };
    if constexpr (std::is_same_v<T, float>)
      if (step[0] == 1 && steps_or_stays(step[1]) && steps_or_stays(step[2]))
        return choose(p, q, step[1] == 1, r, step[2] == 1, s, n);
    if (step[0] == 1 && step[1] == 1 && step[2] == 1) {
      for (std::int64_t i = 0; i < n; ++i) s[i] = chosen(p[i], q[i], r[i]);
    } else if (step[0] == 1 && step[1] == 1 && step[2] == 0) {
      const T fixed = *r;
      for (std::int64_t i = 0; i < n; ++i) s[i] = chosen(p[i], q[i], fixed);
    } else {
      for (std::int64_t i = 0; i < n; ++i) s[i] = chosen(p[i * step[0]], q[i * step[1]], r[i * step[2]]);
    }
  });
}

void where_on_device(const OpArgs& args, std::span<Tensor> out) {
  Tensor& y = out[0];
  if (y.numel() == 0) return;
  const device::WhereJob job{
      size_of(y.dtype()),        y.mutable_device_bytes(),
      args.in[0].device_bytes(), args.in[1].device_bytes(),
      args.in[2].device_bytes(), device::broadcast_axes<3>(y, {&args.in[0], &args.in[1], &args.in[2]})};
  device::launch(y.device(), "where", &device::Table::where, job);
}

/// f(index) for every element of the output, read from inputs broadcast to its shape.
template <class F> std::vector<Tensor> reference_of_three(const OpArgs& args, F f) {
  const Shape shape = shape_of_all(args);
  std::array<Tensor, 3> x;
  for (std::size_t k = 0; k < args.in.size(); ++k) x[k] = args.in[k].expand(shape);
  const DType dtype = args.in.back().dtype() == DType::boolean ? DType::f64 : args.in.back().dtype();
  return {tabulate(shape, dtype, [&](const Index& i) {
    return f(read(x[0], i), read(x[1], i), x[2].defined() ? read(x[2], i) : 0.0);
  })};
}

// --- samples ---

Tensor number(const Shape& shape, DType dtype, std::uint64_t tag) { return sample_normal(shape, dtype, 500 + tag); }
Tensor off_zero(const Shape& shape, DType dtype, std::uint64_t tag) { return sample_off_zero(shape, dtype, 500 + tag); }
Tensor weight(const Shape& shape, DType dtype, std::uint64_t tag) {
  return sample_uniform(shape, dtype, 500 + tag, -0.4, 1.4);
}
Tensor truth(const Shape& shape, DType, std::uint64_t tag) {
  return sample_normal(shape, DType::f64, 500 + tag, 1.3).to(DType::i64).to(DType::boolean);
}

using DomainFn = Tensor (*)(const Shape&, DType, std::uint64_t);

std::vector<Sample> samples_of_three(DType dtype, DomainFn first, DomainFn second, DomainFn third,
                                     const Attrs& attrs = {}) {
  std::vector<Sample> samples;
  const auto add_sample = [&](const Shape& a, const Shape& b, const Shape& c, const char* note) {
    const std::uint64_t tag = 3 * samples.size();
    samples.push_back({{first(a, dtype, tag), second(b, dtype, tag + 1), third(c, dtype, tag + 2)}, attrs, note});
  };
  add_sample({3, 5}, {3, 5}, {3, 5}, "matrices");
  add_sample({2, 65}, {2, 65}, {2, 65}, "longer than a vector, with a tail");
  add_sample({33}, {4, 33}, {4, 1}, "row, matrix, column");
  add_sample({3, 1}, {1, 7}, {}, "column, row, scalar");
  add_sample({2, 1, 3, 1}, {4, 1, 5}, {3, 1}, "broadcast in several axes");
  add_sample({1}, {7}, {7}, "first repeated");
  add_sample({0, 4}, {1, 4}, {4}, "empty");
  add_sample({}, {}, {}, "scalars");
  samples.push_back(
      {{scattered(first({6, 5}, dtype, 91)), scattered(second({6, 5}, dtype, 92)), scattered(third({5}, dtype, 93))},
       attrs,
       "strided"});
  return samples;
}

std::vector<Sample> samples_of_two(DType dtype, DomainFn first, DomainFn second, const Attrs& attrs) {
  std::vector<Sample> samples = samples_of_three(dtype, first, second, number, attrs);
  for (Sample& sample : samples) sample.in.pop_back();
  return samples;
}

std::vector<Sample> where_samples(DType dtype) {
  std::vector<Sample> samples = samples_of_three(dtype, truth, number, number);
  samples.push_back({{truth({3, 4}, dtype, 1), number({3, 4}, DType::f64, 2).to(DType::i64), Tensor::arange(4)},
                     {},
                     "whole numbers"});
  return samples;
}

// --- the others: made of other ops ---

std::vector<TensorSpec> infer_floating(const OpArgs& args) {
  check_all_floating(args);
  return {{shape_of_all(args), args.in[0].dtype()}};
}

/// What masked_fill writes, as an element of x's type.
Tensor fill_value(const OpArgs& args) {
  if (args.in[0].dtype() == DType::i64)
    if (const auto whole = whole_attribute(args.attrs, "value")) return Tensor::from<std::int64_t>({*whole}, {});
  return pointwise::number_like("masked_fill", args.in[0], args.attrs.real("value"));
}

std::vector<TensorSpec> infer_masked_fill(const OpArgs& args) {
  check_dtype(args, 1, DType::boolean);
  fill_value(args);
  return {{shape_of_all(args), args.in[0].dtype()}};
}

void lerp_cpu(const OpArgs& args, std::span<Tensor> out) {
  pointwise::run(pointwise::Ternary::lerp, {args.in[0], args.in[1], args.in[2]}, out[0]);
}

Gradients lerp_rule(const VjpArgs& args) {
  const Tensor &a = args.in[0], &b = args.in[1], &w = args.in[2], &g = args.grad[0];
  Gradients gradients(3);
  if (!g.defined()) return gradients;
  if (args.wants(0)) gradients[0] = mul(g, affine(w, -1.0, 1.0));
  if (args.wants(1)) gradients[1] = mul(g, w);
  if (args.wants(2)) gradients[2] = mul(g, sub(b, a));
  return gradients;
}

std::vector<Tensor> lerp_scalar_body(const OpArgs& args) {
  const Tensor weight = pointwise::number_like("lerp_scalar", args.in[0], args.attrs.real("weight"));
  return {lerp(args.in[0], args.in[1], weight)};
}

std::vector<Refusal> refusals_of_three() {
  return {
      {{Tensor::zeros({3}), Tensor::zeros({3}), Tensor::zeros({3}, DType::i64)}, {}, "must be f32 or f64, it is i64"},
      {{Tensor::zeros({3}), Tensor::zeros({3}), Tensor::zeros({3}, DType::f64)}, {}, "different types"},
      {{Tensor::zeros({4, 3}), Tensor::zeros({4, 3}), Tensor::zeros({2})}, {}, "shapes do not broadcast"},
      {{Tensor::zeros({3}), Tensor::zeros({3}), Tensor()}, {}, "must be given"}};
}

constexpr AttrSpec factor_attr = attr_real("value", 1.0, "factor");

} // namespace

constinit const OpDef where_op = row({
    .name = "where",
    .math = "y = a where cond is true, else b",
    .inputs = {{"cond"}, {"a"}, {"b"}},
    .infer = infer_where,
    .cpu = [](const OpArgs& args,
              std::span<Tensor> out) { visit_dtype(out[0].dtype(), [&]<class T>() { run_where<T>(args, out[0]); }); },
    .cuda = where_on_device,
    .cuda_same_bits = true,
    .saves = saves::in(0),
    .vjp = [](const VjpArgs& args) -> Gradients {
      const Tensor& g = args.grad[0];
      if (!g.defined()) return Gradients(3);
      const Tensor zero = Tensor::zeros({}, g.dtype());
      return {Tensor(), args.wants(1) ? where(args.in[0], g, zero) : Tensor(),
              args.wants(2) ? where(args.in[0], zero, g) : Tensor()};
    },
    .reference =
        [](const OpArgs& args) {
          return reference_of_three(args, [](double c, double a, double b) { return c != 0.0 ? a : b; });
        },
    .samples = where_samples,
    .refuses = []() -> std::vector<Refusal> {
      const Tensor no = Tensor::zeros({3}, DType::boolean);
      return {{{Tensor::zeros({3}), Tensor::zeros({3}), Tensor::zeros({3})}, {}, "cond must be bool, it is f32"},
              {{no, Tensor::zeros({3}), Tensor::zeros({3}, DType::i64)}, {}, "different types: a is f32, b is i64"},
              {{no, Tensor::zeros({3}), Tensor::zeros({2})},
               {},
               "shapes do not broadcast: cond is [3], a is [3], b is [2]"}};
    },
    .symmetries = pointwise_symmetries,
    .work = elementwise_work<1>,
});

constinit const OpDef masked_fill_op = row({
    .name = "masked_fill",
    .math = "y = value where mask is true, else x",
    .inputs = {{"x"}, {"mask"}},
    .attributes = {required_attr("value", AttrKind::real, "what stands where mask is true")},
    .infer = infer_masked_fill,
    .body = [](const OpArgs& args) -> std::vector<Tensor> { return {where(args.in[1], fill_value(args), args.in[0])}; },
    .reference = [](const OpArgs& args) -> std::vector<Tensor> {
      const Shape shape = shape_of_all(args);
      const Tensor x = args.in[0].expand(shape);
      const Tensor mask = args.in[1].expand(shape);
      return {tabulate(shape, x.dtype(),
                       [&](const Index& i) { return read(mask, i) != 0.0 ? args.attrs.real("value") : read(x, i); })};
    },
    .samples =
        [](DType dtype) {
          std::vector<Sample> samples = samples_of_two(dtype, number, truth, {{"value", -2.5}});
          samples.push_back({{Tensor::arange(6), truth({6}, dtype, 3)}, {{"value", 9.0}}, "whole numbers"});
          return samples;
        },
    .refuses = []() -> std::vector<Refusal> {
      const Attrs value{{"value", 0.5}};
      const Tensor mask = Tensor::zeros({3}, DType::boolean);
      return {{{Tensor::zeros({3}), Tensor::zeros({3})}, value, "mask must be bool, it is f32"},
              {{Tensor::arange(3), mask}, value, "0.5 is not a number of type i64"},
              {{Tensor::zeros({3}), mask}, {}, "attribute 'value' must be given"},
              {{Tensor::zeros({2}), mask}, value, "shapes do not broadcast: x is [2], mask is [3]"}};
    },
    .symmetries = pointwise_symmetries,
    .work = elementwise_work<1>,
});

constinit const OpDef lerp_op = row({
    .name = "lerp",
    .math = "y = a + weight (b - a)",
    .inputs = {{"a"}, {"b"}, {"weight"}},
    .infer = infer_floating,
    .cpu = lerp_cpu,
    .cuda = [](const OpArgs& args,
               std::span<Tensor> out) { pointwise::run_on_device(device::Ternary::lerp, args, out[0]); },
    .cuda_same_bits = true,
    .saves = saves::in(0) | saves::in(1) | saves::in(2),
    .vjp = lerp_rule,
    .reference =
        [](const OpArgs& args) {
          return reference_of_three(args, [](double a, double b, double w) { return a + w * (b - a); });
        },
    .samples = [](DType dtype) { return samples_of_three(dtype, number, number, weight); },
    .refuses = refusals_of_three,
    .symmetries = pointwise_symmetries,
    .work = elementwise_work<9>,
});

constinit const OpDef lerp_scalar_op = row({
    .name = "lerp_scalar",
    .math = "y = a + weight (b - a), one weight for all elements",
    .inputs = {{"a"}, {"b"}},
    .attributes = {required_attr("weight", AttrKind::real, "0 gives a, 1 gives b")},
    .infer = infer_floating,
    .body = lerp_scalar_body,
    .reference =
        [](const OpArgs& args) {
          const double w = args.attrs.real("weight");
          return reference_of_three(args, [w](double a, double b, double) { return a + w * (b - a); });
        },
    .samples =
        [](DType dtype) {
          std::vector<Sample> samples = samples_of_two(dtype, number, number, {{"weight", 0.3}});
          samples.push_back({{number({7}, dtype, 1), number({7}, dtype, 2)}, {{"weight", 0.8}}, "nearer to b"});
          return samples;
        },
    .refuses = []() -> std::vector<Refusal> {
      return {{{Tensor::zeros({3}), Tensor::zeros({3})}, {}, "attribute 'weight' must be given"},
              {{Tensor::zeros({3}), Tensor::zeros({2})}, {{"weight", 0.5}}, "shapes do not broadcast"}};
    },
    .symmetries = pointwise_symmetries,
    .work = elementwise_work<3>,
});

/// x + value of_two(a, b) by `unscaled` where value is 1, else by `scaled`.
template <pointwise::Ternary unscaled, pointwise::Ternary scaled, Tensor of_two(const Tensor&, const Tensor&)>
std::vector<Tensor> addc_body(const OpArgs& args) {
  const Tensor &x = args.in[0], &a = args.in[1], &b = args.in[2];
  const double value = args.attrs.real("value");
  if (const auto y = pointwise::fused(value == 1.0 ? unscaled : scaled, {x, a, b}, shape_of_all(args), value))
    return {*y};
  const Tensor term = of_two(a, b);
  return {add(x, value == 1.0 ? term : affine(term, value, 0.0))};
}

#define EG_ADDC_ROW(NAME, MATH, TERM, OF_TWO, REFERENCE, THIRD)                                                        \
  constinit const OpDef NAME##_op = row({                                                                              \
      .name = #NAME,                                                                                                   \
      .math = MATH,                                                                                                    \
      .inputs = {{"x"}, {"a"}, {"b"}},                                                                                 \
      .attributes = {factor_attr},                                                                                     \
      .infer = infer_floating,                                                                                         \
      .body = addc_body<pointwise::Ternary::add_##TERM, pointwise::Ternary::add_scaled_##TERM, OF_TWO>,                \
      .reference =                                                                                                     \
          [](const OpArgs& args) {                                                                                     \
            const double v = args.attrs.real("value");                                                                 \
            return reference_of_three(args, [v](double x, double a, double b) { return REFERENCE; });                  \
          },                                                                                                           \
      .samples =                                                                                                       \
          [](DType dtype) {                                                                                            \
            return samples_of_three(dtype, number, number, THIRD, {{"value", -1.5}});                                  \
          },                                                                                                           \
      .refuses = refusals_of_three,                                                                                    \
      .symmetries = pointwise_symmetries,                                                                              \
      .work = elementwise_work<3>,                                                                                     \
  });                                                                                                                  \
  Tensor NAME(const Tensor& x, const Tensor& a, const Tensor& b, double value) {                                       \
    return call1(NAME##_op, {x, a, b}, {{"value", value}});                                                            \
  }

EG_ADDC_ROW(addcmul, "y = x + value a b", product, mul, x + v * a * b, number)
EG_ADDC_ROW(addcdiv, "y = x + value a / b", quotient, div, x + v * (a / b), off_zero)

Tensor where(const Tensor& cond, const Tensor& a, const Tensor& b) { return call1(where_op, {cond, a, b}); }
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  return call1(masked_fill_op, {x, mask}, {{"value", value}});
}
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) { return call1(lerp_op, {a, b, weight}); }
Tensor lerp_scalar(const Tensor& a, const Tensor& b, double weight) {
  return call1(lerp_scalar_op, {a, b}, {{"weight", weight}});
}

} // namespace eg
