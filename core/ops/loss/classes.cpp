// Losses of classifications, as compositions: binary cross-entropy of logits, cross-entropy against probabilities,
// negative log-likelihood.

#include "core/device/transfer.h"
#include "core/ops/list.h"
#include "core/ops/loss/parts.h"
#include "core/ops/pointwise/pointwise.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace eg {
namespace {

using namespace loss_parts;

Shape rows_of(const Shape& shape) { return Shape(shape.dims().first(static_cast<std::size_t>(shape.rank() - 1))); }

Work work(const OpArgs& args, std::span<const TensorSpec> out) {
  return {30.0 * static_cast<double>(args.in[0].numel()), bytes_moved(args, out)};
}

bool is_kept(const Sample& sample) { return sample.attrs.has("reduction") && sample.attrs.text("reduction") == "none"; }

/// A symmetry whose legs are `axis` (negative, counted in input 0) of those inputs that have it longer than 1.
Symmetry along(const Sample& sample, int axis, std::string name) {
  Symmetry symmetry{std::move(name), {}};
  for (std::size_t i = 0; i < sample.in.size(); ++i)
    if (sample.in[i].defined() && sample.in[i].rank() >= -axis && sample.in[i].shape()[axis] > 1)
      symmetry.legs.push_back(in_leg(static_cast<int>(i), axis));
  return symmetry;
}

// --- bce_with_logits ---

std::vector<TensorSpec> bce_infer(const OpArgs& args) {
  check_all_floating(args);
  check_reduction(args);
  const Shape& shape = args.in[0].shape();
  check_shape(args, 1, shape);
  check_broadcasts(args, 2, shape);
  check_broadcasts(args, 3, shape);
  return {{reduced_shape(args, shape), args.in[0].dtype()}};
}

std::vector<Tensor> bce_body(const OpArgs& args) {
  const Tensor &x = args.in[0], &t = args.in[1];
  Tensor loss = args.given(3) ? neg(args.in[3] * t * log_sigmoid(x) + affine(t, -1.0, 1.0) * log_sigmoid(neg(x)))
                              : logit_loss(x, t);
  if (args.given(2)) loss = loss * args.in[2];
  return {reduced(args, loss)};
}

std::vector<Tensor> bce_reference(const OpArgs& args) {
  const PauseRecording pause;
  Tensor losses = reference_output(args.in[0].shape());
  const auto wide = [&](std::size_t i) {
    const Tensor one = args.given(i) ? args.in[i] : Tensor::ones({}, DType::f64);
    return one.expand(losses.shape()).contiguous();
  };
  const Tensor weight = wide(2), positive = wide(3);
  for (std::int64_t i = 0; i < losses.numel(); ++i) {
    const double x = values(args.in[0])[i], t = values(args.in[1])[i];
    const double plus = -std::log1p(std::exp(-x)), minus = -std::log1p(std::exp(x));
    values(losses)[i] = -values(weight)[i] * (values(positive)[i] * t * plus + (1.0 - t) * minus);
  }
  return {reduced_reference(args, losses)};
}

std::vector<Sample> bce_samples(DType dtype) {
  const auto x = [&](const Shape& s, std::uint64_t tag) { return sample_normal(s, dtype, 1900 + tag, 2.0); };
  const auto t = [&](const Shape& s, std::uint64_t tag) { return sample_uniform(s, dtype, 1900 + tag, 0.0, 1.0); };
  const auto w = [&](const Shape& s, std::uint64_t tag) { return sample_uniform(s, dtype, 1900 + tag, 0.5, 2.0); };
  return {{{x({5, 7}, 1), t({5, 7}, 2)}, reducing("none"), "none"},
          {{x({3, 33}, 3), t({3, 33}, 4), w({33}, 5), w({33}, 6)}, {}, "weights of classes"},
          {{x({4, 6}, 7), t({4, 6}, 8), w({4, 1}, 9)}, reducing("sum"), "weights of rows, sum"},
          {{x({4, 6}, 10), t({4, 6}, 11), {}, w({6}, 12)}, reducing("none"), "pos_weight, none"},
          {{scattered(x({4, 6}, 13)), scattered(t({4, 6}, 14))}, {}, "strided views"},
          {{x({65}, 15), t({65}, 16)}, {}, "odd size"},
          {{x({0, 4}, 17), t({0, 4}, 18)}, {}, "nothing"}};
}

std::vector<Refusal> bce_refuses() {
  const Tensor x = Tensor::ones({4, 3});
  return {{{x, Tensor::ones({3})}, {}, "bce_with_logits: target must be [4, 3], it is [3]"},
          {{x, x, Tensor::ones({4})}, {}, "weight must broadcast to [4, 3], it is [4]"},
          {{x, x, {}, Tensor::ones({1, 4, 3})}, {}, "pos_weight must broadcast to [4, 3]"},
          {{x, x}, reducing("median"), "reduction must be mean, sum or none, it is 'median'"},
          {{Tensor::ones({3}, DType::i64), Tensor::ones({3}, DType::i64)}, {}, "must be f32 or f64"}};
}

std::vector<Symmetry> bce_symmetries(const Sample& sample) {
  std::vector<Symmetry> all;
  for (int axis = -1; axis >= -sample.in[0].rank(); --axis) {
    if (sample.in[0].size(axis) < 2) continue;
    Symmetry symmetry = along(sample, axis, fmt::format("axis {}", axis));
    if (is_kept(sample)) symmetry.legs.push_back(out_leg(0, axis));
    all.push_back(std::move(symmetry));
  }
  return all;
}

// --- soft_cross_entropy ---

std::vector<TensorSpec> soft_infer(const OpArgs& args) {
  check_all_floating(args);
  check_reduction(args);
  check_rank_at_least(args, 0, 1);
  const Shape& shape = args.in[0].shape();
  check_shape(args, 1, shape);
  if (args.given(2)) check_shape(args, 2, {shape[-1]});
  const double smoothing = args.attrs.real("label_smoothing");
  if (!(smoothing >= 0.0 && smoothing <= 1.0))
    throw ValueError(fmt::format("{}: label_smoothing must lie in [0, 1], it is {}", args.op.name, smoothing));
  return {{reduced_shape(args, rows_of(shape)), args.in[0].dtype()}};
}

std::vector<Tensor> soft_body(const OpArgs& args) {
  const double s = args.attrs.real("label_smoothing");
  const auto classes = static_cast<double>(args.in[0].shape()[-1]);
  Tensor t = args.in[1];
  if (s > 0.0) t = affine(t, 1.0 - s, classes > 0.0 ? s / classes : 0.0);
  if (args.given(2)) t = t * args.in[2];
  return {reduced(args, -sum(t * log_softmax(args.in[0]), {-1}))};
}

std::vector<Tensor> soft_reference(const OpArgs& args) {
  const Shape& shape = args.in[0].shape();
  Tensor losses = reference_output(rows_of(shape));
  const std::int64_t classes = shape[-1];
  const double s = args.attrs.real("label_smoothing");
  for (std::int64_t r = 0; r < losses.numel(); ++r) {
    const double* x = values(args.in[0]) + r * classes;
    double largest = -std::numeric_limits<double>::infinity(), total = 0;
    for (std::int64_t j = 0; j < classes; ++j) largest = std::max(largest, x[j]);
    for (std::int64_t j = 0; j < classes; ++j) total += std::exp(x[j] - largest);
    for (std::int64_t j = 0; j < classes; ++j) {
      const double t = (1.0 - s) * values(args.in[1])[r * classes + j] + s / static_cast<double>(classes);
      values(losses)[r] -= (args.given(2) ? values(args.in[2])[j] : 1.0) * t * (x[j] - largest - std::log(total));
    }
  }
  return {reduced_reference(args, losses)};
}

std::vector<Sample> soft_samples(DType dtype) {
  const auto x = [&](const Shape& s, std::uint64_t tag) { return sample_normal(s, dtype, 1950 + tag, 2.0); };
  const auto t = [&](const Shape& s, std::uint64_t tag) { return softmax(sample_normal(s, dtype, 1950 + tag)); };
  const auto w = [&](std::int64_t n, std::uint64_t tag) { return sample_uniform({n}, dtype, 1950 + tag, 0.5, 2.0); };
  return {{{x({5, 7}, 1), t({5, 7}, 2)}, {}, "mean"},
          {{x({3, 33}, 3), t({3, 33}, 4), w(33, 5)}, {{"label_smoothing", 0.1}}, "weights and smoothing"},
          {{x({2, 3, 4}, 6), t({2, 3, 4}, 7)}, reducing("none"), "none, two leading axes"},
          {{x({65, 2}, 8), t({65, 2}, 9)}, reducing("sum"), "sum"},
          {{scattered(x({4, 6}, 10)), scattered(t({4, 6}, 11))}, {}, "strided views"},
          {{x({3, 1}, 12), t({3, 1}, 13)}, {}, "one class"},
          {{x({0, 4}, 14), t({0, 4}, 15)}, {}, "no rows"}};
}

std::vector<Refusal> soft_refuses() {
  const Tensor x = Tensor::ones({4, 3});
  return {{{x, Tensor::ones({4})}, {}, "soft_cross_entropy: target must be [4, 3], it is [4]"},
          {{x, x, Tensor::ones({4})}, {}, "weight must be [3], it is [4]"},
          {{x, x}, {{"label_smoothing", 1.5}}, "label_smoothing must lie in [0, 1]"},
          {{x, x}, reducing("median"), "reduction must be mean, sum or none"},
          {{Tensor::ones({}), Tensor::ones({})}, {}, "at least 1 axes"}};
}

std::vector<Symmetry> soft_symmetries(const Sample& sample) {
  std::vector<Symmetry> all;
  const Shape& shape = sample.in[0].shape();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] < 2) continue;
    Symmetry symmetry{fmt::format("axis {}", axis), {in_leg(0, axis), in_leg(1, axis)}};
    if (axis + 1 == shape.rank()) {
      symmetry.legs.push_back(in_leg(2, 0));
      symmetry.mixes = true; // classes, in each softmax
    } else if (is_kept(sample))
      symmetry.legs.push_back(out_leg(0, axis));
    all.push_back(std::move(symmetry));
  }
  return all;
}

