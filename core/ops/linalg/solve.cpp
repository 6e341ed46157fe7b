// Rows of systems of linear equations: solve, solve_triangular, inv, det, slogdet.

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/linalg/lapack.h"
#include "core/ops/linalg/matrix.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"

#include <cmath>
#include <fmt/format.h>

namespace eg {
namespace {

using namespace linalg;

constexpr std::string_view no_exact = "elimination adds in the order of its pivots, which a permutation changes";

Shape batch_of(const OpArgs& args) { return leading(args.in[0].shape()); }

// --- systems ---

/// b [..., n, k]; the leading axes of both broadcast.
std::vector<TensorSpec> infer_system(const OpArgs& args) {
  check_matrix(args, 0, true);
  check_matrix(args, 1, false);
  const Shape &a = args.in[0].shape(), &b = args.in[1].shape();
  if (a[-1] != b[-2])
    throw ShapeError(
        fmt::format("{}: a has {} rows, b has {}: a is {}, b is {}", args.op.name, a[-1], b[-2], a.str(), b.str()));
  const Shape batch = broadcast_shapes(args.op.name.data(), leading(a), leading(b));
  return {{with_matrix(batch, b[-2], b[-1]), args.in[0].dtype()}};
}

/// load_a(index, to) copies matrix `index` of a; unit: a has ones that are not its elements, so it must not be scaled.
template <class Load, class Solve>
void each_system(const OpArgs& args, std::span<Tensor> out, double flops, bool unit, const Load& load_a,
                 const Solve& solve_one) {
  const Shape batch = leading(out[0].shape());
  const std::int64_t n = out[0].size(-2), k = out[0].size(-1);
  const Output y(out[0]);
  for_each_matrix(args, batch, flops, padded(n * n) + n * k, [&](std::int64_t index, double* a) {
    double* b = a + padded(n * n);
    if (!load_a(index, a)) return Problem::not_finite;
    if (!load(args.in[1], batch, index, b)) return Problem::second_not_finite;
    const int divisor = unit ? 0 : linalg::tame(n * n, a), dividend = linalg::tame(n * k, b);
    const Problem problem = solve_one(n, k, a, b);
    scale(n * k, b, dividend - divisor);
    if (problem == Problem::none) y.store(index, b, n * k);
    return problem;
  });
}

double solve_flops(double n, double k) { return 2.0 / 3.0 * n * n * n + 2 * n * n * k; }

Work solve_work(const OpArgs& args, std::span<const TensorSpec> out) {
  const Shape& y = out[0].shape;
  const auto n = static_cast<double>(y[-2]), k = static_cast<double>(y[-1]);
  return {count_of(leading(y)) * solve_flops(n, k), bytes_moved(args, out)};
}

void solve_kernel(const OpArgs& args, std::span<Tensor> out) {
  const auto n = static_cast<double>(out[0].size(-2)), k = static_cast<double>(out[0].size(-1));
  const bool lapack = uses_lapack();
  const Shape batch = leading(out[0].shape());
  const auto load_a = [&](std::int64_t index, double* a) { return load(args.in[0], batch, index, a); };
  each_system(args, out, solve_flops(n, k), false, load_a,
              [&](std::int64_t rows, std::int64_t columns, double* a, double* b) {
                return (lapack ? lapack::solve : loops::solve)(rows, columns, a, b) ? Problem::none : Problem::singular;
              });
}

// a x = b, so a dx = db - da x: gb = a^-T g, ga = -gb x^T.
Gradients solve_rule(const VjpArgs& args) {
  const Tensor gb = solve(transpose(args.in[0]), args.grad[0]);
  Gradients gradients(2);
  if (args.wants(0)) gradients[0] = -matmul(gb, args.out[0], false, true);
  if (args.wants(1)) gradients[1] = gb;
  return gradients;
}

/// x = a^-1 b by Gauss and Jordan: every column is cleared above and below its pivot, the largest of what is left.
/// a and b are packed; both are changed.
void gauss_jordan(std::int64_t n, std::int64_t k, std::vector<double>& a, std::vector<double>& b) {
  const auto at = [](std::vector<double>& x, std::int64_t i, std::int64_t columns, std::int64_t j) -> double& {
    return x[static_cast<std::size_t>(i * columns + j)];
  };
  for (std::int64_t c = 0; c < n; ++c) {
    std::int64_t pivot = c;
    for (std::int64_t i = c; i < n; ++i)
      if (std::abs(at(a, i, n, c)) > std::abs(at(a, pivot, n, c))) pivot = i;
    for (std::int64_t j = 0; j < n; ++j) std::swap(at(a, c, n, j), at(a, pivot, n, j));
    for (std::int64_t j = 0; j < k; ++j) std::swap(at(b, c, k, j), at(b, pivot, k, j));
    const double head = at(a, c, n, c);
    for (std::int64_t j = 0; j < n; ++j) at(a, c, n, j) /= head;
    for (std::int64_t j = 0; j < k; ++j) at(b, c, k, j) /= head;
    for (std::int64_t i = 0; i < n; ++i) {
      const double factor = at(a, i, n, c);
      if (i == c) continue;
      for (std::int64_t j = 0; j < n; ++j) at(a, i, n, j) -= factor * at(a, c, n, j);
      for (std::int64_t j = 0; j < k; ++j) at(b, i, k, j) -= factor * at(b, c, k, j);
    }
  }
}

/// Matrix `index` of the batch, packed.
std::vector<double> matrix(const Tensor& x, const Shape& batch, std::int64_t index) {
  std::vector<double> numbers(static_cast<std::size_t>(x.size(-2) * x.size(-1)));
  load(x, batch, index, numbers.data());
  return numbers;
}

int tame(std::vector<double>& x) { return linalg::tame(static_cast<std::int64_t>(x.size()), x.data()); }

std::vector<Tensor> solve_reference(const OpArgs& args) {
  const Shape shape = infer_system(args)[0].shape, batch = leading(shape);
  Tensor y = reference_output(shape);
  for (std::int64_t index = 0; index < batch.numel(); ++index) {
    std::vector<double> a = matrix(args.in[0], batch, index), x = matrix(args.in[1], batch, index);
    const int divisor = tame(a), dividend = tame(x);
    gauss_jordan(shape[-2], shape[-1], a, x);
    scale(shape[-2] * shape[-1], x.data(), dividend - divisor);
    std::copy(x.begin(), x.end(), values(y) + index * static_cast<std::int64_t>(x.size()));
  }
  return {y};
}

std::vector<Sample> solve_samples(DType dtype) {
  const auto a = [&](const Shape& shape, std::uint64_t tag) { return sample_matrix(shape, dtype, 4200 + tag); };
  const auto b = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, 4220 + tag); };
  return {{{a({4, 4}, 1), b({4, 2}, 1)}, {}, "one system"},
          {{a({2, 3, 3}, 2), b({2, 3, 4}, 2)}, {}, "batch"},
          {{a({3, 3}, 3), b({4, 3, 2}, 3)}, {}, "one matrix for a batch"},
          {{a({4, 1, 3, 3}, 4), b({2, 3, 1}, 4)}, {}, "leading axes broadcast"},
          {{scattered(a({5, 5}, 5)), scattered(b({5, 3}, 5))}, {}, "strided"},
          {{a({1, 1}, 6), b({1, 3}, 6)}, {}, "one unknown"},
          {{a({0, 0}, 7), b({0, 2}, 7)}, {}, "no unknowns"},
          {{a({3, 3}, 8), b({3, 0}, 8)}, {}, "no columns"},
          {{a({0, 2, 2}, 9), b({0, 2, 2}, 9)}, {}, "no systems"}};
}

