#pragma once
// Turns the tables of pointwise ops into op definitions and functions: EG_UNARY_OPS(EG_UNARY_ROW) in namespace eg.

#include "core/ops/list.h"
#include "core/ops/pointwise/pointwise.h"
#include "core/ops/pointwise/samples.h"

namespace eg::pointwise::columns {

// Values of the column `saves`.
constexpr std::uint32_t nothing() { return saves::nothing; }
constexpr std::uint32_t x() { return saves::in(0); }
constexpr std::uint32_t y() { return saves::out(0); }
constexpr std::uint32_t a() { return saves::in(0); }
constexpr std::uint32_t b() { return saves::in(1); }

inline constexpr Parametric no_attributes = {};

/// x, a whole number as one of g's type; what was not saved stays as it is.
inline Tensor beside(const Tensor& x, const Tensor& g) {
  return is_whole(x.dtype()) && x.has_storage() ? cast(x, g.dtype()) : x;
}

} // namespace eg::pointwise::columns

#define EG_UNARY_ROW_WITH(NAME, MATH, VECTOR, REFERENCE, DOMAIN, SAVES, RULE, FLOPS, ATTRIBUTES, ZERO)                 \
  constinit const OpDef NAME##_op = row({                                                                              \
      .name = #NAME,                                                                                                   \
      .math = MATH,                                                                                                    \
      .inputs = {{"x"}},                                                                                               \
      .attributes = ATTRIBUTES.specs,                                                                                  \
      .infer = infer_unary<ATTRIBUTES, pointwise::takes_whole(pointwise::Unary::NAME)>,                                \
      .cpu = [](const OpArgs& args, std::span<Tensor> out) { pointwise::run(pointwise::Unary::NAME, args, out[0]); },  \
      .cuda = [](const OpArgs& args,                                                                                   \
                 std::span<Tensor> out) { pointwise::run_on_device(pointwise::Unary::NAME, args, out[0]); },           \
      .cuda_same_bits = pointwise::has_vector_kernel(pointwise::Unary::NAME),                                          \
      .saves = SAVES,                                                                                                  \
      .vjp = [](const VjpArgs& args) -> Gradients {                                                                    \
        if (!args.wants(0) || !args.grad[0].defined()) return {Tensor()};                                              \
        [[maybe_unused]] const std::vector<double> p = pointwise::parameters(args);                                    \
        [[maybe_unused]] const Tensor &x = args.in[0], &y = args.out[0], &g = args.grad[0];                            \
        return {RULE};                                                                                                 \
      },                                                                                                               \
      .zero_gradient = ZERO,                                                                                           \
      .reference = [](const OpArgs& args) -> std::vector<Tensor> {                                                     \
        return unary_reference(args, [](double x, [[maybe_unused]] const double* p) -> double { return REFERENCE; });  \
      },                                                                                                               \
      .samples =                                                                                                       \
          [](DType dtype) {                                                                                            \
            return unary_samples(dtype, DOMAIN, sample_attributes(ATTRIBUTES),                                         \
                                 pointwise::takes_whole(pointwise::Unary::NAME));                                      \
          },                                                                                                           \
      .refuses =                                                                                                       \
          [] {                                                                                                         \
            return unary_refusals(sample_attributes(ATTRIBUTES), pointwise::takes_whole(pointwise::Unary::NAME));      \
          },                                                                                                           \
      .symmetries = pointwise_symmetries,                                                                              \
      .work = elementwise_work<FLOPS>,                                                                                 \
  });

