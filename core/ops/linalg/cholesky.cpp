// Row of cholesky: A = L L^T.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/linalg/lapack.h"
#include "core/ops/linalg/matrix.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"

#include <cmath>

namespace eg {
namespace {

using namespace linalg;

std::vector<TensorSpec> infer(const OpArgs& args) {
  check_matrix(args, 0, true);
  return {{args.in[0].shape(), args.in[0].dtype()}};
}

double flops_of(double n) { return n * n * n / 3; }

/// exact: by the loops, whose bits are the same on every machine.
template <bool exact> void kernel(const OpArgs& args, std::span<Tensor> out) {
  const Shape batch = leading(args.in[0].shape());
  const std::int64_t n = args.in[0].size(-1);
  const Output y(out[0]);
  const bool lapack = !exact && uses_lapack();
  for_each_matrix(args, batch, flops_of(static_cast<double>(n)), n * n, [&](std::int64_t index, double* a) {
    if (!load(args.in[0], batch, index, a)) return Problem::not_finite;
    const int exponent = tame(n * n, a);
    symmetrise(n, a);
    if (!(lapack ? lapack::cholesky(n, a) : loops::cholesky(n, a))) return Problem::not_positive;
    scale(n * n, a, exponent / 2);
    y.store(index, a, n * n);
    return Problem::none;
  });
}

// dA = dL L^T + L dL^T, so L^-1 dA L^-T = X + X^T with X = L^-1 dL lower triangular: X is the lower triangle of it with
// half of the diagonal. So gA = L^-T P L^-1, symmetrised, with P the lower triangle of L^T g with half of the diagonal.
Gradients rule(const VjpArgs& args) {
  const Tensor& l = args.out[0];
  const Tensor product = matmul(l, tril(args.grad[0]), true);
  const Tensor p = (tril(product) + tril(product, -1)) * 0.5;
  const Tensor upper = transpose(l);
  const Tensor left = solve_triangular(upper, p);            // L^-T P
  const Tensor s = solve_triangular(upper, transpose(left)); // its transpose: (L^-T P L^-1)^T
  return {(s + transpose(s)) * 0.5};
}

// l_ij = (a_ij - sum_k l_ik l_jk) / l_jj, column by column
std::vector<Tensor> reference(const OpArgs& args) {
  const Tensor& a = args.in[0];
  const std::int64_t n = a.size(-1);
  Tensor y = reference_output(a.shape());
  for (std::int64_t batch = 0; batch < leading(a.shape()).numel(); ++batch) {
    std::vector<double> x(values(a) + batch * n * n, values(a) + (batch + 1) * n * n);
    double* l = values(y) + batch * n * n;
    const int exponent = tame(n * n, x.data());
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t i = j; i < n; ++i) {
        double rest = (x[static_cast<std::size_t>(i * n + j)] + x[static_cast<std::size_t>(j * n + i)]) / 2;
        for (std::int64_t k = 0; k < j; ++k) rest -= l[i * n + k] * l[j * n + k];
        l[i * n + j] = i == j ? std::sqrt(rest) : rest / l[j * n + j];
      }
    scale(n * n, l, exponent / 2);
  }
  return {y};
}

std::vector<Sample> samples(DType dtype) {
  const auto a = [&](const Shape& shape, std::uint64_t tag) { return sample_definite(shape, dtype, 4100 + tag); };
  return {{{a({4, 4}, 1)}, {}, "one matrix"},
          {{a({2, 3, 3}, 2)}, {}, "batch"},
          {{a({3, 2, 2, 2}, 3)}, {}, "two leading axes"},
          {{scattered(a({5, 5}, 4))}, {}, "strided"},
          {{sample_matrix({3, 3, 3}, dtype, 4105)}, {}, "not symmetric: its symmetric part counts"},
          {{a({1, 1}, 6)}, {}, "one element"},
          {{a({2, 0, 0}, 7)}, {}, "no rows"},
          {{a({0, 3, 3}, 8)}, {}, "no matrices"}};
}

std::vector<Refusal> refuses() {
  const Tensor one = eye(2);
  return {{{Tensor::zeros({2, 3})}, {}, "a must be [..., n, n], it is [2, 3]"},
          {{Tensor::zeros({3})}, {}, "a must be [..., n, n], it is [3]"},
          {{Tensor::zeros({3, 3}, DType::i64)}, {}, "a must be f32 or f64, it is i64"},
          {{stack({one, one * -1.0}, 0)}, {}, "a[1] is not positive definite"},
          {{Tensor::zeros({2, 2})}, {}, "a is not positive definite"},
          {{one * INFINITY}, {}, "a has an element that is not finite"}};
}

Work work(const OpArgs& args, std::span<const TensorSpec> out) {
  const auto n = static_cast<double>(args.in[0].size(-1));
  return {count_of(leading(args.in[0].shape())) * flops_of(n), bytes_moved(args, out)};
}

} // namespace

constinit const OpDef cholesky_op = row({
    .name = "cholesky",
    .math = "y = L, lower triangular with a positive diagonal, L L^T = (A + A^T) / 2",
    .inputs = {{"a"}},
    .infer = infer,
    .cpu = kernel<false>,
    .exact = kernel<true>,
    .no_cuda = no_device,
    .saves = saves::out(0),
    .vjp = rule,
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = [](const Sample& sample) { return batch_symmetries(sample, 1); },
    .work = work,
});

Tensor cholesky(const Tensor& a) { return call1(cholesky_op, {a}); }

} // namespace eg