std::vector<Refusal> solve_refuses() {
  const Tensor one = eye(2), flat = Tensor::ones({2, 2});
  return {{{Tensor::zeros({2, 3}), flat}, {}, "a must be [..., n, n], it is [2, 3]"},
          {{one, Tensor::zeros({3, 1})}, {}, "a has 2 rows, b has 3: a is [2, 2], b is [3, 1]"},
          {{one, Tensor::zeros({2})}, {}, "b must be [..., m, n], it is [2]"},
          {{flat, one}, {}, "a is singular"},
          {{stack({one, one, flat}, 0), one}, {}, "a[2] is singular"},
          {{one, stack({one, one * NAN}, 0)}, {}, "b[1] has an element that is not finite"},
          {{one * INFINITY, one}, {}, "a has an element that is not finite"},
          {{Tensor::zeros({2, 2}, DType::i64), Tensor::zeros({2, 2}, DType::i64)}, {}, "must be f32 or f64"}};
}

/// Equations in another order give the same unknowns; unknowns in another order are those of reordered columns.
std::vector<Symmetry> solve_symmetries(const Sample& sample) {
  std::vector<Symmetry> all = broadcast_batch_symmetries(sample);
  all.push_back({.name = "rows of a and b", .legs = {in_leg(0, -2), in_leg(1, -2)}});
  all.push_back({.name = "columns of a, rows of y", .legs = {in_leg(0, -1), out_leg(0, -2)}, .mixes = true});
  all.push_back({.name = "columns of b", .legs = {in_leg(1, -1), out_leg(0, -1)}});
  return all;
}

