// Rows of any kind against their plain loops in f64, in units of what rounding can explain.

#include "core/call.h"
#include "core/ops.h"
#include "core/reduction.h"
#include "unit/core_ulp.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace eg::test {
namespace {

template <std::size_t N> bool listed(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Sums of products or of elements: the plain loops on magnitudes give the sum of |terms|.
constexpr std::array<std::string_view, 20> sums{"sum",
                                                "mean",
                                                "sum_to",
                                                "matmul",
                                                "einsum",
                                                "linear",
                                                "conv2d",
                                                "conv2d_input_backward",
                                                "conv2d_weight_backward",
                                                "fold",
                                                "avg_pool2d",
                                                "avg_pool2d_backward",
                                                "adaptive_avg_pool2d",
                                                "adaptive_avg_pool2d_backward",
                                                "scatter_add",
                                                "embedding_backward",
                                                "index_select_backward",
                                                "cumsum",
                                                "slice_backward",
                                                "bincount"};
/// Rows that move elements, compare or count them.
constexpr std::array<std::string_view, 51> movers{"max",
                                                  "argmax",
                                                  "min",
                                                  "argmin",
                                                  "amax",
                                                  "amin",
                                                  "max_with_index",
                                                  "min_with_index",
                                                  "sort",
                                                  "argsort",
                                                  "topk",
                                                  "unfold",
                                                  "max_pool2d",
                                                  "adaptive_max_pool2d",
                                                  "concat",
                                                  "stack",
                                                  "split",
                                                  "chunk",
                                                  "repeat",
                                                  "repeat_interleave",
                                                  "roll",
                                                  "flip",
                                                  "tril",
                                                  "triu",
                                                  "pad",
                                                  "patchify",
                                                  "unpatchify",
                                                  "embedding",
                                                  "index_select",
                                                  "gather",
                                                  "permute_rows",
                                                  "permute_columns",
                                                  "invert_permutation",
                                                  "contiguous",
                                                  "where",
                                                  "masked_fill",
                                                  "slice_backward",
                                                  "cast",
                                                  "eq",
                                                  "ne",
                                                  "lt",
                                                  "le",
                                                  "gt",
                                                  "ge",
                                                  "any",
                                                  "all",
                                                  "count_nonzero",
                                                  "one_hot",
                                                  "isnan",
                                                  "isinf",
                                                  "isfinite"};

double unit_roundoff(DType dtype) { return dtype == DType::f32 ? std::ldexp(1.0, -24) : std::ldexp(1.0, -53); }
double smallest(DType dtype) {
  return dtype == DType::f32 ? static_cast<double>(std::numeric_limits<float>::denorm_min())
                             : std::numeric_limits<double>::denorm_min();
}

Sample magnitudes(const Sample& sample) {
  Sample positive = sample;
  for (Tensor& x : positive.in) {
    if (!x.defined() || !is_floating(x.dtype())) continue;
    std::vector<double> v = x.to(DType::f64).to_vector<double>();
    for (double& e : v) e = std::abs(e);
    x = Tensor::from(v, x.shape());
  }
  return positive;
}

double terms_of(const OpDef& op, const Sample& sample) {
  const Attrs attrs = completed_attributes(op, sample.attrs);
  const OpArgs args{op, sample.in, attrs};
  const std::vector<TensorSpec> specs = op.infer(args);
  return std::max(1.0, std::ceil(op.work(args, specs).flops / (2.0 * static_cast<double>(specs[0].shape.numel()))));
}

bool finite_in(const std::vector<double>& values, DType dtype) {
  const double most =
      dtype == DType::f32 ? static_cast<double>(std::numeric_limits<float>::max()) : std::numeric_limits<double>::max();
  return std::all_of(values.begin(), values.end(), [&](double v) { return std::abs(v) <= most; });
}

/// Largest error of one output in its unit.
double output_error(const OpDef& op, const Sample& sample, Unit unit, const Tensor& got, const Tensor& wanted,
                    const std::vector<Tensor>& sizes, std::size_t o) {
  const DType dtype = got.dtype();
  const std::vector<double> y = got.to(DType::f64).to_vector<double>();
  const std::vector<double> exact = wanted.to(DType::f64).to_vector<double>();
  if (!is_floating(dtype)) return y == exact ? 0.0 : INFINITY;
  if (!finite_in(exact, dtype)) return 0.0; // another column's matter
  double largest = 0;
  for (const double v : exact) largest = std::max(largest, std::abs(v));
  const double k = unit == Unit::terms ? terms_of(op, sample) : 1.0;
  const std::vector<double> size =
      unit == Unit::terms ? sizes[o].to(DType::f64).to_vector<double>() : std::vector<double>(y.size(), largest);
  double worst = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (y[i] == exact[i]) continue;
    if (unit == Unit::none && dtype == DType::f32 && static_cast<float>(exact[i]) == static_cast<float>(y[i])) continue;
    const double error = std::abs(y[i] - exact[i]);
    const double allowed = unit_roundoff(dtype) * k * size[i] + k * smallest(dtype);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error / allowed);
  }
  return worst;
}