#define EG_UNARY_ROW(NAME, MATH, VECTOR, REFERENCE, DOMAIN, SAVES, RULE, FLOPS)                                        \
  EG_UNARY_ROW_WITH(NAME, MATH, VECTOR, REFERENCE, DOMAIN, SAVES, RULE, FLOPS, no_attributes, {})                      \
  Tensor NAME(const Tensor& x) { return call1(NAME##_op, {x}); }

#define EG_STEP_ROW(NAME, MATH, VECTOR, REFERENCE, DOMAIN, REASON)                                                     \
  EG_UNARY_ROW_WITH(NAME, MATH, VECTOR, REFERENCE, DOMAIN, nothing(), Tensor(), 1, no_attributes, REASON)              \
  Tensor NAME(const Tensor& x) { return call1(NAME##_op, {x}); }

#define EG_PARAMETRIC_ROW(NAME, MATH, VECTOR, REFERENCE, DOMAIN, SAVES, RULE, FLOPS, ATTRIBUTES)                       \
  EG_UNARY_ROW_WITH(NAME, MATH, VECTOR, REFERENCE, DOMAIN, SAVES, RULE, FLOPS, ATTRIBUTES, {})

// A whole number has no gradient; the rules read it as one of the other's type.
#define EG_BINARY_ROW_WITH(NAME, MATH, A, B, SHAPES, VECTOR, REFERENCE, DOMAIN_A, DOMAIN_B, SAVES, RULE_A, RULE_B,     \
                           FLOPS, ZERO)                                                                                \
  constinit const OpDef NAME##_op = row({                                                                              \
      .name = #NAME,                                                                                                   \
      .math = MATH,                                                                                                    \
      .inputs = {{A}, {B}},                                                                                            \
      .infer = SHAPES,                                                                                                 \
      .cpu = [](const OpArgs& args, std::span<Tensor> out) { pointwise::run(pointwise::Binary::NAME, args, out[0]); }, \
      .cuda = [](const OpArgs& args,                                                                                   \
                 std::span<Tensor> out) { pointwise::run_on_device(pointwise::Binary::NAME, args, out[0]); },          \
      .cuda_same_bits = pointwise::has_vector_kernel(pointwise::Binary::NAME),                                         \
      .saves = SAVES,                                                                                                  \
      .vjp = [](const VjpArgs& args) -> Gradients {                                                                    \
        if (!args.grad[0].defined()) return {Tensor(), Tensor()};                                                      \
        [[maybe_unused]] const Tensor &y = args.out[0], &g = args.grad[0];                                             \
        [[maybe_unused]] const Tensor a = beside(args.in[0], g), b = beside(args.in[1], g);                            \
        const auto wants = [&](std::size_t i) { return args.wants(i) && is_floating(args.in[i].dtype()); };            \
        Gradients gradients(2);                                                                                        \
        if (wants(0)) gradients[0] = RULE_A;                                                                           \
        if (wants(1)) gradients[1] = RULE_B;                                                                           \
        return gradients;                                                                                              \
      },                                                                                                               \
      .zero_gradient = ZERO,                                                                                           \
      .reference = [](const OpArgs& args) -> std::vector<Tensor> {                                                     \
        return binary_reference(args, [](double a, double b) -> double { return REFERENCE; });                         \
      },                                                                                                               \
      .samples = [](DType dtype) { return binary_samples(SHAPES, dtype, DOMAIN_A, DOMAIN_B); },                        \
      .refuses = [] { return binary_refusals(SHAPES); },                                                               \
      .symmetries = pointwise_symmetries,                                                                              \
      .work = elementwise_work<FLOPS>,                                                                                 \
  });                                                                                                                  \
  Tensor NAME(const Tensor& a, const Tensor& b) { return call1(NAME##_op, {a, b}); }

#define EG_BINARY_ROW(NAME, MATH, A, B, SHAPES, VECTOR, REFERENCE, DOMAIN_A, DOMAIN_B, SAVES, RULE_A, RULE_B, FLOPS)   \
  EG_BINARY_ROW_WITH(NAME, MATH, A, B, SHAPES, VECTOR, REFERENCE, DOMAIN_A, DOMAIN_B, SAVES, RULE_A, RULE_B, FLOPS, {})

#define EG_BINARY_STEP_ROW(NAME, MATH, A, B, SHAPES, VECTOR, REFERENCE, DOMAIN_A, DOMAIN_B, REASON)                    \
  EG_BINARY_ROW_WITH(NAME, MATH, A, B, SHAPES, VECTOR, REFERENCE, DOMAIN_A, DOMAIN_B, nothing(), Tensor(), Tensor(),   \
                     20, REASON)