constexpr std::string_view stays_square = "cut alone, the matrix would not be square; 1 and 0 of both are allowed";

// --- triangles ---

double triangular_flops(double n, double k) { return n * n * k; }

Work triangular_work(const OpArgs& args, std::span<const TensorSpec> out) {
  const Shape& y = out[0].shape;
  const double flops = triangular_flops(static_cast<double>(y[-2]), static_cast<double>(y[-1]));
  return {count_of(leading(y)) * flops, bytes_moved(args, out)};
}

/// exact: by the loops, whose bits are the same on every machine.
template <bool exact> void triangular_kernel(const OpArgs& args, std::span<Tensor> out) {
  const double flops = triangular_flops(static_cast<double>(out[0].size(-2)), static_cast<double>(out[0].size(-1)));
  const bool upper = args.attrs.flag("upper"), unit = args.attrs.flag("unitriangular");
  const bool lapack = !exact && uses_lapack();
  const Shape batch = leading(out[0].shape());
  const auto load_a = [&](std::int64_t index, double* a) {
    return load_triangle(args.in[0], batch, index, upper, unit, a);
  };
  each_system(args, out, flops, unit, load_a, [&](std::int64_t n, std::int64_t k, double* a, double* b) {
    for (std::int64_t i = 0; i < n && !unit; ++i)
      if (a[i * n + i] == 0) return Problem::zero_on_diagonal;
    (lapack ? lapack::solve_triangular : loops::solve_triangular)(n, k, a, upper, unit, b);
    return Problem::none;
  });
}

Gradients triangular_rule(const VjpArgs& args) {
  const bool upper = args.attrs.flag("upper"), unit = args.attrs.flag("unitriangular");
  const Tensor gb = solve_triangular(transpose(args.in[0]), args.grad[0], !upper, unit);
  Gradients gradients(2);
  if (args.wants(0)) {
    const Tensor whole = -matmul(gb, args.out[0], false, true);
    gradients[0] = upper ? triu(whole, unit ? 1 : 0) : tril(whole, unit ? -1 : 0);
  }
  if (args.wants(1)) gradients[1] = gb;
  return gradients;
}

// The last unknown first (upper): x_i = (b_i - sum over later j of a_ij x_j) / a_ii
std::vector<Tensor> triangular_reference(const OpArgs& args) {
  const bool upper = args.attrs.flag("upper"), unit = args.attrs.flag("unitriangular");
  const Shape shape = infer_system(args)[0].shape, batch = leading(shape);
  const std::int64_t n = shape[-2], k = shape[-1];
  Tensor y = reference_output(shape);
  for (std::int64_t index = 0; index < batch.numel(); ++index) {
    std::vector<double> a(static_cast<std::size_t>(n * n)), b = matrix(args.in[1], batch, index);
    load_triangle(args.in[0], batch, index, upper, unit, a.data());
    const int divisor = unit ? 0 : tame(a), dividend = tame(b);
    double* x = values(y) + index * n * k;
    for (std::int64_t c = 0; c < k; ++c)
      for (std::int64_t step = 0; step < n; ++step) {
        const std::int64_t i = upper ? n - 1 - step : step;
        double rest = b[static_cast<std::size_t>(i * k + c)];
        for (std::int64_t before = 0; before < step; ++before) {
          const std::int64_t j = upper ? n - 1 - before : before;
          rest -= a[static_cast<std::size_t>(i * n + j)] * x[j * k + c];
        }
        x[i * k + c] = unit ? rest : rest / a[static_cast<std::size_t>(i * n + i)];
      }
    scale(n * k, x, dividend - divisor);
  }
  return {y};
}