double sample_error(const OpDef& op, const Sample& sample, Unit unit) {
  const std::vector<Tensor> got = call(op, sample.in, sample.attrs);
  const std::vector<Tensor> wanted = plain_loops(op, sample);
  std::vector<Tensor> sizes;
  if (unit == Unit::terms) sizes = plain_loops(op, magnitudes(sample));
  double worst = 0;
  for (std::size_t o = 0; o < got.size(); ++o)
    worst = std::max(worst, output_error(op, sample, unit, got[o], wanted[o], sizes, o));
  return worst;
}

double largest_error(const OpDef& op, DType dtype, Unit unit, std::string& worst) {
  double largest = 0;
  for (const Sample& sample : measurable_samples(op, dtype))
    for (const double factor : {1.0, 0x1p-20, 0x1p20}) {
      // What a forward pass saved (means, factors) would contradict the scaled values beside it.
      if (factor != 1.0 && is_backward(op)) continue;
      const double error = sample_error(op, scaled(sample, factor), unit);
      if (!(error > largest)) continue;
      largest = error;
      worst = fmt::format("{} {} [{}] times {}: {:.3g}", op.name, eg::name_of(dtype), sample.note, factor, error);
    }
  return largest;
}

/// What rows may lose, in their units; f64 rows are held against loops that round in f64 themselves.
constexpr double most_of_terms = 4.0;
constexpr double most_of_largest = 8.0;

struct Bound {
  std::string_view name;
  double f32, f64;
};
/// Rows that need more than that.
constexpr std::array<Bound, 8> special{{
    {"softmax_backward", 16.0, 8.0}, // differences of what cancels
    {"norm", 4.0, 16.0},             // powers: an error of the logarithm counts p times
    {"linear_int8", 8.0, 16.0},      // sums of 130 terms that cancel
    {"linear_gelu", 4.0, 16.0},      // gelu at values that a sum of products made
    {"attention_qkv", 8.0, 16.0},    // scores of size 30 lose 30 u before exp
    {"eigh", 4.0, 128.0},            // LAPACK divides; vectors turn by rounding over the gap of their values
    {"svd", 4.0, 256.0},
    {"pinv", 4.0, 256.0},
}};

} // namespace

bool moves_only(const OpDef& op) { return op.view != nullptr || listed(movers, op.name); }

std::vector<Sample> measurable_samples(const OpDef& op, DType dtype) {
  const PauseRecording pause;
  std::vector<Sample> kept;
  for (const Sample& sample : op.samples(dtype)) {
    bool full = false;
    for (const Tensor& x : sample.in) {
      if (!x.defined() || !is_floating(x.dtype())) continue;
      full = x.numel() > 0;
      if (!full) break;
    }
    if (!full) continue;
    const std::vector<Tensor> out = call(op, sample.in, sample.attrs);
    if (std::all_of(out.begin(), out.end(), [](const Tensor& y) { return y.numel() > 0; })) kept.push_back(sample);
  }
  return kept;
}

std::vector<Tensor> plain_loops(const OpDef& op, const Sample& sample) {
  Sample wide = sample;
  for (Tensor& x : wide.in)
    if (x.defined()) x = is_floating(x.dtype()) ? x.to(DType::f64).clone() : x.clone();
  const Attrs attrs = completed_attributes(op, sample.attrs);
  return op.reference(OpArgs{op, wide.in, attrs});
}

Sample scaled(const Sample& sample, double factor) {
  Sample other = sample;
  if (factor == 1.0) return other;
  for (Tensor& x : other.in) {
    if (!x.defined() || !is_floating(x.dtype())) continue;
    std::vector<double> v = x.to(DType::f64).to_vector<double>();
    for (double& e : v) e *= factor;
    x = Tensor::from(v, x.shape()).to(x.dtype());
  }
  return other;
}

Accuracy sample_accuracy(const OpDef& op) {
  Accuracy found;
  found.unit = moves_only(op) ? Unit::none : listed(sums, op.name) ? Unit::terms : Unit::largest;
  found.f32_bound = found.f64_bound = found.unit == Unit::none    ? 0.0
                                      : found.unit == Unit::terms ? most_of_terms
                                                                  : most_of_largest;
  for (const Bound& bound : special)
    if (bound.name == op.name) {
      found.f32_bound = bound.f32;
      found.f64_bound = bound.f64;
    }
  std::string worst32;
  std::string worst64;
  found.f32 = largest_error(op, DType::f32, found.unit, worst32);
  found.f64 = largest_error(op, DType::f64, found.unit, worst64);
  found.worst = fmt::format("{}; {}", worst32, worst64);
  if (!op.no_exact.empty()) return found;
  const ReductionScope exact(Reduction::exact);
  std::string exact32;
  std::string exact64;
  found.exact_f32 = largest_error(op, DType::f32, found.unit, exact32);
  found.exact_f64 = largest_error(op, DType::f64, found.unit, exact64);
  found.worst = fmt::format("{}; {}; in exact mode {}; {}", worst32, worst64, exact32, exact64);
  return found;
}

} // namespace eg::test
