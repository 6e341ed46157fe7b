// Rows of eigenvalues and singular values: eigh, svd, pinv.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/linalg/matrix.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace eg {
namespace {

using namespace linalg;

constexpr std::string_view no_exact = "rotations add in an order that a permutation changes";

// --- what both rules need ---

Tensor row_of(const Tensor& x) { return unsqueeze(x, -2); }

Tensor column_of(const Tensor& x) { return unsqueeze(x, -1); }

/// x - x^T
Tensor skew(const Tensor& x) { return x - transpose(x); }

/// Which columns of g [..., m, n] are not zero, matrix after matrix: the vectors that the loss depends on.
using Used = std::vector<bool>;
void add_used(const Tensor& g, Used& used) {
  if (!g.defined()) return;
  const std::vector<double> all = looked_at(g);
  const std::int64_t m = g.size(-2), n = g.size(-1);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (all[i] != 0) used[static_cast<std::size_t>(at / n / m * n + at % n)] = true;
  }
}

/// dividend / divisor, [..., n, n], where the divisor is a difference or sum of the values w [..., n]; 0 where it is
/// nothing but their rounding. On the diagonal that is right. Elsewhere, too, if the loss depends on neither vector; if
/// it does, its gradient would need a limit that the cotangents do not hold: throws ValueError.
Tensor quotient(std::string_view name, std::string_view values, const Tensor& dividend, const Tensor& divisor,
                const Tensor& w, const Used& used) {
  const std::int64_t n = w.size(-1);
  const Shape batch(w.shape().dims().first(static_cast<std::size_t>(w.rank() - 1)));
  const std::vector<double> below = looked_at(divisor), all = looked_at(w);
  Tensor vanishes = Tensor::zeros(divisor.shape(), DType::boolean);
  bool* flags = vanishes.mutable_data<bool>();
  for (std::int64_t index = 0; index < batch.numel(); ++index) {
    double largest = 0;
    for (std::int64_t i = 0; i < n; ++i)
      largest = std::max(largest, std::abs(all[static_cast<std::size_t>(index * n + i)]));
    const auto is_used = [&](std::int64_t i) { return used[static_cast<std::size_t>(index * n + i)]; };
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const auto at = static_cast<std::size_t>((index * n + i) * n + j);
        if (std::abs(below[at]) > noise_of(w.dtype(), n) * largest) continue;
        flags[at] = true;
        if (i < j && (is_used(i) || is_used(j)))
          throw ValueError(fmt::format("{}: {} {} and {} of {} are equal to rounding, and the loss depends on their "
                                       "vectors, whose gradient is not determined there; take a loss of the values, or "
                                       "of the other vectors",
                                       name, values, i, j, matrix_name("a", batch, batch, index)));
      }
  }
  return masked_fill(dividend / masked_fill(divisor, vanishes, 1.0), vanishes, 0.0);
}

Tensor diagonal_of(const Tensor& w) { return eye(w.size(-1), -1, w.dtype()) * column_of(w); }

// --- eigh ---

std::vector<TensorSpec> eigh_infer(const OpArgs& args) {
  check_matrix(args, 0, true);
  const Shape& a = args.in[0].shape();
  Shape values = leading(a);
  values.push_back(a[-1]);
  return {{values, args.in[0].dtype()}, {a, args.in[0].dtype()}};
}

double eigh_flops(double n) { return 9 * n * n * n; }

void eigh_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Shape batch = leading(args.in[0].shape());
  const std::int64_t n = args.in[0].size(-1);
  const Output w(out[0]), v(out[1]);
  for_each_matrix(args, batch, eigh_flops(static_cast<double>(n)), 2 * padded(n * n) + n,
                  [&](std::int64_t index, double* a) {
                    double *own_v = a + padded(n * n), *own_w = own_v + padded(n * n);
                    if (!load(args.in[0], batch, index, a)) return Problem::not_finite;
                    const int exponent = tame(n * n, a);
                    symmetrise(n, a);
                    if (!linalg::eigh(n, a, own_w, own_v)) return Problem::not_converged;
                    scale(n, own_w, exponent);
                    w.store(index, own_w, n);
                    v.store(index, own_v, n * n);
                    return Problem::none;
                  });
}