std::vector<Sample> triangular_samples(DType dtype) {
  const auto a = [&](const Shape& shape, std::uint64_t tag) { return sample_matrix(shape, dtype, 4240 + tag); };
  const auto b = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, 4260 + tag); };
  const auto kind = [](bool upper, bool unit) { return Attrs{{"upper", upper}, {"unitriangular", unit}}; };
  return {{{a({4, 4}, 1), b({4, 2}, 1)}, {}, "upper"},
          {{a({4, 4}, 2), b({4, 2}, 2)}, kind(false, false), "lower"},
          {{a({2, 3, 3}, 3), b({2, 3, 4}, 3)}, kind(true, true), "upper, ones on the diagonal"},
          {{a({3, 3}, 4), b({3, 3, 2}, 4)}, kind(false, true), "lower, ones, one matrix for a batch"},
          {{scattered(a({5, 5}, 5)), scattered(b({5, 3}, 5))}, {}, "strided"},
          {{a({1, 1}, 6), b({1, 3}, 6)}, {}, "one unknown"},
          {{a({0, 0}, 7), b({0, 2}, 7)}, {}, "no unknowns"},
          {{a({0, 2, 2}, 8), b({0, 2, 2}, 8)}, {}, "no systems"}};
}

std::vector<Refusal> triangular_refuses() {
  const Tensor one = eye(2), strict = triu(Tensor::ones({2, 2}), 1);
  return {{{Tensor::zeros({2, 3}), one}, {}, "a must be [..., n, n], it is [2, 3]"},
          {{one, Tensor::zeros({3, 1})}, {}, "a has 2 rows, b has 3"},
          {{stack({one, strict}, 0), one}, {}, "a[1] has a zero on its diagonal"},
          {{one * NAN, one}, {}, "a has an element that is not finite"}};
}

std::vector<Symmetry> triangular_symmetries(const Sample& sample) {
  std::vector<Symmetry> all = broadcast_batch_symmetries(sample);
  all.push_back({.name = "columns of b", .legs = {in_leg(1, -1), out_leg(0, -1)}});
  return all;
}

// --- the inverse ---

std::vector<TensorSpec> infer_square(const OpArgs& args) {
  check_matrix(args, 0, true);
  return {{args.in[0].shape(), args.in[0].dtype()}};
}

void inv_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Shape batch = batch_of(args);
  const std::int64_t n = args.in[0].size(-1);
  const auto size = static_cast<double>(n);
  const Output y(out[0]);
  const bool lapack = uses_lapack();
  for_each_matrix(args, batch, 2 * size * size * size, n * n, [&](std::int64_t index, double* a) {
    if (!load(args.in[0], batch, index, a)) return Problem::not_finite;
    const int exponent = linalg::tame(n * n, a);
    if (!(lapack ? lapack::invert(n, a) : loops::invert(n, a))) return Problem::singular;
    scale(n * n, a, -exponent);
    y.store(index, a, n * n);
    return Problem::none;
  });
}

// dy = -y da y
Gradients inv_rule(const VjpArgs& args) {
  const Tensor& y = args.out[0];
  return {-matmul(matmul(y, args.grad[0], true), y, false, true)};
}

std::vector<Tensor> inv_reference(const OpArgs& args) {
  const Shape& shape = args.in[0].shape();
  const Shape batch = leading(shape);
  const std::int64_t n = shape[-1];
  Tensor y = reference_output(shape);
  for (std::int64_t index = 0; index < batch.numel(); ++index) {
    std::vector<double> a = matrix(args.in[0], batch, index), x(a.size());
    for (std::int64_t i = 0; i < n; ++i) x[static_cast<std::size_t>(i * n + i)] = 1;
    const int exponent = tame(a);
    gauss_jordan(n, n, a, x);
    scale(n * n, x.data(), -exponent);
    std::copy(x.begin(), x.end(), values(y) + index * n * n);
  }
  return {y};
}