// --- nll_loss ---

/// The labels, ignored ones as 0; for each row 1 or, where it is ignored, 0; and the same as a truth value.
struct Labels {
  Tensor safe, counted, ignored;
};

/// Made of operations, so that who follows the calls sees that all three come from the labels.
Labels checked_labels(const OpArgs& args) {
  const PauseRecording pause;
  const Tensor labels = device::on_cpu(packed(args.in[1]));
  const std::int64_t classes = args.in[0].shape()[-1], ignore = args.attrs.integer("ignore_index");
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    const std::int64_t label = labels.data<std::int64_t>()[i];
    if (label != ignore && (label < 0 || label >= classes))
      throw IndexError(fmt::format("{}: label {} of row {} is outside [0, {}): there are {} classes, and ignore_index "
                                   "is {}",
                                   args.op.name, label, i, classes, classes, ignore));
  }
  const Tensor ignored = eq(args.in[1], Tensor::from<std::int64_t>({ignore}, {}));
  return {masked_fill(args.in[1], ignored, 0.0).contiguous(), cast(logical_not(ignored), args.in[0].dtype()), ignored};
}

std::vector<TensorSpec> nll_infer(const OpArgs& args) {
  check_floating(args, 0);
  check_dtype(args, 1, DType::i64);
  check_reduction(args);
  check_rank_at_least(args, 0, 1);
  const Shape& shape = args.in[0].shape();
  check_shape(args, 1, rows_of(shape));
  if (args.given(2)) {
    check_floating(args, 2);
    check_shape(args, 2, {shape[-1]});
  }
  return {{reduced_shape(args, rows_of(shape)), args.in[0].dtype()}};
}

