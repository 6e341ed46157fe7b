// The op rows and functions of the pointwise ops, made from the tables in table.h.

#include "core/ops/pointwise/pointwise.h"

#include "core/ops/list.h"
#include "core/ops/pointwise/reference.h"
#include "core/ops/pointwise/run.h"
#include "core/ops/row_tools.h"

#include <numbers>

namespace eg {
namespace {

using DomainFn = Tensor (*)(const Shape& shape, DType dtype, std::uint64_t tag);

// --- where the samples of an op lie ---

Tensor anywhere(const Shape& shape, DType dtype, std::uint64_t tag) { return sample_normal(shape, dtype, tag, 1.3); }
Tensor positive(const Shape& shape, DType dtype, std::uint64_t tag) {
  return sample_uniform(shape, dtype, tag, 0.3, 3.0);
}
Tensor off_zero(const Shape& shape, DType dtype, std::uint64_t tag) { return sample_off_zero(shape, dtype, tag); }

std::vector<Sample> unary_samples(DType dtype, DomainFn domain, const Attrs& attrs) {
  return {{{domain({3, 5}, dtype, 1)}, attrs, "matrix"},
          {{scattered(domain({7, 4}, dtype, 2))}, attrs, "strided"},
          {{domain({2, 65}, dtype, 3)}, attrs, "longer than a vector, with a tail"},
          {{domain({2, 1, 33}, dtype, 4).expand({2, 3, 33})}, attrs, "expanded"},
          {{domain({1}, dtype, 5)}, attrs, "one element"},
          {{domain({}, dtype, 6)}, attrs, "scalar"},
          {{domain({0, 3}, dtype, 7)}, attrs, "empty"}};
}

std::vector<Refusal> unary_refusals() {
  return {{{Tensor::zeros({2, 3}, DType::i64)}, {}, "x must be f32 or f64, it is i64"},
          {{Tensor::zeros({3}, DType::boolean)}, {}, "x must be f32 or f64, it is bool"},
          {{Tensor::zeros({3})}, {{"speed", 2.0}}, "there is no attribute 'speed'"}};
}

std::vector<Sample> same_shape_samples(DType dtype, DomainFn first, DomainFn second) {
  return {{{first({3, 5}, dtype, 11), second({3, 5}, dtype, 21)}, {}, "matrices"},
          {{scattered(first({7, 4}, dtype, 12)), second({7, 4}, dtype, 22)}, {}, "first strided"},
          {{first({5, 3}, dtype, 13), scattered(second({5, 3}, dtype, 23))}, {}, "second strided"},
          {{first({2, 65}, dtype, 14), second({2, 1}, dtype, 24).expand({2, 65})}, {}, "second expanded"},
          {{first({2, 1}, dtype, 15).expand({2, 33}), second({2, 1}, dtype, 25).expand({2, 33})}, {}, "both expanded"},
          {{first({1}, dtype, 16), second({1}, dtype, 26)}, {}, "one element"},
          {{first({}, dtype, 17), second({}, dtype, 27)}, {}, "scalars"},
          {{first({2, 0}, dtype, 18), second({2, 0}, dtype, 28)}, {}, "empty"}};
}

std::vector<Sample> broadcast_samples(DType dtype, DomainFn first, DomainFn second) {
  std::vector<Sample> samples = same_shape_samples(dtype, first, second);
  const auto add_sample = [&](const Shape& a, const Shape& b, const char* note) {
    const std::uint64_t tag = samples.size();
    samples.push_back({{first(a, dtype, 40 + tag), second(b, dtype, 60 + tag)}, {}, note});
  };
  add_sample({3, 4, 33}, {33}, "row broadcast");
  add_sample({33}, {3, 4, 33}, "first broadcast along rows");
  add_sample({5, 1}, {1, 7}, "outer");
  add_sample({3, 4, 5}, {4, 1}, "column broadcast");
  add_sample({2, 1, 3, 1}, {4, 1, 5}, "broadcast in several axes");
  add_sample({}, {3, 2}, "scalar first");
  add_sample({6, 2}, {1, 1}, "scalar second");
  add_sample({0, 4}, {1, 4}, "empty against one row");
  samples.push_back(
      {{scattered(first({6, 5}, dtype, 91)), scattered(second({5}, dtype, 92))}, {}, "strided broadcast"});
  return samples;
}

std::vector<Refusal> common_binary_refusals() {
  return {{{Tensor::zeros({2, 3}, DType::i64), Tensor::zeros({2, 3}, DType::i64)}, {}, "must be f32 or f64, it is i64"},
          {{Tensor::zeros({3}), Tensor::zeros({3}, DType::f64)}, {}, "different types"},
          {{Tensor::zeros({3}), Tensor()}, {}, "must be given"}};
}

/// Samples and refusals that go with a shape rule.
std::vector<Sample> samples_for(InferFn rule, DType dtype, DomainFn first, DomainFn second) {
  return rule == broadcast_of_both ? broadcast_samples(dtype, first, second) : same_shape_samples(dtype, first, second);
}
std::vector<Refusal> refusals_for(InferFn rule) {
  std::vector<Refusal> all = common_binary_refusals();
  const char* words = rule == broadcast_of_both ? "shapes do not broadcast: a is [4, 3], b is [5, 2]" : "shapes differ";
  all.push_back({{Tensor::zeros({4, 3}), Tensor::zeros({5, 2})}, {}, words});
  return all;
}

// --- references ---

template <class F> std::vector<Tensor> unary_reference(const OpArgs& args, F f) {
  const Tensor& x = args.in[0];
  const std::vector<double> p = pointwise::parameters(args);
  Tensor y = reference_output(x.shape());
  for (std::int64_t i = 0; i < x.numel(); ++i) values(y)[i] = f(values(x)[i], p.data());
  return {y};
}

template <class F> std::vector<Tensor> binary_reference(const OpArgs& args, F f) {
  const Shape shape = broadcast_shapes("reference", args.in[0].shape(), args.in[1].shape());
  // Strides over the output's axes: 0 where an operand has one element or no such axis.
  std::array<Shape, 2> strides;
  for (std::size_t k = 0; k < 2; ++k)
    for (int back = shape.rank(); back > 0; --back) {
      const Tensor& x = args.in[k];
      strides[k].push_back(x.rank() < back || x.shape()[-back] == 1 ? 0 : x.strides()[-back]);
    }
  Tensor y = reference_output(shape);
  double* out = values(y);
  for_each_offset2(shape, strides[0], strides[1],
                   [&](std::int64_t i, std::int64_t j) { *out++ = f(values(args.in[0])[i], values(args.in[1])[j]); });
  return {y};
}

// --- attributes of the parametric ops ---

using Attributes = FixedList<AttrSpec, 8>;
constexpr Attributes no_attributes = {};
constexpr Attributes affine_attributes = {attr_real("scale", 1.0, "factor"), attr_real("shift", 0.0, "added last")};

/// Other numbers than the defaults for the samples.
Attrs sample_attributes(const Attributes& specs) {
  Attrs attrs;
  double value = -1.5;
  for (const AttrSpec& spec : specs) attrs.set(spec.name, value += 0.75);
  return attrs;
}

} // namespace

// --- second derivatives, made of ops ---

Tensor gelu_curvature(const Tensor& x) { // phi(x) (2 - x^2)
  const Tensor square = mul(x, x);
  const Tensor density = affine(exp(affine(square, -0.5, 0.0)), 1.0 / std::sqrt(2.0 * std::numbers::pi), 0.0);
  return mul(density, affine(square, -1.0, 2.0));
}

Tensor gelu_tanh_curvature(const Tensor& x) { // (1 - t^2) (u' + x (u'' - 2 t u'^2) / 2), t = tanh u
  const double k = std::sqrt(2.0 / std::numbers::pi);
  const double c = 0.044715;
  const Tensor square = mul(x, x);
  const Tensor t = tanh(mul(x, affine(square, k * c, k)));
  const Tensor u1 = affine(square, 3.0 * k * c, k);
  const Tensor u2 = affine(x, 6.0 * k * c, 0.0);
  const Tensor inner = sub(u2, affine(mul(t, mul(u1, u1)), 2.0, 0.0));
  return mul(affine(mul(t, t), -1.0, 1.0), add(u1, affine(mul(x, inner), 0.5, 0.0)));
}

Tensor silu_curvature(const Tensor& x) { // s (1 - s) (2 + x (1 - 2 s))
  const Tensor s = sigmoid(x);
  const Tensor slope = mul(s, affine(s, -1.0, 1.0));
  return mul(slope, affine(mul(x, affine(s, -2.0, 1.0)), 1.0, 2.0));
}

// --- rows ---

namespace {

constexpr std::uint32_t nothing() { return saves::nothing; }
constexpr std::uint32_t x() { return saves::in(0); }
constexpr std::uint32_t y() { return saves::out(0); }
constexpr std::uint32_t a() { return saves::in(0); }
constexpr std::uint32_t b() { return saves::in(1); }

} // namespace

#define EG_UNARY_ROW_WITH(NAME, MATH, VECTOR, REFERENCE, DOMAIN, SAVES, RULE, FLOPS, ATTRIBUTES)                       \
  constinit const OpDef NAME##_op = row({                                                                              \
      .name = #NAME,                                                                                                   \
      .math = MATH,                                                                                                    \
      .inputs = {{"x"}},                                                                                               \
      .attributes = ATTRIBUTES,                                                                                        \
      .infer = same_shape_as_first,                                                                                    \
      .cpu = [](const OpArgs& args, std::span<Tensor> out) { pointwise::run(pointwise::Unary::NAME, args, out[0]); },  \
      .saves = SAVES,                                                                                                  \
      .vjp = [](const VjpArgs& args) -> Gradients {                                                                    \
        if (!args.wants(0) || !args.grad[0].defined()) return {Tensor()};                                              \
        [[maybe_unused]] const std::vector<double> p = pointwise::parameters(args);                                    \
        [[maybe_unused]] const Tensor &x = args.in[0], &y = args.out[0], &g = args.grad[0];                            \
        return {RULE};                                                                                                 \
      },                                                                                                               \
      .reference = [](const OpArgs& args) -> std::vector<Tensor> {                                                     \
        return unary_reference(args, [](double x, [[maybe_unused]] const double* p) -> double { return REFERENCE; });  \
      },                                                                                                               \
      .samples = [](DType dtype) { return unary_samples(dtype, DOMAIN, sample_attributes(ATTRIBUTES)); },              \
      .refuses = unary_refusals,                                                                                       \
      .symmetries = pointwise_symmetries,                                                                              \
      .work = elementwise_work<FLOPS>,                                                                                 \
  });