/// With the first row of every third matrix negated, so that signs of determinants differ.
Tensor with_both_signs(const Tensor& x) {
  std::vector<double> v = x.to(DType::f64).to_vector<double>();
  const auto n = static_cast<std::size_t>(x.size(-1));
  for (std::size_t i = 0; i < v.size(); ++i)
    if (i / (n * n) % 3 == 0 && i / n % n == 0) v[i] = -v[i];
  return Tensor::from<double>(v, x.shape()).to(x.dtype());
}

std::vector<Sample> square_samples(DType dtype) {
  const auto a = [&](const Shape& shape, std::uint64_t tag) { return sample_matrix(shape, dtype, 4280 + tag); };
  return {{{a({4, 4}, 1)}, {}, "one matrix"},
          {{with_both_signs(a({2, 3, 3}, 2))}, {}, "batch"},
          {{a({3, 3, 3}, 3) * -1.0}, {}, "negative determinants"},
          {{with_both_signs(a({3, 2, 2, 2}, 4))}, {}, "two leading axes"},
          {{scattered(a({5, 5}, 5))}, {}, "strided"},
          {{a({1, 1}, 6)}, {}, "one element"},
          {{a({2, 0, 0}, 7)}, {}, "no rows"},
          {{a({0, 3, 3}, 8)}, {}, "no matrices"}};
}

std::vector<Refusal> square_refuses() {
  const Tensor one = eye(2);
  return {{{Tensor::zeros({2, 3})}, {}, "a must be [..., n, n], it is [2, 3]"},
          {{Tensor::zeros({3})}, {}, "a must be [..., n, n], it is [3]"},
          {{Tensor::zeros({3, 3}, DType::i64)}, {}, "a must be f32 or f64, it is i64"},
          {{stack({one, one * NAN}, 0)}, {}, "a[1] has an element that is not finite"}};
}

std::vector<Refusal> inv_refuses() {
  std::vector<Refusal> all = square_refuses();
  all.push_back({{Tensor::ones({2, 2})}, {}, "a is singular"});
  all.push_back({{stack({eye(2), Tensor::zeros({2, 2})}, 0)}, {}, "a[1] is singular"});
  // The elimination of this one leaves 1e-16 instead of 0.
  all.push_back({{Tensor::from<float>({1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3})}, {}, "a is singular"});
  return all;
}

/// (P A Q)^-1 = Q^T A^-1 P^T.
std::vector<Symmetry> inv_symmetries(const Sample& sample) {
  std::vector<Symmetry> all = batch_symmetries(sample, 1);
  all.push_back({.name = "rows of a, columns of y", .legs = {in_leg(0, -2), out_leg(0, -1)}, .mixes = true});
  all.push_back({.name = "columns of a, rows of y", .legs = {in_leg(0, -1), out_leg(0, -2)}, .mixes = true});
  return all;
}

Work inv_work(const OpArgs& args, std::span<const TensorSpec> out) {
  const auto n = static_cast<double>(args.in[0].size(-1));
  return {count_of(batch_of(args)) * 2 * n * n * n, bytes_moved(args, out)};
}

// --- determinants ---

std::vector<TensorSpec> infer_det(const OpArgs& args) {
  check_matrix(args, 0, true);
  return {{batch_of(args), args.in[0].dtype()}};
}

std::vector<TensorSpec> infer_slogdet(const OpArgs& args) {
  const TensorSpec one = infer_det(args)[0];
  return {one, one};
}

double det_flops(double n) { return 2.0 / 3.0 * n * n * n; }

template <class Write> void each_determinant(const OpArgs& args, const Write& write) {
  const Shape batch = batch_of(args);
  const std::int64_t n = args.in[0].size(-1);
  const bool lapack = uses_lapack();
  for_each_matrix(args, batch, det_flops(static_cast<double>(n)), n * n, [&](std::int64_t index, double* a) {
    if (!load(args.in[0], batch, index, a)) return Problem::not_finite;
    const int exponent = linalg::tame(n * n, a);
    loops::Determinant d = (lapack ? lapack::determinant : loops::determinant)(n, a);
    d.exponent += n * exponent; // det(2^e A) = 2^(n e) det A
    d.log += static_cast<double>(n) * exponent * std::log(2.0);
    write(index, d);
    return Problem::none;
  });
}

void det_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Output y(out[0]);
  each_determinant(args, [&](std::int64_t index, const loops::Determinant& d) {
    const double value = d.value();
    y.store(index, &value, 1);
  });
}