std::vector<Tensor> nll_body(const OpArgs& args) {
  const Labels labels = checked_labels(args);
  Tensor weight = labels.counted;
  const bool some = weight.numel() > 0 && args.in[0].shape()[-1] > 0;
  if (!some) return {reduced(args, sum(args.in[0], {-1}) * labels.counted)};
  if (args.given(2)) {
    const Shape flat = {labels.safe.numel()};
    weight = reshape(gather(args.in[2], 0, labels.safe.reshape(flat)), labels.safe.shape());
    weight = masked_fill(weight, labels.ignored, 0.0); // not times 0: what an ignored row gathers may be infinite
  }
  Shape column = labels.safe.shape();
  column.push_back(1);
  const Tensor picked = reshape(gather(args.in[0], -1, labels.safe.reshape(column)), labels.safe.shape());
  const Tensor losses = -(masked_fill(picked, labels.ignored, 0.0) * weight);
  const std::string& word = args.attrs.text("reduction");
  if (word == "none") return {losses};
  const Tensor total = sum(losses);
  if (word == "sum") return {total};
  double counted = 0; // all ignored: the total is 0, and so is the mean; counted with weights of sum 0: 0/0
  {
    const PauseRecording pause;
    counted = sum(labels.counted.to(DType::f64)).item();
  }
  if (!(counted > 0)) return {total};
  if (!left_the_type(total)) return {total / sum(weight)};
  const double power = std::ldexp(1.0, std::ilogb(static_cast<double>(losses.numel())) + 1); // above their number
  return {sum(losses / power) / sum(weight) * power};
}