// dw_i = v_i^T dA v_i and dV = V (F o V^T dA V) with F_ij = 1 / (w_j - w_i): gA = V (diag(gw) + F o (V^T gV)) V^T,
// symmetrised, which leaves the skew part of V^T gV.
Gradients eigh_rule(const VjpArgs& args) {
  const Tensor &w = args.out[0], &v = args.out[1], &gw = args.grad[0], &gv = args.grad[1];
  if (!gw.defined() && !gv.defined()) return {Tensor()};
  if (!gv.defined()) return {matmul(v * row_of(gw), v, false, true)};
  Used used(static_cast<std::size_t>(w.numel()));
  add_used(gv, used);
  const Tensor turn = skew(matmul(v, gv, true)) * 0.5;
  Tensor inner = quotient(args.op.name, "eigenvalues", turn, row_of(w) - column_of(w), w, used);
  if (gw.defined()) inner = inner + diagonal_of(gw);
  return {matmul(matmul(v, inner), v, false, true)};
}

std::vector<Tensor> eigh_reference(const OpArgs& args) {
  const Shape& shape = args.in[0].shape();
  const Shape batch = leading(shape);
  const std::int64_t n = shape[-1];
  Shape value_shape = batch;
  value_shape.push_back(n);
  Tensor ws = reference_output(value_shape), vs = reference_output(shape);
  std::vector<double> a(static_cast<std::size_t>(n * n));
  for (std::int64_t index = 0; index < batch.numel(); ++index) {
    double *w = values(ws) + index * n, *v = values(vs) + index * n * n;
    load(args.in[0], batch, index, a.data());
    const int exponent = tame(n * n, a.data());
    symmetrise(n, a.data());
    loops::eigh(n, a.data(), w, v); // Jacobi's rotations
    scale(n, w, exponent);
    for (std::int64_t j = 0; j < n; ++j) {
      const double sign = sign_of_column(n, v + j, n);
      for (std::int64_t i = 0; i < n; ++i) v[i * n + j] *= sign;
    }
  }
  return {ws, vs};
}

std::vector<Sample> eigh_samples(DType dtype) {
  const auto a = [&](const Shape& shape, std::uint64_t tag) { return sample_graded(shape, dtype, 4500 + tag); };
  const Tensor once = a({4, 4}, 1);
  return {{{(once + transpose(once)) * 0.5}, {}, "symmetric"},
          {{a({2, 3, 3}, 2)}, {}, "batch, not symmetric: its symmetric part counts"},
          {{a({3, 3, 3}, 3) * -1.0}, {}, "negative"},
          {{a({3, 2, 2, 2}, 4)}, {}, "two leading axes"},
          {{scattered(a({5, 5}, 5))}, {}, "strided"},
          {{a({1, 1}, 6)}, {}, "one element"},
          {{a({2, 0, 0}, 7)}, {}, "no rows"},
          {{a({0, 3, 3}, 8)}, {}, "no matrices"}};
}

std::vector<Refusal> eigh_refuses() {
  return {{{Tensor::zeros({2, 3})}, {}, "a must be [..., n, n], it is [2, 3]"},
          {{Tensor::zeros({3})}, {}, "a must be [..., n, n], it is [3]"},
          {{Tensor::zeros({3, 3}, DType::i64)}, {}, "a must be f32 or f64, it is i64"},
          {{stack({eye(2), eye(2) * NAN}, 0)}, {}, "a[1] has an element that is not finite"}};
}

/// P A P^T has the eigenvalues of A and the eigenvectors P V.
std::vector<Symmetry> eigh_symmetries(const Sample& sample) {
  std::vector<Symmetry> all = batch_symmetries(sample, 2);
  all.push_back({.name = "rows and columns of a, rows of v",
                 .legs = {in_leg(0, -2), in_leg(0, -1), out_leg(1, -2)},
                 .mixes = true,
                 .grows = false});
  return all;
}

Work eigh_work(const OpArgs& args, std::span<const TensorSpec> out) {
  const Shape& shape = args.in[0].shape();
  return {count_of(leading(shape)) * eigh_flops(static_cast<double>(shape[-1])), bytes_moved(args, out)};
}

// --- svd ---

std::vector<TensorSpec> svd_infer(const OpArgs& args) {
  check_matrix(args, 0, false);
  const Shape& a = args.in[0].shape();
  const DType dtype = args.in[0].dtype();
  const std::int64_t k = std::min(a[-1], a[-2]);
  Shape values = leading(a);
  values.push_back(k);
  return {{with_matrix(leading(a), a[-2], k), dtype}, {values, dtype}, {with_matrix(leading(a), k, a[-1]), dtype}};
}

