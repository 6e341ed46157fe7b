#include "support/law_tools.h"

#include "autograd/tape.h"
#include "core/ops.h"
#include "core/reduction.h"
#include "core/registry.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

namespace eg::laws {

std::string Verdict::text() const {
  constexpr std::size_t shown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(failures.size(), shown); ++i) text += "\n    " + failures[i];
  if (failures.size() > shown) text += fmt::format("\n    and {} more", failures.size() - shown);
  return text;
}

void enforce(Law law, bool (*may_be_empty)(const OpDef&)) {
  for (const OpDef* op : registry()) {
    const Verdict verdict = law(*op);
    CHECK_MESSAGE(verdict.pass(), std::string(op->name), ":", verdict.text());
    const bool empty_is_right = may_be_empty != nullptr && may_be_empty(*op);
    CHECK_MESSAGE((verdict.checked > 0) != empty_is_right, std::string(op->name),
                  empty_is_right ? ": the law compared something where it should not apply" : ": nothing was compared");
  }
}

Tensors floating(const Tensors& list) {
  Tensors found;
  std::copy_if(list.begin(), list.end(), std::back_inserter(found), flows);
  return found;
}

std::string where(const OpDef& op, const Sample& sample, DType dtype) {
  return fmt::format("{} [{}, {}]", op.name, sample.note, name_of(dtype));
}

Tensors outputs(const OpDef& op, const Sample& sample) {
  const PauseRecording pause;
  return call_row(op, sample.in, sample.attrs);
}

Tensors reference_outputs(const OpDef& op, const Sample& sample) {
  const PauseRecording pause;
  const Attrs attrs = completed(op, sample);
  const Sample wide = packed_copy(converted(sample, DType::f64));
  return op.reference(OpArgs{op, wide.in, attrs});
}

TensorFunction function_of(const OpDef& op, const Attrs& attrs) {
  return [&op, attrs](const Tensors& in) { return call_row(op, in, attrs); };
}

Attrs completed(const OpDef& op, const Sample& sample) { return completed_attributes(op, sample.attrs); }

Tensors cotangents_for(const Tensors& out) {
  constexpr RandomKey key{77, 5};
  Tensors drawn(out.size());
  for (std::size_t o = 0; o < out.size(); ++o)
    if (flows(out[o])) drawn[o] = random_normal(out[o].shape(), key.fold(o), 0.0, 1.0, out[o].dtype());
  return drawn;
}

Tensors gradients(const OpDef& op, const Sample& sample, const Tensors& cotangents) {
  Tape tape;
  const Tensors y = call_row(op, sample.in, sample.attrs);
  const Tensors found = tape.gradient(floating(y), floating(sample.in), floating(cotangents));
  Tensors by_input(sample.in.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < sample.in.size(); ++i)
    if (flows(sample.in[i])) by_input[i] = found[next++];
  return by_input;
}

bool differentiable(const OpDef& op, const Sample& sample) {
  return has_gradient(op) && !floating(sample.in).empty() && !floating(outputs(op, sample)).empty();
}

Sample packed_copy(const Sample& sample) {
  Sample copy = sample;
  for (Tensor& x : copy.in)
    if (x.defined()) x = x.clone();
  return copy;
}

Sample converted(const Sample& sample, DType dtype) {
  Sample other = sample;
  for (Tensor& x : other.in)
    if (flows(x)) x = x.to(dtype).clone();
  return other;
}

namespace {

/// A tensor that must not be read: NaN, or a number that is a valid index of nothing.
Tensor poison(const Shape& shape, DType dtype) {
  if (is_floating(dtype)) return Tensor::full(shape, std::numeric_limits<double>::quiet_NaN(), dtype);
  return Tensor::full(shape, dtype == DType::i64 ? -987654321.0 : 1.0, dtype);
}

Tensor every_other(const Tensor& x) {
  Shape roomy = x.shape();
  for (int axis = 0; axis < roomy.rank(); ++axis) roomy[axis] = 2 * roomy[axis] + 1;
  Tensor view = poison(roomy, x.dtype());
  for (int axis = 0; axis < roomy.rank(); ++axis) view = view.slice(axis, 1, 1 + 2 * x.shape()[axis], 2);
  view.copy_from(x);
  return view;
}

Tensor shifted(const Tensor& x) {
  Tensor view = poison({x.numel() + 2}, x.dtype()).slice(0, 1, x.numel() + 1).reshape(x.shape());
  view.copy_from(x);
  return view;
}

} // namespace

