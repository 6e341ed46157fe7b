// The gradient of cross_entropy in one pass: d_ij = w_i (p_ij - t_ij) + dlog_i p_ij on rows that count, 0 on the
// others, with p = exp((logits - largest) - log_total) and w_i the cotangent of row i's loss.

#include "core/call.h"
#include "core/device/module.h"
#include "core/ops.h"
#include "core/ops/cross_entropy/kernels.h"
#include "core/ops/cross_entropy/parts.h"
#include "core/ops/list.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace eg {
namespace {

using namespace cross_entropy_parts;

std::vector<TensorSpec> infer(const OpArgs& args) {
  const Settings s = settings(args);
  for (const std::size_t i : {2U, 3U, 4U}) check_floating(args, i);
  for (const std::size_t i : {2U, 3U}) check_shape(args, i, args.in[1].shape());
  check_shape(args, 4, loss_shape(args, s));
  if (args.given(5)) {
    check_floating(args, 5);
    check_shape(args, 5, args.in[1].shape());
  }
  return {{args.in[0].shape(), args.in[0].dtype()}};
}

/// Weights of the rows that count: w_i = factor g_i, dlog_i.
template <class T> class RowWeights {
public:
  RowWeights(const OpArgs& args, const std::vector<std::int64_t>& labels, const Settings& s)
      : g_(packed(args.in[4])), dlog_(args.given(5) ? packed(args.in[5]) : Tensor{}),
        factor_(static_cast<T>(row_factor(labels, s))), by_row_(s.joined == Joined::none) {}
  T loss(std::int64_t row) const { return factor_ * g_.template data<T>()[by_row_ ? row : 0]; }
  T log_total(std::int64_t row) const { return dlog_.defined() ? dlog_.template data<T>()[row] : T{0}; }

private:
  Tensor g_, dlog_;
  T factor_;
  bool by_row_;
};

template <class T> void backward_as(const OpArgs& args, Tensor& out) {
  const Settings s = settings(args);
  const std::vector<std::int64_t> labels = checked_labels(args, s);
  const Tensor logits = packed(args.in[0]);
  const Tensor peaks = packed(args.in[2]), totals = packed(args.in[3]);
  const RowWeights<T> weights(args, labels, s);
  const T* const x = logits.data<T>();
  const T *const largest = peaks.data<T>(), *const log_total = totals.data<T>();
  T* const d = out.mutable_data<T>("cross_entropy_backward");
  const std::int64_t grain = parallel::grain_for_bytes(2 * s.classes * static_cast<std::int64_t>(sizeof(T)));
  parallel::for_each(s.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t label = labels[static_cast<std::size_t>(r)];
      const std::int64_t first = r * s.classes;
      if (label == s.ignore)
        std::fill_n(d + first, s.classes, T{0});
      else
        cross_entropy_kernels::row_gradient(
            x + first, d + first, s.classes, label,
            {largest[r], log_total[r], weights.loss(r), weights.log_total(r), static_cast<T>(s.smoothing)});
    }
  });
}

void backward(const OpArgs& args, std::span<Tensor> out) {
  visit_floating(out[0].dtype(), [&]<class T>() { backward_as<T>(args, out[0]); });
}

void gradient_on_device(const OpArgs& args, std::span<Tensor> out) {
  const Settings s = settings(args);
  if (out[0].numel() == 0) return;
  std::array<Tensor, 6> in;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (args.given(i)) in[i] = packed(args.in[i]);
  device::CrossEntropyBackwardJob job{};
  job.in = device_rows(args.op.name, in[0], in[1], s);
  job.largest = in[2].device_bytes();
  job.log_total = in[3].device_bytes();
  job.g = in[4].device_bytes();
  job.dlog = in[5].defined() ? in[5].device_bytes() : nullptr;
  job.dlogits = out[0].mutable_device_bytes("cross_entropy_backward");
  Tensor factor;
  if (s.joined == Joined::mean) {
    factor = Tensor::empty({}, DType::f64);
    job.factor = reinterpret_cast<double*>(factor.mutable_device_bytes("cross_entropy_backward"));
  }
  device::launch(in[0].device(), "cross_entropy_backward", &device::Table::cross_entropy_backward, job);
}

double target_of(const Settings& s, std::int64_t label, std::int64_t j) {
  return (j == label ? 1.0 - s.smoothing : 0.0) + s.smoothing / static_cast<double>(s.classes);
}

/// What the rule needs of the labels, as constants: which rows are ignored, bool [..., 1], and the targets [..., C], 0
/// on ignored rows.
struct Constants {
  Tensor ignored, targets;
};
Constants constants_of(const OpArgs& args, const Settings& s, const std::vector<std::int64_t>& labels) {
  std::vector<double> targets(static_cast<std::size_t>(s.rows * s.classes));
  for (std::size_t r = 0; r < labels.size(); ++r) {
    if (labels[r] == s.ignore) continue;
    for (std::int64_t j = 0; j < s.classes; ++j)
      targets[r * static_cast<std::size_t>(s.classes) + static_cast<std::size_t>(j)] = target_of(s, labels[r], j);
  }
  const PauseRecording pause;
  return {unsqueeze(ignored_rows(args), -1), Tensor::from<double>(targets, args.in[0].shape()).to(args.in[0].dtype())};
}