void slogdet_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Output sign(out[0]), log(out[1]);
  each_determinant(args, [&](std::int64_t index, const loops::Determinant& d) {
    sign.store(index, &d.sign, 1);
    log.store(index, &d.log, 1);
  });
}

/// a^-T, for the gradient of a determinant.
Tensor inverse_for(const VjpArgs& args) {
  try {
    return transpose(inv(args.in[0]));
  } catch (const ValueError& e) {
    throw ValueError(fmt::format("{}: its gradient needs the inverse; {}", args.op.name, e.what()));
  }
}

Tensor at_matrices(const Tensor& x) { return unsqueeze(unsqueeze(x, -1), -1); }

// d det a = det a tr(a^-1 da)
Gradients det_rule(const VjpArgs& args) { return {at_matrices(args.grad[0] * args.out[0]) * inverse_for(args)}; }

// d ln |det a| = tr(a^-1 da); the sign is constant
Gradients slogdet_rule(const VjpArgs& args) {
  if (!args.grad[1].defined()) return {Tensor()};
  return {at_matrices(args.grad[1]) * inverse_for(args)};
}

/// The factors of det a, by elimination: its pivots, with the other sign where one is taken from below. What would come
/// after a zero is left out.
std::vector<double> pivots_of(std::int64_t n, std::vector<double> a) {
  std::vector<double> pivots;
  for (std::int64_t c = 0; c < n; ++c) {
    std::int64_t pivot = c;
    for (std::int64_t i = c; i < n; ++i)
      if (std::abs(a[static_cast<std::size_t>(i * n + c)]) > std::abs(a[static_cast<std::size_t>(pivot * n + c)]))
        pivot = i;
    for (std::int64_t j = 0; j < n && pivot != c; ++j)
      std::swap(a[static_cast<std::size_t>(c * n + j)], a[static_cast<std::size_t>(pivot * n + j)]);
    const double head = a[static_cast<std::size_t>(c * n + c)];
    pivots.push_back(pivot == c ? head : -head);
    if (head == 0) break;
    for (std::int64_t i = c + 1; i < n; ++i) {
      const double factor = a[static_cast<std::size_t>(i * n + c)] / head;
      for (std::int64_t j = c; j < n; ++j)
        a[static_cast<std::size_t>(i * n + j)] -= factor * a[static_cast<std::size_t>(c * n + j)];
    }
  }
  return pivots;
}

std::vector<Tensor> det_reference(const OpArgs& args) {
  const Shape batch = batch_of(args);
  const std::int64_t n = args.in[0].size(-1);
  Tensor y = reference_output(batch);
  for (std::int64_t index = 0; index < batch.numel(); ++index) {
    std::vector<double> a = matrix(args.in[0], batch, index);
    double product = 1;
    std::int64_t exponent = n * tame(a);
    for (const double pivot : pivots_of(n, a)) {
      int shift = 0;
      product = std::frexp(product * pivot, &shift);
      exponent += shift;
    }
    values(y)[index] = std::ldexp(product, static_cast<int>(exponent));
  }
  return {y};
}

std::vector<Tensor> slogdet_reference(const OpArgs& args) {
  const Shape batch = batch_of(args);
  const auto n = static_cast<double>(args.in[0].size(-1));
  Tensor sign = reference_output(batch), log = reference_output(batch);
  for (std::int64_t index = 0; index < batch.numel(); ++index) {
    std::vector<double> a = matrix(args.in[0], batch, index);
    const int exponent = tame(a);
    values(sign)[index] = 1;
    values(log)[index] = n * exponent * std::log(2.0);
    for (const double pivot : pivots_of(args.in[0].size(-1), a)) {
      values(sign)[index] *= pivot > 0 ? 1 : pivot < 0 ? -1 : 0;
      values(log)[index] += std::log(std::abs(pivot));
    }
  }
  return {sign, log};
}

/// det(P A P^T) = det A. Rows alone would change the sign by that of the permutation.
template <int outputs> std::vector<Symmetry> det_symmetries(const Sample& sample) {
  std::vector<Symmetry> all = batch_symmetries(sample, outputs);
  all.push_back({.name = "rows and columns of a together", .legs = {in_leg(0, -2), in_leg(0, -1)}, .grows = false});
  return all;
}