double svd_flops(const Shape& a) {
  const auto m = static_cast<double>(a[-2]), n = static_cast<double>(a[-1]), k = std::min(m, n);
  return 4 * m * n * k + 14 * k * k * k;
}

/// f(index, u, s, vh, room, exponent) for every matrix; its singular values are s 2^exponent.
template <class F> void each_svd(const OpArgs& args, const F& f) {
  const Shape& shape = args.in[0].shape();
  const Shape batch = leading(shape);
  const std::int64_t m = shape[-2], n = shape[-1], k = std::min(m, n);
  const std::int64_t room = padded(m * n) + padded(m * k) + padded(k) + padded(k * n) + n * m;
  for_each_matrix(args, batch, svd_flops(shape), room, [&](std::int64_t index, double* a) {
    double *u = a + padded(m * n), *s = u + padded(m * k), *vh = s + padded(k), *rest = vh + padded(k * n);
    if (!load(args.in[0], batch, index, a)) return Problem::not_finite;
    const int exponent = tame(m * n, a);
    if (!linalg::svd(m, n, a, u, s, vh)) return Problem::not_converged;
    f(index, u, s, vh, rest, exponent);
    return Problem::none;
  });
}

void svd_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Output all_u(out[0]), all_s(out[1]), all_vh(out[2]);
  const std::int64_t m = args.in[0].size(-2), n = args.in[0].size(-1), k = std::min(m, n);
  each_svd(args, [&](std::int64_t index, const double* u, double* s, const double* vh, double*, int exponent) {
    scale(k, s, exponent);
    all_u.store(index, u, m * k);
    all_s.store(index, s, k);
    all_vh.store(index, vh, k * n);
  });
}

/// (g - U U^T g) / s, the part of the gradient of U's columns outside of their span; for V the same. Throws ValueError
/// for vectors of a value that is zero to rounding, if the loss depends on them.
Tensor outside(const Tensor& u, const Tensor& s, const Tensor& g) {
  const std::int64_t k = s.size(-1);
  const Shape batch(s.shape().dims().first(static_cast<std::size_t>(s.rank() - 1)));
  const std::vector<double> values = looked_at(s);
  Used used(values.size());
  add_used(g, used);
  Tensor vanishes = Tensor::zeros(s.shape(), DType::boolean);
  bool* flags = vanishes.mutable_data<bool>();
  for (std::size_t at = 0; at < values.size(); ++at) {
    const auto index = static_cast<std::int64_t>(at) / k, j = static_cast<std::int64_t>(at) % k;
    if (values[at] > noise_of(s.dtype(), k) * values[static_cast<std::size_t>(index * k)]) continue; // of the largest
    flags[at] = true;
    if (used[at])
      throw ValueError(fmt::format("svd: singular value {} of {} is zero to rounding, and the loss depends on its "
                                   "vectors, which have no derivative there",
                                   j, matrix_name("a", batch, batch, index)));
  }
  const Tensor inverse = masked_fill(reciprocal(masked_fill(s, vanishes, 1.0)), vanishes, 0.0);
  return (g - matmul(u, matmul(u, g, true))) * row_of(inverse);
}

// J. Townsend, "Differentiating the singular value decomposition", 2016. With the skew K = U^T gU - gU^T U and L the
// same of V, the inner matrix is, off the diagonal, (K s_j + s_i L) / (s_j^2 - s_i^2). It is written as
//   (K + L)/2 / (s_j - s_i) + (K - L)/2 / (s_j + s_i),
// whose first term alone knows about equal values. A loss that does not change when equal u_i, u_j and v_i, v_j turn
// together has K + L = 0 there. What 0 / 0 is, K and L do not say: (U V^T) and U diag(s) V^T with s = 1 have the same.
Gradients svd_rule(const VjpArgs& args) {
  const Tensor &u = args.out[0], &s = args.out[1], &vh = args.out[2];
  const Tensor &gu = args.grad[0], &gs = args.grad[1], &gvh = args.grad[2];
  if (!gu.defined() && !gs.defined() && !gvh.defined()) return {Tensor()};
  if (!gu.defined() && !gvh.defined()) return {matmul(u * row_of(gs), vh)};
  const Tensor v = transpose(vh), gv = gvh.defined() ? transpose(gvh) : Tensor();
  const Tensor nothing = Tensor::zeros(with_matrix(leading(u.shape()), s.size(-1), s.size(-1)), s.dtype());
  const Tensor k = gu.defined() ? skew(matmul(u, gu, true)) : nothing;
  const Tensor l = gv.defined() ? skew(matmul(v, gv, true)) : nothing;
  Used used(static_cast<std::size_t>(s.numel()));
  add_used(gu, used);
  add_used(gv, used);
  Tensor inner = quotient(args.op.name, "singular values", (k + l) * 0.5, row_of(s) - column_of(s), s, used) +
                 quotient(args.op.name, "singular values", (k - l) * 0.5, row_of(s) + column_of(s), s, used);
  if (gs.defined()) inner = inner + diagonal_of(gs);
  Tensor ga = matmul(matmul(u, inner), vh);
  if (gu.defined() && u.size(-2) > u.size(-1)) ga = ga + matmul(outside(u, s, gu), vh);
  if (gv.defined() && v.size(-2) > v.size(-1)) ga = ga + matmul(u, outside(v, s, gv), false, true);
  return {ga};
}

