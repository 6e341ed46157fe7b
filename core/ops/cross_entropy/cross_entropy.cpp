// -sum_j t_j log softmax(logits)_j with t = (1 - s) onehot(label) + s / C, forward in one visit of each row. The log
// sum exp of each row that counts (0 for the others) is kept for the backward op, which needs no second reduction: in
// two parts, the largest logit and log sum exp(logits - largest), since their rounded sum would lose the digits of the
// gradient where all logits of a row are far from 0.

#include "core/call.h"
#include "core/device/module.h"
#include "core/ops.h"
#include "core/ops/cross_entropy/exact.h"
#include "core/ops/cross_entropy/kernels.h"
#include "core/ops/cross_entropy/parts.h"
#include "core/ops/list.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numeric>

namespace eg {
namespace {

using namespace cross_entropy_parts;

std::vector<TensorSpec> infer(const OpArgs& args) {
  const Settings s = settings(args);
  const DType dtype = args.in[0].dtype();
  return {{loss_shape(args, s), dtype}, {args.in[1].shape(), dtype}, {args.in[1].shape(), dtype}};
}

template <class T> void forward_as(const OpArgs& args, std::span<Tensor> out) {
  const Settings s = settings(args);
  const std::vector<std::int64_t> labels = checked_labels(args, s);
  const Tensor logits = packed(args.in[0]);
  const T* const x = logits.data<T>();
  T* const largest = out[1].mutable_data<T>("cross_entropy");
  T* const log_total = out[2].mutable_data<T>("cross_entropy");
  std::vector<T> losses(labels.size());
  const std::int64_t grain = parallel::grain_for_bytes(s.classes * static_cast<std::int64_t>(sizeof(T)));
  parallel::for_each(s.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t label = labels[static_cast<std::size_t>(r)];
      cross_entropy_kernels::RowLoss<T> row{0, 0, 0};
      if (label != s.ignore)
        row = cross_entropy_kernels::row_loss(x + r * s.classes, s.classes, label, static_cast<T>(s.smoothing));
      losses[static_cast<std::size_t>(r)] = row.loss;
      largest[r] = row.largest;
      log_total[r] = row.log_total;
    }
  });
  T* const loss = out[0].mutable_data<T>("cross_entropy");
  if (s.joined == Joined::none) {
    std::copy(losses.begin(), losses.end(), loss);
    return;
  }
  *loss = static_cast<T>(joined_losses(losses, row_factor(labels, s), [](const std::vector<T>& rows) {
    return std::accumulate(rows.begin(), rows.end(), 0.0);
  }));
}

void forward(const OpArgs& args, std::span<Tensor> out) {
  visit_floating(out[0].dtype(), [&]<class T>() { forward_as<T>(args, out); });
}

void run_on_device(const OpArgs& args, std::span<Tensor> out) {
  const Settings s = settings(args);
  if (out[0].numel() == 0) return;
  const Tensor logits = packed(args.in[0]), labels = packed(args.in[1]);
  device::CrossEntropyJob job{};
  job.in = device_rows(args.op.name, logits, labels, s);
  job.loss = out[0].mutable_device_bytes("cross_entropy");
  job.largest = out[1].mutable_device_bytes("cross_entropy");
  job.log_total = out[2].mutable_device_bytes("cross_entropy");
  Tensor losses;
  if (s.joined != Joined::none) {
    losses = Tensor::empty({s.rows}, DType::f64);
    job.losses = reinterpret_cast<double*>(losses.mutable_device_bytes("cross_entropy"));
  }
  device::launch(logits.device(), "cross_entropy", &device::Table::cross_entropy, job);
}

/// x [rows...] of the rows that count, each at the first largest logit of its row: [rows..., C], 0 elsewhere.
Tensor at_largest(const VjpArgs& args, const Tensor& x) {
  Tensor place, zeros, ignored;
  {
    const PauseRecording pause;
    place = argmax(args.in[0], -1, true);
    zeros = Tensor::zeros(args.in[0].shape(), args.in[0].dtype());
    ignored = ignored_rows(args);
  }
  return scatter_add(zeros, -1, place, unsqueeze(masked_fill(x, ignored, 0.0), -1));
}