std::vector<Tensor> nll_reference(const OpArgs& args) {
  Tensor losses = reference_output(args.in[1].shape());
  const std::int64_t classes = args.in[0].shape()[-1];
  double weights = 0, total = 0;
  std::int64_t counted = 0;
  for (std::int64_t r = 0; r < losses.numel(); ++r) {
    const std::int64_t label = args.in[1].data<std::int64_t>()[r];
    if (label == args.attrs.integer("ignore_index")) continue;
    const double weight = args.given(2) ? values(args.in[2])[label] : 1.0;
    values(losses)[r] = -weight * values(args.in[0])[r * classes + label];
    weights += weight;
    ++counted;
    total += values(losses)[r];
  }
  const std::string& word = args.attrs.text("reduction");
  if (word == "none") return {losses};
  Tensor result = reference_output({});
  *values(result) = word == "mean" && counted > 0 ? total / weights : total;
  return {result};
}

std::vector<Sample> nll_samples(DType dtype) {
  const auto x = [&](const Shape& s, std::uint64_t tag) {
    return log_softmax(sample_normal(s, dtype, 2000 + tag, 2.0));
  };
  const auto w = [&](std::int64_t n, std::uint64_t tag) { return sample_uniform({n}, dtype, 2000 + tag, 0.5, 2.0); };
  const auto labels = [](const Shape& s, std::int64_t classes, std::uint64_t tag) {
    return random_integers(s, RandomKey{20240801, tag}, 0, classes);
  };
  const Tensor some_ignored = Tensor::from<std::int64_t>({2, -100, 0, -100, 3}, {5});
  return {{{x({5, 7}, 1), labels({5}, 7, 1)}, {}, "mean"},
          {{x({5, 4}, 2), some_ignored, w(4, 3)}, {}, "weights, some rows ignored"},
          {{x({5, 4}, 4), some_ignored}, reducing("none"), "none, some rows ignored"},
          {{x({2, 3, 33}, 5), labels({2, 3}, 33, 2), w(33, 6)}, reducing("none"), "none, weights, two leading axes"},
          {{x({65, 3}, 7), labels({65}, 3, 3)}, reducing("sum"), "sum"},
          {{scattered(x({2, 4, 9}, 8)), scattered(labels({2, 4}, 9, 4))}, {}, "strided views"},
          {{x({3, 1}, 9), labels({3}, 1, 5)}, {}, "one class"},
          {{x({2, 4}, 10), Tensor::from<std::int64_t>({7, 7}, {2})},
           {{"ignore_index", std::int64_t{7}}},
           "all rows ignored"},
          {{x({0, 4}, 11), labels({0}, 4, 6)}, {}, "no rows"}};
}

std::vector<Refusal> nll_refuses() {
  const Tensor x = Tensor::ones({2, 4});
  const Tensor labels = Tensor::from<std::int64_t>({0, 1}, {2});
  return {{{x, Tensor::from<std::int64_t>({0, 4}, {2})}, {}, "label 4 of row 1 is outside [0, 4): there are 4 classes"},
          {{x, Tensor::ones({2})}, {}, "labels must be i64, it is f32"},
          {{x, Tensor::from<std::int64_t>({0, 1, 2}, {3})}, {}, "labels must be [2], it is [3]"},
          {{x, labels, Tensor::ones({3})}, {}, "weight must be [4], it is [3]"},
          {{Tensor::ones({2, 4}, DType::i64), labels}, {}, "input must be f32 or f64"},
          {{x, labels}, reducing("median"), "reduction must be mean, sum or none"}};
}