std::vector<Tensor> svd_reference(const OpArgs& args) {
  const Shape& shape = args.in[0].shape();
  const Shape batch = leading(shape);
  const std::int64_t m = shape[-2], n = shape[-1], k = std::min(m, n);
  Shape value_shape = batch;
  value_shape.push_back(k);
  Tensor us = reference_output(with_matrix(batch, m, k)), ss = reference_output(value_shape),
         vhs = reference_output(with_matrix(batch, k, n));
  std::vector<double> a(static_cast<std::size_t>(m * n));
  for (std::int64_t index = 0; index < batch.numel(); ++index) {
    double *u = values(us) + index * m * k, *vh = values(vhs) + index * k * n;
    load(args.in[0], batch, index, a.data());
    const int exponent = tame(m * n, a.data());
    loops::svd(m, n, a.data(), u, values(ss) + index * k, vh); // Jacobi's rotations of columns
    scale(k, values(ss) + index * k, exponent);
    for (std::int64_t j = 0; j < k; ++j) {
      const double sign = sign_of_column(m, u + j, k);
      for (std::int64_t i = 0; i < m; ++i) u[i * k + j] *= sign;
      for (std::int64_t i = 0; i < n; ++i) vh[j * n + i] *= sign;
    }
  }
  return {us, ss, vhs};
}

std::vector<Sample> svd_samples(DType dtype) {
  const auto a = [&](const Shape& shape, std::uint64_t tag) { return sample_graded(shape, dtype, 4520 + tag); };
  return {{{a({5, 3}, 1)}, {}, "tall"},
          {{a({4, 4}, 2)}, {}, "square"},
          {{a({3, 5}, 3)}, {}, "wide"},
          {{a({2, 4, 3}, 4)}, {}, "batch"},
          {{a({2, 2, 2, 4}, 5)}, {}, "two leading axes, wide"},
          {{scattered(a({5, 4}, 6))}, {}, "strided"},
          {{a({1, 1}, 7)}, {}, "one element"},
          {{a({4, 0}, 8)}, {}, "no columns"},
          {{a({0, 3}, 9)}, {}, "no rows"},
          {{a({0, 3, 2}, 10)}, {}, "no matrices"}};
}

std::vector<Refusal> any_matrix_refuses() {
  return {{{Tensor::zeros({3})}, {}, "a must be [..., m, n], it is [3]"},
          {{Tensor::zeros({3, 3}, DType::i64)}, {}, "a must be f32 or f64, it is i64"},
          {{stack({eye(2), eye(2) * INFINITY}, 0)}, {}, "a[1] has an element that is not finite"}};
}

/// svd(P A Q) = (P U, s, Vh Q).
std::vector<Symmetry> svd_symmetries(const Sample& sample) {
  std::vector<Symmetry> all = batch_symmetries(sample, 3);
  all.push_back({.name = "rows of a and u", .legs = {in_leg(0, -2), out_leg(0, -2)}, .mixes = true, .grows = false});
  all.push_back(
      {.name = "columns of a and vh", .legs = {in_leg(0, -1), out_leg(2, -1)}, .mixes = true, .grows = false});
  return all;
}

Work svd_work(const OpArgs& args, std::span<const TensorSpec> out) {
  const Shape& shape = args.in[0].shape();
  return {count_of(leading(shape)) * svd_flops(shape), bytes_moved(args, out)};
}