// With n the factor of a row, w = n g and m = dlog, on rows that count: d = (w + m) p - w t,
// p = exp((logits - largest) - log_total). Along a cotangent a:
//   logits_bar = a p (w + m),  largest_bar = log_total_bar = -(w + m) rowsum(a p),
//   g_bar = n rowsum(a (p - t)), summed over rows unless reduction is none,  m_bar = rowsum(a p).
// Ignored rows have sums 0: their exponentials, which could be infinite, are never taken, so p = 0 whatever they hold.
Gradients rule(const VjpArgs& args) {
  const Settings s = settings(args);
  const std::vector<std::int64_t> labels = checked_labels(args, s);
  const Constants constants = constants_of(args, s, labels);
  const bool by_row = s.joined == Joined::none;
  const double factor = row_factor(labels, s);
  const Tensor& a = args.grad[0];
  constexpr double least = -std::numeric_limits<double>::infinity();
  const Tensor exponent = (args.in[0] - unsqueeze(args.in[2], -1)) - unsqueeze(args.in[3], -1);
  const Tensor ap = a * exp(masked_fill(exponent, constants.ignored, least));
  const Tensor row_ap = sum(ap, {-1}, true);
  Tensor weight = (by_row ? unsqueeze(args.in[4], -1) : args.in[4]) * factor;
  if (args.given(5)) weight = weight + unsqueeze(args.in[5], -1);
  Gradients gradients(6);
  if (args.wants(0)) gradients[0] = ap * weight;
  if (args.wants(2) || args.wants(3)) {
    const Tensor both = squeeze(-(row_ap * weight), -1);
    for (const std::size_t i : {2U, 3U})
      if (args.wants(i)) gradients[i] = both;
  }
  if (args.wants(4)) {
    const Tensor rows = (row_ap - sum(a * constants.targets, {-1}, true)) * factor;
    gradients[4] = by_row ? squeeze(rows, -1) : sum(rows);
  }
  if (args.wants(5)) gradients[5] = squeeze(row_ap, -1);
  return gradients;
}

std::vector<Tensor> reference(const OpArgs& args) {
  const Settings s = settings(args);
  const std::vector<std::int64_t> labels = checked_labels(args, s);
  Tensor d = reference_output(args.in[0].shape());
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const std::int64_t label = labels[static_cast<std::size_t>(r)];
    if (label == s.ignore) continue;
    const double w = row_factor(labels, s) * values(args.in[4])[s.joined == Joined::none ? r : 0];
    const double m = args.given(5) ? values(args.in[5])[r] : 0.0;
    for (std::int64_t j = 0; j < s.classes; ++j) {
      const double p = std::exp(values(args.in[0])[r * s.classes + j] - values(args.in[2])[r] - values(args.in[3])[r]);
      values(d)[r * s.classes + j] = w * (p - target_of(s, label, j)) + m * p;
    }
  }
  return {d};
}

std::vector<Sample> samples(DType dtype) {
  std::vector<Sample> all;
  std::uint64_t tag = 650;
  for (const Sample& forward_sample : cross_entropy_op.samples(dtype)) {
    Sample sample = forward_sample;
    const std::vector<Tensor> out = call(cross_entropy_op, forward_sample.in, forward_sample.attrs);
    sample.in.insert(sample.in.end(), {out[1], out[2], sample_normal(out[0].shape(), dtype, ++tag)});
    // Half of the samples have a cotangent of log_total as well.
    if (tag % 2 == 0) sample.in.push_back(sample_normal(out[1].shape(), dtype, 100 + tag));
    all.push_back(std::move(sample));
  }
  return all;
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::ones({2, 4});
  const Tensor sums = Tensor::ones({2});
  const Tensor labels = Tensor::from<std::int64_t>({0, 1}, {2});
  const Tensor g = Tensor::full({}, 1.0);
  return {{{x, Tensor::from<std::int64_t>({0, 4}, {2}), sums, sums, g}, {}, "label 4 of row 1 is outside [0, 4)"},
          {{x, labels, sums, sums, sums}, {}, "g must be [], it is [2]"},
          {{x, labels, sums, sums, g}, {{"reduction", std::string("none")}}, "g must be [2], it is []"},
          {{x, labels, x, sums, g}, {}, "largest must be [2], it is [2, 4]"},
          {{x, labels, sums, x, g}, {}, "log_total must be [2], it is [2, 4]"}};
}

std::vector<Symmetry> symmetries(const Sample& sample) {
  std::vector<Symmetry> all;
  for (Symmetry& forward : cross_entropy_op.symmetries(sample)) {
    const Leg logits = forward.legs[0];
    Symmetry symmetry{forward.name, {logits, out_leg(0, logits.axis)}, forward.values};
    if (forward.values.empty()) { // rows
      const bool by_row = sample.attrs.has("reduction") && sample.attrs.text("reduction") == "none";
      for (const int i : {1, 2, 3}) symmetry.legs.push_back(in_leg(i, logits.axis));
      if (by_row) symmetry.legs.push_back(in_leg(4, logits.axis));
      if (sample.in.size() > 5) symmetry.legs.push_back(in_leg(5, logits.axis));
    }
    all.push_back(std::move(symmetry));
  }
  return all;
}

} // namespace

constinit const OpDef cross_entropy_backward_op = row({
    .name = "cross_entropy_backward",
    .math = "d_ij = w_i (p_ij - t_ij) + dlog_i p_ij, p = exp((logits - largest) - log_total), "
            "w_i = g_i (mean: g / rows that count); 0 on ignored rows",
    .inputs = {{"logits"}, {"labels"}, {"largest"}, {"log_total"}, {"g"}, {"dlog", true}},
    .outputs = {"dlogits"},
    .attributes = cross_entropy_parts::attributes,
    .infer = infer,
    .cpu = backward,
    .cuda = gradient_on_device,
    .saves = saves::in(0) | saves::in(1) | saves::in(2) | saves::in(3) | saves::in(4) | saves::in(5),
    .vjp = rule,
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = elementwise_work<12>,
});

} // namespace eg
