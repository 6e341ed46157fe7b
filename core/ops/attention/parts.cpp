#include "core/ops/attention/parts.h"

#include "core/call.h"
#include "core/device/device.h"
#include "core/device/transfer.h"
#include "core/ops.h"
#include "core/ops/row_tools.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace eg::attention_parts {

using attention_kernels::BackwardHead;
using attention_kernels::Extents;
using attention_kernels::ForwardHead;
using attention_kernels::Rows;

double scale_of(double attribute, std::int64_t head_dim) {
  if (attribute != 0.0) return attribute;
  return head_dim > 0 ? 1.0 / std::sqrt(static_cast<double>(head_dim)) : 1.0;
}

Tensor with_rows(const Tensor& x) {
  const std::int64_t rows = x.shape()[-2];
  const std::int64_t columns = x.shape()[-1];
  const bool unit = columns <= 1 || x.strides()[-1] == 1;
  const bool apart = rows <= 1 || x.strides()[-2] >= std::max<std::int64_t>(columns, 1);
  return unit && apart ? x : packed(x);
}

Shape leading_axes(const Shape& shape, int trailing) {
  return Shape(shape.dims().first(static_cast<std::size_t>(shape.rank() - trailing)));
}

template <class T>
Matrices<T>::Matrices(const Tensor& x, T* data)
    : leading_(leading_axes(x.shape(), 2)), strides_(leading_axes(x.strides(), 2)), data_(data),
      // One row has no next one; BLAS still wants a leading dimension that holds it.
      ld_(std::max<std::int64_t>(x.shape()[-2] > 1 ? x.strides()[-2] : x.shape()[-1], 1)) {}

void check_mask(const OpArgs& args, std::size_t i, const Shape& scores) {
  if (!args.given(i)) return;
  const Tensor& mask = args.in[i];
  if (mask.dtype() != DType::boolean && !is_floating(mask.dtype()))
    throw DTypeError(fmt::format("{}: mask must be boolean (true: the key is seen) or floating (added to the scores), "
                                 "it is {}",
                                 args.op.name, name_of(mask.dtype())));
  bool fits = mask.rank() <= scores.rank();
  for (int back = 1; fits && back <= mask.rank(); ++back)
    fits = mask.shape()[-back] == 1 || mask.shape()[-back] == scores[-back];
  if (!fits)
    throw ShapeError(fmt::format("{}: mask does not broadcast to the scores: mask is {}, the scores are {}",
                                 args.op.name, mask.shape().str(), scores.str()));
}

bool mask_is_floating(const OpArgs& args, std::size_t i) { return args.given(i) && is_floating(args.in[i].dtype()); }

Tensor additive_mask(const Tensor& mask, DType dtype) {
  if (!mask.defined()) return {};
  const PauseRecording pause;
  if (mask.dtype() != DType::boolean) return packed(mask);
  if (!mask.device().is_cpu()) {
    const DeviceScope there(mask.device());
    return where(mask, Tensor::zeros({}, dtype), Tensor::full({}, -std::numeric_limits<double>::infinity(), dtype));
  }
  const Tensor seen = packed(mask);
  Tensor added = Tensor::empty(mask.shape(), dtype);
  visit_floating(dtype, [&]<class T>() {
    const bool* const from = seen.data<bool>();
    T* const to = added.mutable_data<T>("attention mask");
    for (std::int64_t i = 0; i < added.numel(); ++i) to[i] = from[i] ? T{0} : -std::numeric_limits<T>::infinity();
  });
  return added;
}

Tensor mask_of(const OpArgs& args, std::size_t i) {
  return args.given(i) ? additive_mask(args.in[i], args.in[0].dtype()) : Tensor{};
}

bool wants_mask_gradient(const OpArgs& args) { return args.attrs.flag("mask_gradient"); }

void check_mask_gradient(const OpArgs& args, std::size_t mask) {
  if (wants_mask_gradient(args) && !mask_is_floating(args, mask))
    throw ValueError(fmt::format("{}: mask_gradient needs a floating mask", args.op.name));
}

bool is_causal(const Sample& sample) { return sample.attrs.has("causal") && sample.attrs.flag("causal"); }

std::vector<Sample> samples_of_backward(const OpDef& forward, const std::vector<Sample>& samples, std::size_t mask,
                                        DType dtype, std::uint64_t tag) {
  std::vector<Sample> all;
  for (const Sample& of_forward : samples) {
    Sample sample = of_forward;
    const std::vector<Tensor> out = call(forward, of_forward.in, of_forward.attrs);
    const Tensor given = sample.in.size() > mask ? sample.in[mask] : Tensor{};
    sample.in.resize(mask);
    sample.in.insert(sample.in.end(), {out[0], out[1], sample_normal(out[0].shape(), dtype, ++tag)});
    if (tag % 2 == 0) sample.in.push_back(sample_normal(out[1].shape(), dtype, 100 + tag));
    if (given.defined()) {
      sample.in.resize(mask + 4);
      sample.in.push_back(given);
      if (is_floating(given.dtype())) sample.attrs.set("mask_gradient", true);
    }
    all.push_back(std::move(sample));
  }
  return all;
}