// --- pinv ---

constexpr double default_rtol = -1.0;

std::vector<TensorSpec> pinv_infer(const OpArgs& args) {
  check_matrix(args, 0, false);
  const double rtol = args.attrs.real("rtol");
  if (!(rtol == default_rtol || (rtol >= 0 && rtol < 1)))
    throw ValueError(
        fmt::format("pinv: rtol is {}; it must be at least 0 and less than 1, or -1 for max(m, n) epsilon", rtol));
  const Shape& a = args.in[0].shape();
  return {{with_matrix(leading(a), a[-1], a[-2]), args.in[0].dtype()}};
}

/// Singular values up to this share of the largest count as zero.
double share_of(const OpArgs& args) {
  if (args.attrs.real("rtol") != default_rtol) return args.attrs.real("rtol");
  const double eps = args.in[0].dtype() == DType::f32 ? static_cast<double>(std::numeric_limits<float>::epsilon())
                                                      : std::numeric_limits<double>::epsilon();
  return eps * static_cast<double>(std::max(args.in[0].size(-2), args.in[0].size(-1)));
}

/// y = sum over the kept values of v_c u_c^T / s_c
void write_pinv(std::int64_t m, std::int64_t n, double share, const double* u, const double* s, const double* vh,
                double* y) {
  const std::int64_t k = std::min(m, n);
  std::fill(y, y + n * m, 0.0);
  for (std::int64_t c = 0; c < k && s[c] > share * s[0]; ++c)
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < m; ++j) y[i * m + j] += vh[c * n + i] / s[c] * u[j * k + c];
}

void pinv_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Output y(out[0]);
  const std::int64_t m = args.in[0].size(-2), n = args.in[0].size(-1);
  const double share = share_of(args);
  each_svd(args, [&](std::int64_t index, const double* u, double* s, const double* vh, double* rest, int exponent) {
    write_pinv(m, n, share, u, s, vh, rest);
    scale(n * m, rest, -exponent);
    y.store(index, rest, n * m);
  });
}

// G. H. Golub, V. Pereyra, 1973: dP = -P dA P + P P^T dA^T (1 - A P) + (1 - P A) dA^T P^T P where the rank stays.
Gradients pinv_rule(const VjpArgs& args) {
  const Tensor &a = args.in[0], &p = args.out[0], &g = args.grad[0];
  const std::int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  // The products that are formed have the shorter side: of a tall matrix, one of the longer would not fit memory.
  const Tensor small = m > n ? matmul(p, a) : matmul(a, p);
  const std::vector<double> projection = looked_at(small); // its trace is the rank
  const Shape batch = leading(a.shape());
  for (std::int64_t index = 0; index < batch.numel(); ++index) {
    double trace = 0;
    for (std::int64_t i = 0; i < k; ++i) trace += projection[static_cast<std::size_t>((index * k + i) * k + i)];
    if (static_cast<double>(k) - trace > 0.5)
      throw ValueError(
          fmt::format("pinv: {} has rank {:.0f} of {}; its pseudo-inverse jumps there and has no derivative",
                      matrix_name("a", batch, batch, index), trace, k));
  }
  const Tensor turned = transpose(g);
  if (m > n) { // 1 - P A = 0
    const Tensor outside = turned - matmul(a, matmul(p, turned));
    return {matmul(outside, matmul(p, p, false, true)) - matmul(p, matmul(g, p, false, true), true)};
  }
  Tensor ga = -matmul(matmul(p, g, true), p, false, true);
  if (m < n) { // 1 - A P = 0
    const Tensor outside = turned - matmul(matmul(turned, p), a);
    ga = ga + matmul(matmul(p, p, true), outside);
  }
  return {ga};
}

std::vector<Tensor> pinv_reference(const OpArgs& args) {
  const Shape& shape = args.in[0].shape();
  const std::int64_t m = shape[-2], n = shape[-1], k = std::min(m, n);
  const std::vector<Tensor> parts = svd_reference(args);
  Tensor y = reference_output(pinv_infer(args)[0].shape);
  for (std::int64_t index = 0; index < leading(shape).numel(); ++index)
    write_pinv(m, n, share_of(args), values(parts[0]) + index * m * k, values(parts[1]) + index * k,
               values(parts[2]) + index * k * n, values(y) + index * n * m);
  return {y};
}