std::vector<std::pair<std::string, Tensor>> layouts_of(const Tensor& x) {
  const PauseRecording pause;
  std::vector<std::pair<std::string, Tensor>> list;
  list.emplace_back("every other element of a larger tensor", every_other(x));
  list.emplace_back("shifted by one element", shifted(x));
  if (x.rank() >= 2) list.emplace_back("transposed storage", x.transpose(0, -1).clone().transpose(0, -1));
  if (x.rank() >= 3) list.emplace_back("last axes transposed", x.transpose(-2, -1).clone().transpose(-2, -1));
  return list;
}

namespace {

std::int64_t largest_numel(const Tensors& list) {
  std::int64_t most = 0;
  for (const Tensor& t : list)
    if (t.defined()) most = std::max(most, t.numel());
  return most;
}

/// Repeats the axis of every input leg `times` over.
Sample repeated(const Sample& sample, const Symmetry& symmetry, std::int64_t times) {
  Sample grown = sample;
  for (const Leg& leg : symmetry.legs) {
    const auto at = static_cast<std::size_t>(leg.index);
    if (leg.side != Leg::Side::in || at >= grown.in.size() || !grown.in[at].defined()) continue;
    Tensor& x = grown.in[at];
    const std::int64_t extent = x.size(leg.axis);
    std::vector<std::int64_t> index;
    for (std::int64_t i = 0; i < times * extent; ++i) index.push_back(i % extent);
    const auto count = static_cast<std::int64_t>(index.size());
    x = index_select(x, leg.axis, Tensor::from(index, {count}));
  }
  return grown;
}

double flops_of(const OpDef& op, const Sample& sample) {
  const Attrs attrs = completed(op, sample);
  const OpArgs args{op, sample.in, attrs};
  return op.work(args, op.infer(args)).flops;
}

Sample with_noise(Sample sample) {
  constexpr RandomKey key{88, 1};
  for (std::size_t i = 0; i < sample.in.size(); ++i)
    if (Tensor& x = sample.in[i]; flows(x)) x = mul(x, random_uniform(x.shape(), key.fold(i), 0.9, 1.1, x.dtype()));
  return sample;
}

} // namespace

namespace {

/// Axes along which the sample may be repeated: those of the row's symmetries or, where it has none, each leading axis
/// of all its inputs together (the call refuses what does not fit).
std::vector<Symmetry> growing_axes(const OpDef& op, const Sample& sample) {
  if (op.symmetries != nullptr) return op.symmetries(sample);
  Symmetry all{"leading axis", {}, {}};
  for (std::size_t i = 0; i < sample.in.size(); ++i)
    if (sample.in[i].defined() && sample.in[i].rank() > 0) all.legs.push_back(in_leg(static_cast<int>(i), 0));
  return {all};
}

} // namespace

Sample enlarged(const OpDef& op, const Sample& sample, std::int64_t elements) {
  const double too_much_work = reduction() == Reduction::exact ? 1e7 : 1e8; // exact sums take ten times as long
  const PauseRecording pause;
  Sample grown = packed_copy(sample);
  bool grew = true;
  bool ever = false;
  while (grew && largest_numel(grown.in) < elements) {
    grew = false;
    for (const Symmetry& symmetry : growing_axes(op, grown)) {
      if (!symmetry.grows) continue;
      try {
        Sample next = repeated(grown, symmetry, 3);
        if (largest_numel(next.in) <= largest_numel(grown.in) || largest_numel(next.in) > 8 * elements) continue;
        if (flops_of(op, next) > too_much_work || largest_numel(outputs(op, next)) > 8 * elements) continue;
        grown = std::move(next);
        grew = ever = true;
      } catch (const Error&) {
        continue; // an attribute fixes this extent (reshape, patchify)
      }
    }
  }
  if (!ever) return {};
  grown = with_noise(std::move(grown));
  grown.note = "enlarged";
  return grown;
}

std::string difference_in_bits(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return fmt::format("{} tensors against {}", a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].defined() != b[i].defined()) return fmt::format("tensor {} is undefined on one side", i);
    if (!a[i].defined() || same_bits(a[i], b[i])) continue;
    if (a[i].shape() != b[i].shape() || a[i].dtype() != b[i].dtype())
      return fmt::format("tensor {}: {} {} against {} {}", i, name_of(a[i].dtype()), a[i].shape().str(),
                         name_of(b[i].dtype()), b[i].shape().str());
    return fmt::format("tensor {}: relative difference {:.2e}", i, relative_error(a[i], b[i]));
  }
  return {};
}

void each_sample(const OpDef& op, DType dtype, Verdict& verdict, const std::function<void(const Sample&)>& f) {
  for (const Sample& sample : op.samples(dtype)) {
    try {
      f(sample);
    } catch (const std::exception& e) {
      verdict.fail(fmt::format("{}: threw: {}", where(op, sample, dtype), e.what()));
    }
  }
}

} // namespace eg::laws
