#include "apps/report/gradient_figures.h"

#include "apps/report/chart.h"
#include "apps/report/pictures.h"
#include "core/reduction.h"
#include "permute/catalogue/stack.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg::report {

using permute::Case;
using permute::KeyForm;
namespace {

constexpr std::int64_t deepest = 12;
constexpr int draws = 3; ///< of each depth, for the error

permute::VerifyOptions sizes(std::uint64_t seed, std::int64_t layers, DType dtype) {
  permute::VerifyOptions o;
  o.dtype = dtype;
  o.seed = seed;
  o.batch = 2;
  o.tokens = 17;
  o.dim = 32;
  o.heads = 4;
  o.hidden = 48;
  o.layers = layers;
  return o;
}

const Tensor& named(const nn::StateDict& tensors, const std::string& name) {
  for (const auto& [key, value] : tensors)
    if (key == name) return value;
  throw ValueError(fmt::format("report: there is no tensor named \"{}\"", name));
}

double largest_entry(const Tensor& x) {
  double most = 0.0;
  for (const double value : x.to(DType::f64).to_vector<double>()) most = std::max(most, std::abs(value));
  return most;
}

/// Expected gradients of the permuted stack: the plain ones, moved by the key.
nn::StateDict expected_gradients(const permute::StackTwins& t, std::int64_t layers) {
  return permute::transform(t.plain.gradients, permute::stack_axes(layers), t.key.permutations(t.config));
}

struct Apart {
  double output = 0.0, gradients = 0.0; ///< largest relative errors
  std::int64_t compared = 0, differing = 0;
};

void count_bits(Apart& apart, const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to(DType::f64).to_vector<double>(), y = b.to(DType::f64).to_vector<double>();
  apart.compared += a.numel();
  for (std::size_t i = 0; i < x.size(); ++i) apart.differing += x[i] == y[i] ? 0 : 1;
}

Apart measure(std::uint64_t seed, std::int64_t layers, DType dtype) {
  Case c(sizes(seed, layers, dtype), "report-depth", dtype, true);
  const auto t = permute::run_stack_twins(c, KeyForm::decoupled, true);
  const nn::StateDict expected = expected_gradients(*t, layers);
  Apart apart;
  apart.output = relative_error(t->permuted.output, t->plain.output);
  count_bits(apart, t->permuted.output, t->plain.output);
  for (const auto& [name, gradient] : expected) {
    const Tensor& measured = named(t->permuted.gradients, name);
    apart.gradients = std::max(apart.gradients, relative_error(measured, gradient));
    count_bits(apart, measured, gradient);
  }
  return apart;
}

double share(const Apart& apart) {
  return 100.0 * static_cast<double>(apart.differing) / static_cast<double>(apart.compared);
}

} // namespace

void add_gradient_maps(Page& page, std::uint64_t seed) {
  constexpr std::int64_t layers = 2;
  Case c(sizes(seed, layers, DType::f64), "report-gradients", DType::f64, false);
  const auto t = permute::run_stack_twins(c, KeyForm::decoupled, true);
  const nn::StateDict expected = expected_gradients(*t, layers);
  for (const char* name : {"blocks.0.attention.proj.weight", "blocks.0.mlp.fc1.weight", "blocks.1.mlp.fc2.weight"}) {
    const Tensor& plain = named(t->plain.gradients, name);
    const Tensor& moved = named(expected, name);
    const Tensor& measured = named(t->permuted.gradients, name);
    const double scale = largest_entry(plain);
    const Tensor gap = measured - moved;
    page.markup(fmt::format("<h3>{} {}</h3>\n", escape(name), escape(plain.shape().str())));
    page.figures(
        {{signed_map(plain, scale), "dL/dW of the plain model"},
         {signed_map(moved, scale), "P_out^T dL/dW P_in: what the theorem says"},
         {signed_map(measured, scale), "dL/dW of the permuted model"},
         {signed_map(gap, scale), fmt::format("the last two apart, same colours: at most {:.1e} of the largest",
                                              relative_error(measured, moved))},
         {signed_map(measured - plain, scale), "control: the permuted model's less the plain one's"}},
        190);
  }
}