/// Rows; and classes, where every label names one and is relabelled along.
std::vector<Symmetry> nll_symmetries(const Sample& sample) {
  const Shape& shape = sample.in[0].shape();
  std::vector<Symmetry> all;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) {
    if (shape[axis] < 2) continue;
    Symmetry rows{fmt::format("rows, axis {}", axis), {in_leg(0, axis), in_leg(1, axis)}};
    if (is_kept(sample)) rows.legs.push_back(out_leg(0, axis));
    all.push_back(std::move(rows));
  }
  const std::int64_t ignored = sample.attrs.has("ignore_index") ? sample.attrs.integer("ignore_index") : -1;
  bool all_name_classes = ignored < 0 || ignored >= shape[-1];
  if (sample.in[1].has_storage())
    for (const std::int64_t label : sample.in[1].to_vector<std::int64_t>())
      all_name_classes = all_name_classes && label >= 0 && label < shape[-1];
  if (shape[-1] >= 2 && all_name_classes) all.push_back({"classes", {in_leg(0, -1), in_leg(2, 0)}, {1}});
  return all;
}

} // namespace

constinit const OpDef bce_with_logits_op = row({
    .name = "bce_with_logits",
    .math = "loss = -w (p t log s(x) + (1 - t) log s(-x)), s(x) = 1 / (1 + e^-x), reduced",
    .inputs = {{"input"}, {"target"}, {"weight", true}, {"pos_weight", true}},
    .outputs = {"loss"},
    .attributes = {reduction_attr},
    .infer = bce_infer,
    .body = bce_body,
    .reference = bce_reference,
    .samples = bce_samples,
    .refuses = bce_refuses,
    .symmetries = bce_symmetries,
    .work = work,
});

constinit const OpDef soft_cross_entropy_op = row({
    .name = "soft_cross_entropy",
    .math = "loss_i = -sum_j w_j t_ij log softmax(x_i)_j, t = (1 - s) target + s / C, reduced over the rows",
    .inputs = {{"logits"}, {"target"}, {"weight", true}},
    .outputs = {"loss"},
    .attributes = {attr_real("label_smoothing", 0.0, "s, in [0, 1]"), reduction_attr},
    .infer = soft_infer,
    .body = soft_body,
    .reference = soft_reference,
    .samples = soft_samples,
    .refuses = soft_refuses,
    .symmetries = soft_symmetries,
    .work = work,
});

constinit const OpDef nll_loss_op = row({
    .name = "nll_loss",
    .math = "loss_i = -w_label x_i,label; mean: the sum over the rows that count over the sum of their weights, "
            "0 where no row counts",
    .inputs = {{"input"}, {"labels"}, {"weight", true}},
    .outputs = {"loss"},
    .attributes = {attr_int("ignore_index", -100, "rows with this label do not count"), reduction_attr},
    .infer = nll_infer,
    .body = nll_body,
    .reference = nll_reference,
    .samples = nll_samples,
    .refuses = nll_refuses,
    .symmetries = nll_symmetries,
    .work = work,
});

Tensor bce_with_logits(const Tensor& input, const Tensor& target, const Tensor& weight, const Tensor& pos_weight,
                       const char* reduction) {
  return call1(bce_with_logits_op, {input, target, weight, pos_weight}, reducing(reduction));
}
Tensor soft_cross_entropy(const Tensor& logits, const Tensor& target, double label_smoothing, const Tensor& weight,
                          const char* reduction) {
  return call1(soft_cross_entropy_op, {logits, target, weight},
               {{"label_smoothing", label_smoothing}, {"reduction", std::string(reduction)}});
}
Tensor nll_loss(const Tensor& input, const Tensor& labels, const Tensor& weight, std::int64_t ignore_index,
                const char* reduction) {
  return call1(nll_loss_op, {input, labels, weight},
               {{"ignore_index", ignore_index}, {"reduction", std::string(reduction)}});
}

} // namespace eg