Tensor causal_mask(std::int64_t queries, std::int64_t keys, DType dtype) {
  const Device target = current_device();
  const DeviceScope here(Device::cpu());
  Tensor mask = Tensor::zeros({queries, keys}, dtype);
  visit_floating(dtype, [&]<class T>() {
    T* const to = mask.mutable_data<T>("attention mask");
    for (std::int64_t i = 0; i < queries; ++i)
      for (std::int64_t j = std::max<std::int64_t>(i + keys - queries + 1, 0); j < keys; ++j)
        to[i * keys + j] = -std::numeric_limits<T>::infinity();
  });
  if (!target.is_cpu()) return device::transferred(mask, target);
  return mask;
}

template <class T> Masks<T>::Masks(const Tensor& mask, T* data, const Shape& scores) {
  if (!mask.defined()) return;
  const PauseRecording pause;
  const Tensor wide = mask.expand(scores);
  const auto stride = [&](int back) { return scores[-back] == 1 ? 0 : wide.strides()[-back]; };
  data_ = data;
  elements_ = mask.numel();
  leading_ = leading_axes(scores, 2);
  strides_ = leading_axes(wide.strides(), 2);
  row_ = stride(2);
  column_ = stride(1);
  std::int64_t repeats = 1;
  for (int axis = 0; axis < leading_.rank(); ++axis)
    if (strides_[axis] == 0) repeats *= leading_[axis];
  shared_ = repeats > 1;
}

template <class T> std::int64_t Masks<T>::offset(std::int64_t head) const {
  std::int64_t at = 0;
  for (int axis = leading_.rank() - 1; axis >= 0; --axis) {
    at += head % leading_[axis] * strides_[axis];
    head /= leading_[axis];
  }
  return at;
}

template class Masks<float>;
template class Masks<double>;
template class Masks<const float>;
template class Masks<const double>;
template class Matrices<float>;
template class Matrices<double>;
template class Matrices<const float>;
template class Matrices<const double>;

namespace {

double at(Rows<const double> m, std::int64_t i, std::int64_t j) { return m.data[i * m.ld + j]; }

double inner(Rows<const double> a, std::int64_t i, Rows<const double> b, std::int64_t j, std::int64_t n) {
  double total = 0;
  for (std::int64_t c = 0; c < n; ++c) total += at(a, i, c) * at(b, j, c);
  return total;
}

/// Score of query i and key j: -infinity where it is hidden.
template <class Head> double score(const Extents& e, const Head& head, std::int64_t i, std::int64_t j) {
  if (e.causal && j >= e.seen_by(i)) return -std::numeric_limits<double>::infinity();
  const double added = head.mask.data ? head.mask.data[i * head.mask.row + j * head.mask.column] : 0.0;
  return e.scale * inner(head.q, i, head.k, j, e.head_dim) + added;
}

} // namespace

void forward_reference(const Extents& e, FunctionRef<ForwardHead<double>(std::int64_t)> head) {
  for (std::int64_t h = 0; h < e.heads; ++h) {
    const ForwardHead<double> one = head(h);
    for (std::int64_t i = 0; i < e.queries; ++i) {
      double largest = -std::numeric_limits<double>::infinity();
      for (std::int64_t j = 0; j < e.keys; ++j) largest = std::max(largest, score(e, one, i, j));
      if (largest == -std::numeric_limits<double>::infinity()) continue; // it sees nothing: y and lse are 0
      double total = 0;
      for (std::int64_t j = 0; j < e.keys; ++j) total += std::exp(score(e, one, i, j) - largest);
      one.lse[i] = largest + std::log(total);
      for (std::int64_t c = 0; c < e.value_dim; ++c) {
        double y = 0;
        for (std::int64_t j = 0; j < e.keys; ++j)
          y += std::exp(score(e, one, i, j) - largest) / total * at(one.v, j, c);
        one.y.data[i * one.y.ld + c] = y;
      }
    }
  }
}

void backward_reference(const Extents& e, FunctionRef<BackwardHead<double>(std::int64_t)> head,
                        const attention_kernels::MaskGradient<double>& dmask) {
  for (std::int64_t h = 0; h < e.heads; ++h) {
    const BackwardHead<double> one = head(h);
    for (std::int64_t i = 0; i < e.queries; ++i) {
      const double delta = inner(one.g, i, one.y, i, e.value_dim) - (one.dlse ? one.dlse[i] : 0.0);
      for (std::int64_t j = 0; j < e.keys; ++j) {
        const double s = std::exp(score(e, one, i, j) - one.lse[i]);
        const double de = s * (inner(one.g, i, one.v, j, e.value_dim) - delta);
        if (dmask.data) dmask.data[one.dmask_offset + i * dmask.row + j * dmask.column] += de;
        for (std::int64_t c = 0; c < e.head_dim; ++c) {
          one.dq.data[i * one.dq.ld + c] += e.scale * de * at(one.k, j, c);
          one.dk.data[j * one.dk.ld + c] += e.scale * de * at(one.q, i, c);
        }
        for (std::int64_t c = 0; c < e.value_dim; ++c) one.dv.data[j * one.dv.ld + c] += s * at(one.g, i, c);
      }
    }
  }
}