#define EG_UNARY_ROW(NAME, MATH, VECTOR, REFERENCE, DOMAIN, SAVES, RULE, FLOPS)                                        \
  EG_UNARY_ROW_WITH(NAME, MATH, VECTOR, REFERENCE, DOMAIN, SAVES, RULE, FLOPS, no_attributes)                          \
  Tensor NAME(const Tensor& x) { return call1(NAME##_op, {x}); }

#define EG_BINARY_ROW(NAME, MATH, A, B, SHAPES, VECTOR, REFERENCE, DOMAIN_A, DOMAIN_B, SAVES, RULE_A, RULE_B, FLOPS)   \
  constinit const OpDef NAME##_op = row({                                                                              \
      .name = #NAME,                                                                                                   \
      .math = MATH,                                                                                                    \
      .inputs = {{A}, {B}},                                                                                            \
      .infer = SHAPES,                                                                                                 \
      .cpu = [](const OpArgs& args, std::span<Tensor> out) { pointwise::run(pointwise::Binary::NAME, args, out[0]); }, \
      .saves = SAVES,                                                                                                  \
      .vjp = [](const VjpArgs& args) -> Gradients {                                                                    \
        if (!args.grad[0].defined()) return {Tensor(), Tensor()};                                                      \
        [[maybe_unused]] const Tensor &a = args.in[0], &b = args.in[1], &y = args.out[0], &g = args.grad[0];           \
        return {args.wants(0) ? RULE_A : Tensor(), args.wants(1) ? RULE_B : Tensor()};                                 \
      },                                                                                                               \
      .reference = [](const OpArgs& args) -> std::vector<Tensor> {                                                     \
        return binary_reference(args, [](double a, double b) -> double { return REFERENCE; });                         \
      },                                                                                                               \
      .samples = [](DType dtype) { return samples_for(SHAPES, dtype, DOMAIN_A, DOMAIN_B); },                           \
      .refuses = [] { return refusals_for(SHAPES); },                                                                  \
      .symmetries = pointwise_symmetries,                                                                              \
      .work = elementwise_work<FLOPS>,                                                                                 \
  });                                                                                                                  \
  Tensor NAME(const Tensor& a, const Tensor& b) { return call1(NAME##_op, {a, b}); }

EG_UNARY_OPS(EG_UNARY_ROW)
EG_PARAMETRIC_OPS(EG_UNARY_ROW_WITH)
EG_BINARY_OPS(EG_BINARY_ROW)

Tensor affine(const Tensor& x, double scale, double shift) {
  return call1(affine_op, {x}, {{"scale", scale}, {"shift", shift}});
}

} // namespace eg