void add_attention_maps(Page& page, std::uint64_t seed) {
  Case c(sizes(seed, 1, DType::f64), "report-attention", DType::f64, false);
  const auto t = permute::run_stack_twins(c, KeyForm::decoupled, true);
  const auto moved = permute::permuted_copy(*t->plain_stack, t->key);
  const auto scores = [](const permute::BlockStack& stack, const Tensor& z) {
    nn::MultiHeadAttention::Trace trace;
    stack.blocks.front()->traced(z, trace);
    return mean(trace.scores, {1}).select(0, 0);
  };
  const Tensor plain = scores(*t->plain_stack, t->z);
  const Tensor permuted = scores(*moved, t->permuting.enter(t->z));
  const std::vector<std::int64_t> all = t->permuting.rows.to_vector<std::int64_t>();
  const permute::Permutation rows(std::vector<std::int64_t>(all.begin(), all.begin() + plain.size(0)));
  const Tensor expected = rows.apply(rows.apply(plain, 0), 1);
  const permute::Permutation back = rows.inverse();
  page.figures({{heat_map(plain), "S of Z"},
                {heat_map(expected), "P_R S P_R^T: what the theorem says"},
                {heat_map(permuted), fmt::format("S of P_R Z P_C in the permuted model: apart by {:.1e}",
                                                 relative_error(permuted, expected))},
                {heat_map(back.apply(back.apply(permuted, 0), 1)), "mapped back"}},
               230);
}

void add_depth(Page& page, std::uint64_t seed, const ProgressCallback& on_progress) {
  Chart errors{.title = "Error against depth", .x_label = "blocks", .y_label = "largest relative error", .log_y = true};
  Chart bits{.title = "Elements with other bits", .x_label = "blocks", .y_label = "percent of all elements"};
  double most_exact = 0.0;
  for (const DType dtype : {DType::f64, DType::f32}) {
    const std::string type(name_of(dtype));
    const int color = dtype == DType::f64 ? 0 : 1;
    Series output{.name = type + " output", .dashed = true, .color = color};
    Series gradients{.name = type + " gradients", .color = color};
    Series ordinary{.name = type + " ordinary sums", .color = color};
    Series exact{.name = type + " exact sums", .dashed = true, .color = color + 2};
    for (std::int64_t layers = 1; layers <= deepest; ++layers) {
      const double done = static_cast<double>(layers - 1) / deepest;
      on_progress((dtype == DType::f64 ? 0.0 : 0.5) + done / 2, fmt::format("error at depth {} in {}", layers, type));
      Apart worst;
      for (int draw = 0; draw < draws; ++draw) {
        const Apart apart = measure(seed + static_cast<std::uint64_t>(draw), layers, dtype);
        if (draw == 0) worst = apart;
        worst.output = std::max(worst.output, apart.output);
        worst.gradients = std::max(worst.gradients, apart.gradients);
      }
      const ReductionScope scope(Reduction::exact);
      const Apart exactly = measure(seed, layers, dtype);
      for (Series* series : {&output, &gradients, &ordinary, &exact}) series->x.push_back(static_cast<double>(layers));
      output.y.push_back(worst.output);
      gradients.y.push_back(worst.gradients);
      ordinary.y.push_back(share(worst));
      exact.y.push_back(share(exactly));
      most_exact = std::max(most_exact, share(exactly));
    }
    for (Series* series : {&gradients, &output}) errors.series.push_back(std::move(*series));
    for (Series* series : {&ordinary, &exact}) bits.series.push_back(std::move(*series));
  }
  page.chart(errors,
             fmt::format("Rows and columns permuted, all inner axes too; every parameter's gradient against the "
                         "plain one, moved. The worst of {} draws for each depth.",
                         draws));
  page.chart(
      bits, most_exact == 0
                ? "The same comparison by bits. With exact sums both sides are equal to the last bit at every depth."
                : fmt::format("The same comparison by bits. Even with exact sums up to {:.2g} % differ, which must not "
                              "be.",
                              most_exact));
}

} // namespace eg::report