Tensor repeat_heads(const Tensor& x, std::int64_t group) {
  if (group == 1 || !x.defined()) return x;
  const int axis = x.rank() - 3;
  Shape wide(x.shape().dims());
  Shape split = leading_axes(x.shape(), 2);
  split.push_back(group);
  split.push_back(x.shape()[-2]);
  split.push_back(x.shape()[-1]);
  wide[axis] *= group;
  return unsqueeze(x, axis + 1).expand(split).reshape(wide);
}

Tensor sum_groups(const Tensor& x, std::int64_t group) {
  if (group == 1 || !x.defined()) return x;
  Shape split = leading_axes(x.shape(), 2);
  split[-1] /= group;
  split.push_back(group);
  split.push_back(x.shape()[-2]);
  split.push_back(x.shape()[-1]);
  return sum(x.reshape(split), {-3});
}

namespace {

/// S = exp(scale q k^T + mask - lse).
Tensor probabilities(const BackwardInputs& in, const Tensor& k, double scale, bool causal) {
  Tensor e = matmul(in.q, k, false, true) * scale;
  if (in.mask.defined()) e = e + (is_floating(in.mask.dtype()) ? in.mask : additive_mask(in.mask, in.q.dtype()));
  if (causal) e = e + causal_mask(in.q.shape()[-2], k.shape()[-2], in.q.dtype());
  return exp(e - unsqueeze(in.lse, -1));
}

} // namespace

// The backward op, with dlse:  E = scale q k^T + mask,  S = exp(E - lse),  dS = g v^T,  delta = rowsum(g y) - dlse,
//   dE = S (dS - delta),  dq = scale dE k,  dk = scale dE^T q,  dv = S^T g,  dmask = dE.
// The cotangent of dE is W = scale (a k^T + q b^T) + m, that of S is Sbar = g c^T + W (dS - delta), that of dS is W S,
// that of delta is -rowsum(W S), and that of E is Ebar = Sbar S. Heads of a group read one k and v: these are repeated
// first, and their gradients summed at the end.
BackwardInputs backward_rule(const BackwardInputs& in, const BackwardWants& wants, const BackwardCotangents& cotangent,
                             double scale, bool causal) {
  const auto& [q, grouped_k, grouped_v, y, lse, g, dlse, mask] = in;
  const std::int64_t group =
      q.rank() > 2 && grouped_k.shape()[-3] > 0 ? q.shape()[-3] / grouped_k.shape()[-3] : std::int64_t{1};
  const Tensor k = repeat_heads(grouped_k, group), v = repeat_heads(grouped_v, group);
  const Tensor &a = cotangent.q, &m = cotangent.mask;
  const Tensor b = repeat_heads(cotangent.k, group), c = repeat_heads(cotangent.v, group);
  const Tensor s = probabilities(in, k, scale, causal);
  const bool scores = wants.q || wants.k || wants.lse || wants.mask; // what Ebar leads to
  BackwardInputs bar;
  Tensor s_bar;
  if (a.defined() || b.defined() || m.defined()) {
    Tensor w;
    if (a.defined()) add_term(w, matmul(a, k, false, true) * scale);
    if (b.defined()) add_term(w, matmul(q, b, false, true) * scale);
    if (m.defined()) add_term(w, expand(m, s.shape()));
    const Tensor ds_bar = w * s;
    const Tensor total = wants.g || wants.y || wants.dlse ? sum(ds_bar, {-1}, true) : Tensor{};
    if (wants.g) bar.g = matmul(ds_bar, v) - total * y;
    if (wants.v) bar.v = matmul(ds_bar, g, true);
    if (wants.y) bar.y = -(total * g);
    if (wants.dlse && dlse.defined()) bar.dlse = squeeze(total, -1);
    if (scores) {
      Tensor centred = matmul(g, v, false, true) - sum(g * y, {-1}, true);
      if (dlse.defined()) centred = centred + unsqueeze(dlse, -1);
      const Tensor de = s * centred;
      if (wants.k && a.defined()) add_term(bar.k, matmul(de, a, true) * scale);
      if (wants.q && b.defined()) add_term(bar.q, matmul(de, b) * scale);
      s_bar = w * centred;
    }
  }
  if (c.defined()) {
    if (scores) add_term(s_bar, matmul(g, c, false, true));
    if (wants.g) add_term(bar.g, matmul(s, c));
  }
  if (s_bar.defined()) {
    const Tensor e_bar = s_bar * s;
    if (wants.lse) bar.lse = -sum(e_bar, {-1});
    if (wants.q) add_term(bar.q, matmul(e_bar, k) * scale);
    if (wants.k) add_term(bar.k, matmul(e_bar, q, true) * scale);
    if (wants.mask) bar.mask = e_bar;
  }
  bar.k = sum_groups(bar.k, group);
  bar.v = sum_groups(bar.v, group);
  return bar;
}

} // namespace eg::attention_parts