bool same_elements(const Tensor& a, const Tensor& b) {
  if (a.id() == b.id()) return true;
  return a.has_storage() && b.has_storage() && a.device_bytes() == b.device_bytes() && a.strides() == b.strides();
}

/// a - b, undefined where it is zero.
Tensor difference(const Tensor& a, const Tensor& b) {
  if (!b.defined()) return a;
  if (!a.defined()) return neg(b);
  return same_elements(a, b) ? Tensor{} : a - b;
}

// d loss = w (p - t), d largest = e, d log_total = p - e, with e the unit vector of the largest logit. The rule of
// cross_entropy_backward gives the last two one cotangent, and e cancels.
Gradients rule(const VjpArgs& args) {
  if (!args.wants(0)) return {{}, {}};
  const Tensor g = args.grad[0].defined() ? args.grad[0] : Tensor::zeros(args.out[0].shape(), args.out[0].dtype());
  Tensor d = call1(cross_entropy_backward_op, {args.in[0], args.in[1], args.out[1], args.out[2], g, args.grad[2]},
                   same_attributes(args));
  const Tensor rest = difference(args.grad[1], args.grad[2]);
  if (rest.defined() && d.numel() > 0) add_term(d, at_largest(args, rest));
  return {d, {}};
}

std::vector<Tensor> reference(const OpArgs& args) {
  const Settings s = settings(args);
  const std::vector<std::int64_t> labels = checked_labels(args, s);
  Tensor loss = reference_output(loss_shape(args, s));
  Tensor largest_of = reference_output(args.in[1].shape()), log_total = reference_output(args.in[1].shape());
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const std::int64_t label = labels[static_cast<std::size_t>(r)];
    if (label == s.ignore) continue;
    const double* x = values(args.in[0]) + r * s.classes;
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t j = 0; j < s.classes; ++j) largest = std::max(largest, x[j]);
    double total = 0;
    for (std::int64_t j = 0; j < s.classes; ++j) total += std::exp(x[j] - largest);
    double row_loss = 0;
    for (std::int64_t j = 0; j < s.classes; ++j) {
      const double target = (j == label ? 1.0 - s.smoothing : 0.0) + s.smoothing / static_cast<double>(s.classes);
      row_loss -= target * (x[j] - largest - std::log(total));
    }
    values(largest_of)[r] = largest;
    values(log_total)[r] = std::log(total);
    values(loss)[s.joined == Joined::none ? r : 0] += row_loss * row_factor(labels, s);
  }
  return {loss, largest_of, log_total};
}

