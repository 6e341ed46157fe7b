// Row of qr: A = Q R.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/linalg/matrix.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg {
namespace {

using namespace linalg;

std::vector<TensorSpec> infer(const OpArgs& args) {
  check_matrix(args, 0, false);
  const Shape& a = args.in[0].shape();
  const Shape batch = leading(a);
  const std::int64_t k = std::min(a[-1], a[-2]);
  return {{with_matrix(batch, a[-2], k), args.in[0].dtype()}, {with_matrix(batch, k, a[-1]), args.in[0].dtype()}};
}

double flops_of(const Shape& a) {
  const auto m = static_cast<double>(a[-2]), n = static_cast<double>(a[-1]), k = std::min(m, n);
  return 4 * m * n * k;
}

void kernel(const OpArgs& args, std::span<Tensor> out) {
  const Shape batch = leading(args.in[0].shape());
  const std::int64_t m = args.in[0].size(-2), n = args.in[0].size(-1), k = std::min(m, n);
  const Output q(out[0]), r(out[1]);
  const std::int64_t room = padded(m * n) + padded(m * k) + k * n;
  for_each_matrix(args, batch, flops_of(args.in[0].shape()), room, [&](std::int64_t index, double* a) {
    double *own_q = a + padded(m * n), *own_r = own_q + padded(m * k);
    if (!load(args.in[0], batch, index, a)) return Problem::not_finite;
    const int exponent = tame(m * n, a);
    linalg::qr(m, n, a, own_q, own_r);
    scale(k * n, own_r, exponent);
    q.store(index, own_q, m * k);
    r.store(index, own_r, k * n);
    return Problem::none;
  });
}

/// Throws ValueError where the diagonal of r says that the first columns are dependent.
void check_independent(const Tensor& r, std::int64_t k) {
  const std::vector<double> all = looked_at(r);
  const std::int64_t n = r.size(-1);
  const Shape batch = leading(r.shape());
  for (std::int64_t index = 0; index < batch.numel() && k > 0; ++index) {
    const double* own = all.data() + index * k * n;
    double largest = 0;
    for (std::int64_t i = 0; i < k; ++i) largest = std::max(largest, std::abs(own[i * n + i]));
    for (std::int64_t i = 0; i < k; ++i)
      if (!(std::abs(own[i * n + i]) > noise_of(r.dtype(), n) * largest))
        throw ValueError(
            fmt::format("qr: column {} of {} depends on those before it, so q and r have no derivative there", i,
                        matrix_name("a", batch, batch, index)));
  }
}

// dA = dQ R + Q dR with Q^T dQ skew: gA = (gQ + Q S) R^-T with S the symmetric matrix that has the lower triangle of
// M = R gR^T - gQ^T Q. (M. Walter, L. Lehmann, 2012.) A wide A = [X, Y] = Q [U, W]: Y = Q W adds Y gW^T to gQ.
Gradients rule(const VjpArgs& args) {
  const Tensor &q = args.out[0], &r = args.out[1], &gr = args.grad[1];
  const std::int64_t k = q.size(-1), n = r.size(-1);
  if (!args.grad[0].defined() && !gr.defined()) return {Tensor()};
  check_independent(r, k);
  Tensor gq = args.grad[0];
  const bool wide = n > k;
  const Tensor u = wide ? slice(r, -1, 0, k) : r;
  const Tensor gu = wide && gr.defined() ? slice(gr, -1, 0, k) : gr;
  const Tensor gw = wide && gr.defined() ? slice(gr, -1, k, n) : Tensor();
  if (gw.defined()) add_term(gq, matmul(matmul(q, slice(r, -1, k, n)), gw, false, true));
  Tensor m;
  if (gu.defined()) m = matmul(u, gu, false, true);
  if (gq.defined()) add_term(m, -matmul(gq, q, true));
  const Tensor s = tril(m) + transpose(tril(m, -1));
  Tensor whole = matmul(q, s);
  add_term(whole, gq.defined() ? gq : Tensor::zeros(q.shape(), q.dtype()));
  const Tensor gx = transpose(solve_triangular(u, transpose(whole)));
  if (!wide) return {gx};
  const Tensor gy =
      gw.defined() ? matmul(q, gw) : Tensor::zeros(with_matrix(leading(q.shape()), q.size(-2), n - k), q.dtype());
  return {concat({gx, gy}, gx.rank() - 1)};
}

// Gram and Schmidt, twice: q_k is what is left of column k without its parts along the columns before.
std::vector<Tensor> reference(const OpArgs& args) {
  const Shape& shape = args.in[0].shape();
  const Shape batch = leading(shape);
  const std::int64_t m = shape[-2], n = shape[-1], k = std::min(m, n);
  Tensor qs = reference_output(with_matrix(batch, m, k)), rs = reference_output(with_matrix(batch, k, n));
  for (std::int64_t index = 0; index < batch.numel(); ++index) {
    std::vector<double> a(values(args.in[0]) + index * m * n, values(args.in[0]) + (index + 1) * m * n);
    const int exponent = tame(m * n, a.data());
    double *q = values(qs) + index * m * k, *r = values(rs) + index * k * n;
    for (std::int64_t j = 0; j < n; ++j) {
      std::vector<double> left(static_cast<std::size_t>(m));
      for (std::int64_t i = 0; i < m; ++i) left[static_cast<std::size_t>(i)] = a[static_cast<std::size_t>(i * n + j)];
      for (int twice = 0; twice < 2; ++twice)
        for (std::int64_t c = 0; c < std::min(j, k); ++c) {
          double part = 0;
          for (std::int64_t i = 0; i < m; ++i) part += q[i * k + c] * left[static_cast<std::size_t>(i)];
          for (std::int64_t i = 0; i < m; ++i) left[static_cast<std::size_t>(i)] -= part * q[i * k + c];
          r[c * n + j] += part;
        }
      if (j >= k) continue;
      double squares = 0;
      for (const double x : left) squares += x * x;
      r[j * n + j] = std::sqrt(squares);
      for (std::int64_t i = 0; i < m; ++i) q[i * k + j] = left[static_cast<std::size_t>(i)] / r[j * n + j];
    }
    scale(k * n, r, exponent);
  }
  return {qs, rs};
}

std::vector<Sample> samples(DType dtype) {
  const auto a = [&](const Shape& shape, std::uint64_t tag) { return sample_matrix(shape, dtype, 4400 + tag); };
  return {{{a({5, 3}, 1)}, {}, "tall"},
          {{a({4, 4}, 2)}, {}, "square"},
          {{a({3, 5}, 3)}, {}, "wide"},
          {{a({2, 4, 3}, 4)}, {}, "batch"},
          {{a({2, 2, 2, 4}, 5)}, {}, "two leading axes, wide"},
          {{scattered(a({5, 4}, 6))}, {}, "strided"},
          {{a({1, 1}, 7) * 0.5}, {}, "one element"},
          {{a({4, 0}, 8)}, {}, "no columns"},
          {{a({0, 3}, 9)}, {}, "no rows"},
          {{a({0, 3, 2}, 10)}, {}, "no matrices"}};
}

std::vector<Refusal> refuses() {
  return {{{Tensor::zeros({3})}, {}, "a must be [..., m, n], it is [3]"},
          {{Tensor::zeros({3, 3}, DType::i64)}, {}, "a must be f32 or f64, it is i64"},
          {{stack({eye(2), eye(2) * INFINITY}, 0)}, {}, "a[1] has an element that is not finite"}};
}

/// qr(P A) = (P Q, R).
std::vector<Symmetry> symmetries(const Sample& sample) {
  std::vector<Symmetry> all = batch_symmetries(sample, 2);
  all.push_back({.name = "rows of a and q", .legs = {in_leg(0, -2), out_leg(0, -2)}, .mixes = true, .grows = false});
  return all;
}

Work work(const OpArgs& args, std::span<const TensorSpec> out) {
  const Shape& shape = args.in[0].shape();
  return {count_of(leading(shape)) * flops_of(shape), bytes_moved(args, out)};
}

} // namespace

constinit const OpDef qr_op = row({
    .name = "qr",
    .math = "A = Q R, Q^T Q = 1, R upper triangular with a diagonal that is not negative",
    .inputs = {{"a"}},
    .outputs = {"q", "r"},
    .infer = infer,
    .cpu = kernel,
    .no_exact = "reflections add along rows, in an order that a permutation changes",
    .no_cuda = no_device,
    .saves = saves::out(0) | saves::out(1),
    .vjp = rule,
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = work,
});

QrResult qr(const Tensor& a) {
  std::vector<Tensor> out = call(qr_op, {a});
  return {std::move(out[0]), std::move(out[1])};
}

} // namespace eg