Work det_work(const OpArgs& args, std::span<const TensorSpec> out) {
  return {count_of(batch_of(args)) * det_flops(static_cast<double>(args.in[0].size(-1))), bytes_moved(args, out)};
}

} // namespace

constinit const OpDef solve_op = row({
    .name = "solve",
    .math = "y = A^-1 B: the Y with A Y = B",
    .inputs = {{"a"}, {"b"}},
    .infer = infer_system,
    .cpu = solve_kernel,
    .no_exact = no_exact,
    .no_cuda = no_device,
    .saves = saves::in(0) | saves::out(0),
    .vjp = solve_rule,
    .reference = solve_reference,
    .samples = solve_samples,
    .refuses = solve_refuses,
    .symmetries = solve_symmetries,
    .least_extents = {{"rows of a", 2, stays_square}, {"columns of a", 2, stays_square}},
    .work = solve_work,
});

constinit const OpDef solve_triangular_op = row({
    .name = "solve_triangular",
    .math = "y = T^-1 B with T the upper or lower triangle of A; the other triangle is not looked at",
    .inputs = {{"a"}, {"b"}},
    .attributes = {attr_bool("upper", true, "T is the upper triangle; false: the lower one"),
                   attr_bool("unitriangular", false, "T has ones on its diagonal, whatever stands there")},
    .infer = infer_system,
    .cpu = triangular_kernel<false>,
    .exact = triangular_kernel<true>,
    .no_cuda = no_device,
    .saves = saves::in(0) | saves::out(0),
    .vjp = triangular_rule,
    .reference = triangular_reference,
    .samples = triangular_samples,
    .refuses = triangular_refuses,
    .symmetries = triangular_symmetries,
    .work = triangular_work,
});

constinit const OpDef inv_op = row({
    .name = "inv",
    .math = "y = A^-1",
    .inputs = {{"a"}},
    .infer = infer_square,
    .cpu = inv_kernel,
    .no_exact = no_exact,
    .no_cuda = no_device,
    .saves = saves::out(0),
    .vjp = inv_rule,
    .reference = inv_reference,
    .samples = square_samples,
    .refuses = inv_refuses,
    .symmetries = inv_symmetries,
    .least_extents = {{"rows of a", 2, stays_square}, {"columns of a", 2, stays_square}},
    .work = inv_work,
});

constinit const OpDef det_op = row({
    .name = "det",
    .math = "y = det A",
    .inputs = {{"a"}},
    .infer = infer_det,
    .cpu = det_kernel,
    .no_exact = no_exact,
    .no_cuda = no_device,
    .saves = saves::in(0) | saves::out(0),
    .vjp = det_rule,
    .reference = det_reference,
    .samples = square_samples,
    .refuses = square_refuses,
    .symmetries = det_symmetries<1>,
    .work = det_work,
});

constinit const OpDef slogdet_op = row({
    .name = "slogdet",
    .math = "sign = sign of det A; logabsdet = ln |det A|",
    .inputs = {{"a"}},
    .outputs = {"sign", "logabsdet"},
    .infer = infer_slogdet,
    .cpu = slogdet_kernel,
    .no_exact = no_exact,
    .no_cuda = no_device,
    .saves = saves::in(0),
    .vjp = slogdet_rule,
    .reference = slogdet_reference,
    .samples = square_samples,
    .refuses = square_refuses,
    .symmetries = det_symmetries<2>,
    .work = det_work,
});

Tensor solve(const Tensor& a, const Tensor& b) {
  if (b.rank() != 1) return call1(solve_op, {a, b});
  return squeeze(call1(solve_op, {a, unsqueeze(b, 1)}), -1);
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool unitriangular) {
  const Attrs kind{{"upper", upper}, {"unitriangular", unitriangular}};
  if (b.rank() != 1) return call1(solve_triangular_op, {a, b}, kind);
  return squeeze(call1(solve_triangular_op, {a, unsqueeze(b, 1)}, kind), -1);
}

Tensor inv(const Tensor& a) { return call1(inv_op, {a}); }

Tensor det(const Tensor& a) { return call1(det_op, {a}); }

SlogdetResult slogdet(const Tensor& a) {
  std::vector<Tensor> out = call(slogdet_op, {a});
  return {std::move(out[0]), std::move(out[1])};
}

} // namespace eg
