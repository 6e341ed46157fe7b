#include "core/ops/attention/parts.h"

#include "core/ops.h"
#include "core/ops/row_tools.h"

#include <algorithm>
#include <cmath>
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

} // namespace

void forward_reference(const Extents& e, FunctionRef<ForwardHead<double>(std::int64_t)> head) {
  for (std::int64_t h = 0; h < e.heads; ++h) {
    const ForwardHead<double> one = head(h);
    for (std::int64_t i = 0; i < e.queries; ++i) {
      double largest = -std::numeric_limits<double>::infinity();
      for (std::int64_t j = 0; j < e.keys; ++j)
        largest = std::max(largest, e.scale * inner(one.q, i, one.k, j, e.head_dim));
      double total = 0;
      for (std::int64_t j = 0; j < e.keys; ++j)
        total += std::exp(e.scale * inner(one.q, i, one.k, j, e.head_dim) - largest);
      one.lse[i] = largest + std::log(total);
      for (std::int64_t c = 0; c < e.value_dim; ++c) {
        double y = 0;
        for (std::int64_t j = 0; j < e.keys; ++j)
          y += std::exp(e.scale * inner(one.q, i, one.k, j, e.head_dim) - largest) / total * at(one.v, j, c);
        one.y.data[i * one.y.ld + c] = y;
      }
    }
  }
}

void backward_reference(const Extents& e, FunctionRef<BackwardHead<double>(std::int64_t)> head) {
  for (std::int64_t h = 0; h < e.heads; ++h) {
    const BackwardHead<double> one = head(h);
    for (std::int64_t i = 0; i < e.queries; ++i) {
      const double delta = inner(one.g, i, one.y, i, e.value_dim) - (one.dlse ? one.dlse[i] : 0.0);
      for (std::int64_t j = 0; j < e.keys; ++j) {
        const double s = std::exp(e.scale * inner(one.q, i, one.k, j, e.head_dim) - one.lse[i]);
        const double de = s * (inner(one.g, i, one.v, j, e.value_dim) - delta);
        for (std::int64_t c = 0; c < e.head_dim; ++c) {
          one.dq.data[i * one.dq.ld + c] += e.scale * de * at(one.k, j, c);
          one.dk.data[j * one.dk.ld + c] += e.scale * de * at(one.q, i, c);
        }
        for (std::int64_t c = 0; c < e.value_dim; ++c) one.dv.data[j * one.dv.ld + c] += s * at(one.g, i, c);
      }
    }
  }
}

// The backward op, with m = dlse:  E = scale q k^T,  S = exp(E - lse),  dS = g v^T,  delta = rowsum(g y) - m,
//   dE = S (dS - delta),  dq = scale dE k,  dk = scale dE^T q,  dv = S^T g.
// The cotangent of dE is W = scale (a k^T + q b^T), that of S is Sbar = g c^T + W (dS - delta), that of dS is W S, that
// of delta is -rowsum(W S), and that of E is Ebar = Sbar S.
BackwardInputs backward_rule(const BackwardInputs& in, const BackwardWants& wants, const Tensor& a, const Tensor& b,
                             const Tensor& c, double scale) {
  const auto& [q, k, v, y, lse, g, dlse] = in;
  const Tensor s = exp(matmul(q, k, false, true) * scale - unsqueeze(lse, -1));
  const bool scores = wants.q || wants.k || wants.lse; // what Ebar leads to
  BackwardInputs bar;
  Tensor s_bar;
  if (a.defined() || b.defined()) {
    Tensor w;
    if (a.defined()) add_term(w, matmul(a, k, false, true) * scale);
    if (b.defined()) add_term(w, matmul(q, b, false, true) * scale);
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
  if (!s_bar.defined()) return bar;
  const Tensor e_bar = s_bar * s;
  if (wants.lse) bar.lse = -sum(e_bar, {-1});
  if (wants.q) add_term(bar.q, matmul(e_bar, k) * scale);
  if (wants.k) add_term(bar.k, matmul(e_bar, q, true) * scale);
  return bar;
}

} // namespace eg::attention_parts