std::vector<Sample> samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, tag, 2.0); };
  const Tensor some_ignored = Tensor::from<std::int64_t>({2, -100, 0, -100, 3}, {5});
  const Attrs none{{"reduction", std::string("none")}};
  return {{{x({5, 7}, 601), sample_labels({5}, 7, 1)}, {}, "mean"},
          {{x({5, 4}, 602), some_ignored}, {}, "some rows ignored"},
          {{x({5, 4}, 603), some_ignored}, {{"label_smoothing", 0.1}}, "smoothing, some rows ignored"},
          {{x({3, 33}, 604), sample_labels({3}, 33, 2)}, {{"reduction", std::string("sum")}}, "sum"},
          {{x({2, 3, 65}, 605), sample_labels({2, 3}, 65, 3)},
           {{"reduction", std::string("none")}, {"label_smoothing", 0.2}},
           "none, two leading axes"},
          {{x({5, 4}, 606), some_ignored}, none, "none, some rows ignored"},
          {{scattered(x({2, 4, 9}, 607)), scattered(sample_labels({2, 4}, 9, 4))}, {}, "strided views"},
          {{x({5}, 608), Tensor::from<std::int64_t>({3}, {})}, {}, "one row without axes"},
          {{x({3, 1}, 609), sample_labels({3}, 1, 5)}, {}, "one class"},
          {{x({2, 4}, 610), Tensor::from<std::int64_t>({7, 7}, {2})},
           {{"ignore_index", std::int64_t{7}}},
           "all rows ignored"},
          {{x({0, 4}, 611), sample_labels({0}, 4, 6)}, {}, "no rows"}};
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::ones({2, 4});
  const Tensor labels = Tensor::from<std::int64_t>({0, 1}, {2});
  return {{{x, Tensor::from<std::int64_t>({0, 4}, {2})}, {}, "label 4 of row 1 is outside [0, 4): there are 4 classes"},
          {{x, Tensor::from<std::int64_t>({-1, 0}, {2})}, {}, "label -1 of row 0"},
          {{x, Tensor::ones({2})}, {}, "labels must be i64, it is f32"},
          {{x, Tensor::from<std::int64_t>({0, 1, 2}, {3})}, {}, "labels must be [2], it is [3]"},
          {{Tensor::ones({2, 4}, DType::i64), labels}, {}, "logits must be f32 or f64"},
          {{x, labels}, {{"label_smoothing", 1.5}}, "label_smoothing must lie in [0, 1]"},
          {{x, labels}, {{"reduction", std::string("median")}}, "reduction must be mean, sum or none, it is 'median'"}};
}

// Rows; and classes, where the labels are relabelled along. A label that is ignored names no class, so samples that
// have some, and those where a class is ignored, keep their classes.
std::vector<Symmetry> symmetries(const Sample& sample) {
  const Shape& shape = sample.in[0].shape();
  const bool by_row = sample.attrs.has("reduction") && sample.attrs.text("reduction") == "none";
  std::vector<Symmetry> all;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) {
    if (shape[axis] < 2) continue;
    Symmetry rows{fmt::format("rows, axis {}", axis),
                  {in_leg(0, axis), in_leg(1, axis), out_leg(1, axis), out_leg(2, axis)}};
    if (by_row) rows.legs.push_back(out_leg(0, axis));
    all.push_back(std::move(rows));
  }
  const std::int64_t ignored = sample.attrs.has("ignore_index") ? sample.attrs.integer("ignore_index") : -1;
  bool all_name_classes = ignored < 0 || ignored >= shape[-1];
  if (sample.in[1].has_storage())
    for (const std::int64_t label : sample.in[1].to_vector<std::int64_t>())
      all_name_classes = all_name_classes && label >= 0 && label < shape[-1];
  if (shape[-1] >= 2 && all_name_classes) all.push_back({"classes", {in_leg(0, -1)}, {1}});
  return all;
}

} // namespace

constinit const OpDef cross_entropy_op = row({
    .name = "cross_entropy",
    .math = "loss_i = m_i + l_i - sum_j t_ij x_ij, m_i = max_j x_ij, l_i = log sum_j exp(x_ij - m_i), "
            "t = (1 - s) onehot(label) + s / C; reduced over the rows that count",
    .inputs = {{"logits"}, {"labels"}},
    .outputs = {"loss", "largest", "log_total"},
    .auxiliary = 2,
    .attributes = cross_entropy_parts::attributes,
    .infer = infer,
    .cpu = forward,
    .exact = cross_entropy_exact::forward,
    .cuda = run_on_device,
    .saves = saves::in(0) | saves::in(1) | saves::out(1) | saves::out(2),
    .vjp = rule,
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = [](const OpArgs& args, std::span<const TensorSpec> out) -> Work {
      return {12.0 * static_cast<double>(args.in[0].numel()), bytes_moved(args, out)};
    },
});

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, double label_smoothing, std::int64_t ignore_index,
                     const char* reduction) {
  return call1(
      cross_entropy_op, {logits, labels},
      {{"label_smoothing", label_smoothing}, {"ignore_index", ignore_index}, {"reduction", std::string(reduction)}});
}

} // namespace eg