std::vector<Sample> pinv_samples(DType dtype) {
  const auto a = [&](const Shape& shape, std::uint64_t tag) { return sample_matrix(shape, dtype, 4540 + tag); };
  return {{{a({5, 3}, 1)}, {}, "tall"},
          {{a({4, 4}, 2)}, {{"rtol", 1e-3}}, "square"},
          {{a({3, 5}, 3)}, {}, "wide"},
          {{a({2, 4, 3}, 4)}, {}, "batch"},
          {{a({2, 2, 2, 4}, 5)}, {}, "two leading axes, wide"},
          {{scattered(a({5, 4}, 6))}, {}, "strided"},
          {{a({1, 1}, 7)}, {}, "one element"},
          {{a({4, 0}, 8)}, {}, "no columns"},
          {{a({0, 3, 2}, 9)}, {}, "no matrices"}};
}

std::vector<Refusal> pinv_refuses() {
  std::vector<Refusal> all = any_matrix_refuses();
  all.push_back({{eye(2)}, {{"rtol", -2.0}}, "rtol is -2; it must be at least 0 and less than 1"});
  all.push_back({{eye(2)}, {{"rtol", std::nan("")}}, "it must be at least 0 and less than 1"});
  return all;
}

/// (P A Q)^+ = Q^T A^+ P^T.
std::vector<Symmetry> pinv_symmetries(const Sample& sample) {
  std::vector<Symmetry> all = batch_symmetries(sample, 1);
  all.push_back(
      {.name = "rows of a, columns of y", .legs = {in_leg(0, -2), out_leg(0, -1)}, .mixes = true, .grows = false});
  all.push_back(
      {.name = "columns of a, rows of y", .legs = {in_leg(0, -1), out_leg(0, -2)}, .mixes = true, .grows = false});
  return all;
}

} // namespace

constinit const OpDef eigh_op = row({
    .name = "eigh",
    .math = "(A + A^T) / 2 = V diag(w) V^T, w ascending, V^T V = 1",
    .inputs = {{"a"}},
    .outputs = {"eigenvalues", "eigenvectors"},
    .infer = eigh_infer,
    .cpu = eigh_kernel,
    .no_exact = no_exact,
    .no_cuda = no_device,
    .saves = saves::out(0) | saves::out(1),
    .vjp = eigh_rule,
    .reference = eigh_reference,
    .samples = eigh_samples,
    .refuses = eigh_refuses,
    .symmetries = eigh_symmetries,
    .work = eigh_work,
});

constinit const OpDef svd_op = row({
    .name = "svd",
    .math = "A = U diag(s) Vh, s descending, U^T U = Vh Vh^T = 1",
    .inputs = {{"a"}},
    .outputs = {"u", "s", "vh"},
    .infer = svd_infer,
    .cpu = svd_kernel,
    .no_exact = no_exact,
    .no_cuda = no_device,
    .saves = saves::out(0) | saves::out(1) | saves::out(2),
    .vjp = svd_rule,
    .reference = svd_reference,
    .samples = svd_samples,
    .refuses = any_matrix_refuses,
    .symmetries = svd_symmetries,
    .work = svd_work,
});

constinit const OpDef pinv_op = row({
    .name = "pinv",
    .math = "y = A^+ = V diag(1 / s) U^T over the singular values s > rtol s_0",
    .inputs = {{"a"}},
    .attributes = {attr_real("rtol", default_rtol,
                             "values up to this share of the largest count as 0; -1: max(m, n) epsilon")},
    .infer = pinv_infer,
    .cpu = pinv_kernel,
    .no_exact = no_exact,
    .no_cuda = no_device,
    .saves = saves::in(0) | saves::out(0),
    .vjp = pinv_rule,
    .reference = pinv_reference,
    .samples = pinv_samples,
    .refuses = pinv_refuses,
    .symmetries = pinv_symmetries,
    .work = svd_work,
});

EighResult eigh(const Tensor& a) {
  std::vector<Tensor> out = call(eigh_op, {a});
  return {std::move(out[0]), std::move(out[1])};
}

SvdResult svd(const Tensor& a) {
  std::vector<Tensor> out = call(svd_op, {a});
  return {std::move(out[0]), std::move(out[1]), std::move(out[2])};
}

Tensor pinv(const Tensor& a, double rtol) { return call1(pinv_op, {a}, {{"rtol", rtol}}); }

} // namespace eg
