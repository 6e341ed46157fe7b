// Linear algebra beyond the laws: residuals at odd sizes and conditions, conventions of signs, equal values, the batch
// index in refusals, both engines, threads.

#include "autograd/tape.h"
#include "core/ops.h"
#include "core/ops/linalg/lapack.h"
#include "core/ops/linalg/loops.h"
#include "core/ops/linalg/matrix.h"
#include "core/random.h"
#include "core/reduction.h"
#include "core/threads/parallel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace eg;

namespace {

Tensor drawn(const Shape& shape, std::uint64_t tag, DType dtype = DType::f64) {
  return random_normal(shape, {61, tag}, 0.0, 1.0, dtype);
}

/// largest entry of |a - b| over that of |b| (over 1 where it is smaller)
double distance(const Tensor& a, const Tensor& b) {
  double most = 0, largest = 0;
  const std::vector<double> x = a.to(DType::f64).to_vector<double>(), y = b.to(DType::f64).to_vector<double>();
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    most = std::isnan(x[i] - y[i]) ? INFINITY : std::max(most, std::abs(x[i] - y[i]));
    largest = std::max(largest, std::abs(y[i]));
  }
  return most / std::max(largest, 1e-300);
}

Tensor ones_like_eye(const Tensor& a) { return expand(eye(a.size(-1), -1, a.dtype()), a.shape()); }

double eps_of(DType dtype) { return dtype == DType::f32 ? 0x1p-23 : 0x1p-52; }

/// An orthogonal matrix.
Tensor orthogonal(std::int64_t n, std::uint64_t tag) { return qr(drawn({n, n}, tag)).q; }

Tensor symmetric_with(const std::vector<double>& values, std::uint64_t tag) {
  const auto n = static_cast<std::int64_t>(values.size());
  const Tensor v = orthogonal(n, tag);
  const Tensor a = matmul(v * unsqueeze(Tensor::from<double>(values, {n}), 0), v, false, true);
  return (a + transpose(a)) * 0.5;
}

/// f's slope along u by central differences, and from a tape.
std::pair<double, double> slopes(const std::function<Tensor(const Tensor&)>& f, const Tensor& a, const Tensor& u) {
  const double h = 1e-5;
  const double by_differences = (f(a + u * h).item() - f(a - u * h).item()) / (2 * h);
  Tape tape;
  const Tensor y = f(a);
  const Tensor g = tape.gradient(y, {a})[0];
  return {by_differences, sum(g * u).item()};
}

} // namespace

TEST_CASE("residuals are of the size of rounding: c eps n |A|") {
  constexpr double c = 16.0;
  for (const DType dtype : {DType::f64, DType::f32})
    for (const std::int64_t n : {1, 2, 3, 5, 8, 17, 40, 90})
      for (std::uint64_t draw = 0; draw < 3; ++draw) {
        CAPTURE(n);
        const double bound = c * eps_of(dtype) * static_cast<double>(n);
        const Tensor a = drawn({n, n}, 100 * draw + static_cast<std::uint64_t>(n), dtype);
        const Tensor tall = drawn({2 * n + 1, n}, 1000 + draw, dtype), wide = transpose(tall);
        const Tensor definite = matmul(a, a, false, true) + eye(n, -1, dtype);
        for (const Tensor& x : {a, tall, wide}) {
          const auto [q, r] = qr(x);
          CHECK(distance(matmul(q, r), x) < bound);
          CHECK(distance(matmul(q, q, true), ones_like_eye(matmul(q, q, true))) < bound);
          CHECK(same_bits(triu(r).contiguous(), r));
          const auto [u, s, vh] = svd(x);
          CHECK(distance(matmul(u * unsqueeze(s, -2), vh), x) < bound);
          CHECK(distance(matmul(u, u, true), eye(s.size(-1), -1, dtype)) < bound);
          CHECK(distance(matmul(vh, vh, false, true), eye(s.size(-1), -1, dtype)) < bound);
          const std::vector<double> values = s.to(DType::f64).to_vector<double>();
          CHECK(std::is_sorted(values.rbegin(), values.rend()));
          const Tensor p = pinv(x);
          CHECK(distance(matmul(matmul(x, p), x), x) < 100 * bound * values.front() / values.back());
        }
        const Tensor l = cholesky(definite);
        CHECK(distance(matmul(l, l, false, true), definite) < bound);
        CHECK(same_bits(tril(l).contiguous(), l));
        const Tensor symmetric = (a + transpose(a)) * 0.5;
        const auto [w, v] = eigh(symmetric);
        CHECK(distance(matmul(v * unsqueeze(w, -2), v, false, true), symmetric) < bound);
        CHECK(distance(matmul(v, v, true), eye(n, -1, dtype)) < bound);
        const std::vector<double> values = w.to(DType::f64).to_vector<double>();
        CHECK(std::is_sorted(values.begin(), values.end()));
        const Tensor b = drawn({n, 3}, 2000 + draw, dtype);
        CHECK(distance(matmul(definite, solve(definite, b)), b) < 10 * bound * static_cast<double>(n));
        CHECK(distance(matmul(definite, inv(definite)), eye(n, -1, dtype)) < 10 * bound * static_cast<double>(n));
        CHECK(distance(matmul(l, solve_triangular(l, b, false)), b) < 10 * bound * static_cast<double>(n));
        const auto [sign, log] = slogdet(definite);
        CHECK(sign.item() == 1.0);
        CHECK(log.item() == doctest::Approx(2 * sum(eg::log(sum(l * eye(n, -1, dtype), {1}))).item()).epsilon(1e-5));
      }
}

TEST_CASE("both engines agree, on thousands of matrices") {
  if (!linalg::lapack::available()) return;
  int compared = 0;
  double worst = 0;
  for (std::uint64_t draw = 0; draw < 2000; ++draw) {
    const auto m = static_cast<std::int64_t>(1 + draw % 7), n = static_cast<std::int64_t>(1 + draw / 7 % 7);
    const std::int64_t k = std::min(m, n);
    const std::vector<double> a = drawn({m, n}, 5000 + draw).to_vector<double>();
    const auto room = [](std::int64_t count) { return std::vector<double>(static_cast<std::size_t>(count)); };
    std::vector<double> x = a, y = a, u = room(m * k), s = room(k), vh = room(k * n), u2 = u, s2 = s, vh2 = vh;
    REQUIRE(linalg::lapack::svd(m, n, x.data(), u.data(), s.data(), vh.data()));
    REQUIRE(linalg::loops::svd(m, n, y.data(), u2.data(), s2.data(), vh2.data()));
    for (std::size_t i = 0; i < s.size(); ++i) worst = std::max(worst, std::abs(s[i] - s2[i]));
    x = a, y = a;
    std::vector<double> q = room(m * k), r = room(k * n), q2 = q, r2 = r;
    linalg::lapack::qr(m, n, x.data(), q.data(), r.data());
    linalg::loops::qr(m, n, y.data(), q2.data(), r2.data());
    for (std::int64_t i = 0; i < k; ++i) {
      const auto at = static_cast<std::size_t>(i * n + i);
      worst = std::max(worst, std::abs(std::abs(r[at]) - std::abs(r2[at])));
    }
    if (m != n) continue;
    x = a, y = a;
    const linalg::loops::Determinant d = linalg::lapack::determinant(n, x.data()),
                                     d2 = linalg::loops::determinant(n, y.data());
    worst = std::max(worst, std::abs(d.value() - d2.value()) / std::max(1.0, std::abs(d.value())));
    ++compared;
  }
  CHECK(worst < 1e-12);
  CHECK(compared > 200);
}

TEST_CASE("signs are those of the documentation, for every sign of the columns") {
  for (std::uint64_t draw = 0; draw < 200; ++draw) {
    const std::int64_t n = 1 + static_cast<std::int64_t>(draw % 6);
    const Tensor a = drawn({n + static_cast<std::int64_t>(draw % 3), n}, 7000 + draw);
    const auto [q, r] = qr(a);
    for (std::int64_t i = 0; i < n; ++i) CHECK(r.at({i, i}) >= 0);
    const auto [u, s, vh] = svd(a);
    const auto largest_is_positive = [](const Tensor& columns) {
      for (std::int64_t j = 0; j < columns.size(1); ++j) {
        double largest = 0;
        for (std::int64_t i = 0; i < columns.size(0); ++i)
          if (std::abs(columns.at({i, j})) > std::abs(largest)) largest = columns.at({i, j});
        CHECK(largest > 0);
      }
    };
    largest_is_positive(u);
    largest_is_positive(eigh(matmul(a, a, true)).eigenvectors);
    CHECK(same_bits(qr(a * -1.0).r, r)); // -A = (-Q) R
    CHECK(same_bits(svd(a * -1.0).u, u));
  }
  // Equal entries: the first is positive, whatever rounding says.
  const Tensor flip = Tensor::from<double>({0, 1, 1, 0}, {2, 2});
  CHECK(eigh(flip).eigenvectors.at({0, 0}) > 0);
  CHECK(eigh(flip).eigenvectors.at({1, 0}) < 0);
}

TEST_CASE("the first matrix with a problem is named, on any number of threads") {
  const Tensor one = eye(3, -1, DType::f64);
  std::vector<Tensor> all(600, one);
  all[317] = all[318] = all[599] = Tensor::ones({3, 3}, DType::f64);
  const Tensor stacked = reshape(stack(all, 0), {2, 300, 3, 3});
  for (const int threads : {1, 2, 3}) {
    parallel::set_threads(threads);
    CHECK_THROWS_WITH_AS(inv(stacked), doctest::Contains("inv: a[1, 17] is singular"), ValueError);
    CHECK_THROWS_WITH_AS(cholesky(stacked), doctest::Contains("cholesky: a[1, 17] is not positive definite"),
                         ValueError);
  }
  parallel::set_threads(0);
  // The matrix that was given, not the one it is broadcast to.
  CHECK_THROWS_WITH_AS(solve(Tensor::ones({1, 2, 2}), Tensor::ones({5, 2, 1})),
                       doctest::Contains("solve: a[0] is singular"), ValueError);
  CHECK_THROWS_WITH_AS(solve(Tensor::ones({2, 2}), Tensor::ones({5, 2, 1})), doctest::Contains("solve: a is singular"),
                       ValueError);
  all[5] = one * NAN;
  CHECK_THROWS_WITH_AS(svd(stack(all, 0)), doctest::Contains("svd: a[5] has an element that is not finite"),
                       ValueError);
}

TEST_CASE("matrices that are badly scaled are not singular, those without rank are, in thousands of cases") {
  int missed = 0, refused = 0;
  double worst = 0;
  for (std::uint64_t draw = 0; draw < 3000; ++draw) {
    const std::int64_t n = 2 + static_cast<std::int64_t>(draw % 7), rank = draw % 2 == 0 ? n - 1 : 1 + (n - 1) / 2;
    const bool whole = draw % 3 != 0;
    const Tensor left = whole ? random_integers({n, rank}, {62, draw}, -4, 5).to(DType::f64) : drawn({n, rank}, draw);
    const Tensor right = whole ? random_integers({rank, n}, {63, draw}, -4, 5).to(DType::f64) : drawn({rank, n}, ~draw);
    // Factors of rows and columns, between 1e-20 and 1e20.
    const auto factors = [&](const Shape& shape, std::uint64_t tag) {
      return eg::exp2(floor(random_normal(shape, {tag, draw}, 0.0, 20.0, DType::f64)));
    };
    const Tensor rows = factors({n, 1}, 64), columns = factors({1, n}, 65);
    const Tensor low = matmul(left, right) * rows * columns;
    for (const auto& f : {std::function<Tensor()>([&] { return inv(low); }),
                          std::function<Tensor()>([&] { return solve(low, eye(n, -1, DType::f64)); })})
      try {
        f();
        ++missed;
      } catch (const ValueError& e) {
        refused += std::string(e.what()).find("a is singular") != std::string::npos ? 1 : 0;
      }
    // The inverse of a scaled matrix is as good as that of the matrix itself.
    const Tensor a = drawn({n, n}, 9000 + draw) + eye(n, -1, DType::f64) * 3.0;
    const Tensor scaled = inv(a * rows * columns) * transpose(rows) * transpose(columns);
    worst = std::max(worst, distance(scaled, inv(a)) / (1 + svd(a).s.at({0}) / svd(a).s.at({n - 1})));
  }
  CHECK(missed == 0);
  CHECK(refused == 6000);
  CHECK(worst < 1e-12);
  // Nearly singular is not singular.
  for (std::int64_t n = 2; n <= 10; ++n) {
    std::vector<double> hilbert;
    for (std::int64_t i = 0; i < n * n; ++i) hilbert.push_back(1.0 / static_cast<double>(i / n + i % n + 1));
    CHECK_NOTHROW(inv(Tensor::from<double>(hilbert, {n, n})));
  }
}

TEST_CASE("equal values: a loss of the values alone, or of other vectors, has its gradient") {
  for (std::uint64_t draw = 0; draw < 40; ++draw) {
    const Tensor a = symmetric_with({1.0, 2.0, 2.0, 2.0, 5.0}, 100 + draw);
    const Tensor u = drawn({5, 5}, 200 + draw), weight = drawn({5, 5}, 300 + draw);
    const std::vector<std::function<Tensor(const Tensor&)>> losses = {
        [](const Tensor& x) { return sum(eg::exp(eigh(x).eigenvalues)); },
        [&](const Tensor& x) { // the projector on the outer two
          const Tensor v = eigh(x).eigenvectors;
          const Tensor kept = concat({slice(v, 1, 0, 1), slice(v, 1, 4, 5)}, 1);
          return sum(weight * matmul(kept, kept, false, true));
        },
        [](const Tensor& x) { return sum(square(svd(x).s)) + sum(eg::exp(svd(x).s * -1.0)); },
        [&](const Tensor& x) { return sum(weight * matmul(slice(svd(x).u, 1, 0, 1), slice(svd(x).vh, 0, 0, 1))); }};
    for (const auto& loss : losses) {
      const auto [wanted, found] = slopes(loss, a, u);
      CHECK(found == doctest::Approx(wanted).epsilon(1e-5));
    }
  }
}

TEST_CASE("equal values: a loss of their vectors is refused, in the batch's words") {
  const Tensor a = stack({symmetric_with({1, 2, 3}, 1), symmetric_with({1, 2, 2}, 2)}, 0);
  const auto gradient_of = [](const auto& f, const Tensor& x) {
    Tape tape;
    const Tensor y = f(x);
    return tape.gradient(y, {x})[0];
  };
  const Tensor weight = drawn({3, 3}, 5);
  // Functions of the matrix itself, smooth at equal values: their limits are not 0, so 0 / 0 = 0 would be wrong.
  const auto itself = [&](const Tensor& x) {
    const auto [w, v] = eigh(x);
    return sum(weight * matmul(v * unsqueeze(w, -2), v, false, true));
  };
  const auto again = [&](const Tensor& x) {
    const auto [u, s, vh] = svd(x);
    return sum(weight * matmul(u * unsqueeze(s, -2), vh));
  };
  CHECK_THROWS_WITH_AS(gradient_of(itself, a), doctest::Contains("eigh: eigenvalues 1 and 2 of a[1] are equal"),
                       ValueError);
  CHECK_THROWS_WITH_AS(gradient_of(again, a), doctest::Contains("svd: singular values 0 and 1 of a[1] are equal"),
                       ValueError);
  const Tensor apart = symmetric_with({1, 2, 3}, 1);
  CHECK(distance(gradient_of(itself, apart), (weight + transpose(weight)) * 0.5) < 1e-12); // as it is not refused
  CHECK(distance(gradient_of(again, apart), weight) < 1e-12);
  // An orthogonal matrix has equal singular values, one without rank has vectors of 0.
  const auto polar = [&](const Tensor& x) { return sum(weight * matmul(svd(x).u, svd(x).vh)); };
  CHECK_THROWS_WITH_AS(gradient_of(polar, orthogonal(3, 4)), doctest::Contains("are equal to rounding"), ValueError);
  const Tensor low = matmul(drawn({4, 2}, 6), drawn({2, 3}, 7));
  const auto left = [&](const Tensor& x) { return sum(drawn({4, 3}, 8) * svd(x).u); };
  CHECK_THROWS_WITH_AS(gradient_of(left, low), doctest::Contains("singular value 2 of a is zero to rounding"),
                       ValueError);
  const auto largest = [&](const Tensor& x) { return sum(drawn({4, 2}, 9) * slice(svd(x).u, 1, 0, 2)); };
  const auto [wanted, found] = slopes(largest, low, drawn({4, 3}, 10));
  CHECK(found == doctest::Approx(wanted).epsilon(1e-5));
}

TEST_CASE("where a factorisation jumps, its gradient is refused") {
  const auto gradient_of = [](const auto& f, const Tensor& x) {
    Tape tape;
    const Tensor y = f(x);
    return tape.gradient(y, {x})[0];
  };
  const Tensor low = matmul(drawn({4, 2}, 11), drawn({2, 4}, 12));
  const auto of_r = [](const Tensor& x) { return sum(qr(x).r); };
  const auto of_pinv = [](const Tensor& x) { return sum(pinv(x)); };
  const auto of_det = [](const Tensor& x) { return sum(det(x)); };
  const auto of_log = [](const Tensor& x) { return sum(slogdet(x).logabsdet); };
  CHECK_THROWS_WITH_AS(gradient_of(of_r, low), doctest::Contains("qr: column 2 of a depends on those before it"),
                       ValueError);
  CHECK_THROWS_WITH_AS(gradient_of(of_pinv, low), doctest::Contains("pinv: a has rank 2 of 4"), ValueError);
  const Tensor zero = Tensor::from<double>({1, 2, 2, 4}, {2, 2});
  CHECK(det(zero).item() == 0.0);
  CHECK(slogdet(zero).sign.item() == 0.0);
  CHECK(slogdet(zero).logabsdet.item() == -INFINITY);
  CHECK_THROWS_WITH_AS(gradient_of(of_det, zero),
                       doctest::Contains("det: its gradient needs the inverse; inv: a is singular"), ValueError);
  CHECK_THROWS_WITH_AS(gradient_of(of_log, zero),
                       doctest::Contains("slogdet: its gradient needs the inverse; inv: a is singular"), ValueError);
}

TEST_CASE("exact mode: cholesky and triangles have one set of bits, the others say why not") {
  const Tensor a = drawn({6, 6}, 20), definite = matmul(a, a, false, true) + eye(6, -1, DType::f64);
  const ReductionScope exact(Reduction::exact);
  std::vector<double> loops = definite.to_vector<double>();
  REQUIRE(linalg::loops::cholesky(6, loops.data()));
  CHECK(same_bits(cholesky(definite), Tensor::from<double>(loops, {6, 6})));
  CHECK_NOTHROW(solve_triangular(definite, a));
  CHECK_THROWS_WITH_AS(inv(definite), doctest::Contains("inv: exact mode refuses it (elimination adds"), ValueError);
  CHECK_THROWS_WITH_AS(svd(definite), doctest::Contains("svd: exact mode refuses it"), ValueError);
}

TEST_CASE("vectors on the right-hand side") {
  const Tensor a = drawn({3, 3}, 21) + eye(3, -1, DType::f64) * 3.0, b = drawn({3}, 22);
  CHECK(distance(matmul(a, unsqueeze(solve(a, b), 1)), unsqueeze(b, 1)) < 1e-14);
  CHECK(distance(matmul(triu(a), unsqueeze(solve_triangular(a, b), 1)), unsqueeze(b, 1)) < 1e-14);
  CHECK(solve(stack({a, a}, 0), b).shape() == Shape{2, 3});
}

TEST_CASE("large matrices, and the same bits on every number of threads") {
  const Tensor a = drawn({3, 120, 100}, 23);
  std::vector<std::vector<Tensor>> seen;
  for (const int threads : {1, 2, 3}) {
    parallel::set_threads(threads);
    const auto [q, r] = qr(a);
    const auto [u, s, vh] = svd(a);
    const Tensor gram = matmul(a, a, true);
    const auto [w, v] = eigh(gram);
    seen.push_back({q, r, u, s, vh, gram, w, v, cholesky(gram), inv(gram), slogdet(gram).logabsdet});
  }
  parallel::set_threads(0);
  for (std::size_t i = 0; i < seen[0].size(); ++i) {
    CHECK(same_bits(seen[1][i], seen[0][i]));
    CHECK(same_bits(seen[2][i], seen[0][i]));
  }
}

TEST_CASE("solve_triangular looks at its triangle alone: NaN, infinities and huge numbers elsewhere change no bit") {
  const Tensor a = drawn({3, 4, 4}, 30) + eye(4, -1, DType::f64) * 3.0, b = drawn({3, 4, 2}, 31);
  for (const Reduction mode : {Reduction::fast, Reduction::exact})
    for (const bool upper : {false, true})
      for (const bool unit : {false, true}) {
        const ReductionScope scope(mode);
        const Tensor inside =
            upper ? triu(Tensor::ones({4, 4}), unit ? 1 : 0) : tril(Tensor::ones({4, 4}), unit ? -1 : 0);
        const Tensor mask = inside.to(DType::boolean);
        const auto with = [&](double elsewhere) { return where(mask, a, Tensor::full({}, elsewhere, DType::f64)); };
        const auto gradients = [&](const Tensor& x) {
          Tape tape;
          const Tensor y = sum(square(solve_triangular(x, b, upper, unit)));
          return tape.gradient(y, {x})[0];
        };
        const Tensor right = solve_triangular(with(0), b, upper, unit);
        for (const double elsewhere : {std::nan(""), std::numeric_limits<double>::infinity(), 1e308, 1e-320}) {
          CHECK(same_bits(solve_triangular(with(elsewhere), b, upper, unit), right));
          CHECK(same_bits(gradients(with(elsewhere)), gradients(with(0))));
        }
        // Controls: what is inside is looked at, and so is the diagonal unless it is ones.
        const Tensor spoilt = where(mask, Tensor::full({}, std::nan(""), DType::f64), a);
        CHECK_THROWS_WITH_AS(solve_triangular(spoilt, b, upper, unit),
                             doctest::Contains("a[0] has an element that is not"), ValueError);
        if (!unit)
          CHECK_THROWS_WITH_AS(solve_triangular(a - a * eye(4, -1, DType::f64), b, upper, unit),
                               doctest::Contains("a[0] has a zero on its diagonal"), ValueError);
      }
}

TEST_CASE("determinants whose products leave the range on the way, by both engines") {
  const auto diagonal = [](const std::vector<double>& values) {
    const auto n = static_cast<std::int64_t>(values.size());
    return eye(n, -1, DType::f64) * Tensor::from<double>(values, {n});
  };
  std::vector<double> values(500, 1e3);
  std::fill(values.begin() + 250, values.end(), 1e-3);
  CHECK(det(diagonal(values)).item() == doctest::Approx(1).epsilon(1e-12));
  std::reverse(values.begin(), values.end());
  CHECK(det(diagonal(values)).item() == doctest::Approx(1).epsilon(1e-12));
  CHECK(det(diagonal(values).to(DType::f32)).item() == doctest::Approx(1).epsilon(1e-4));
  std::vector<double> with_zero(300, 1e3);
  with_zero[299] = 0;
  CHECK(det(diagonal(with_zero)).item() == 0.0);
  CHECK(det(diagonal(std::vector<double>(300, 1e3))).item() == INFINITY); // as it is
  CHECK(det(diagonal(std::vector<double>(301, -1e3))).item() == -INFINITY);
  CHECK(det(diagonal(std::vector<double>(300, 1e-3))).item() == 0.0);
  CHECK(det(diagonal({0x1p-10, 0x1p-1040})).item() == 0x1p-1050); // a subnormal one
  // Products of random numbers, by the sum of their exponents.
  for (std::uint64_t draw = 0; draw < 2000; ++draw) {
    const std::int64_t n = 1 + static_cast<std::int64_t>(draw % 12);
    std::vector<double> x = random_normal({n}, {66, draw}, 0.0, 200.0, DType::f64).to_vector<double>();
    double exponents = 0, sign = 1;
    for (double& e : x) {
      e = std::clamp(std::floor(e), -900.0, 900.0);
      exponents += e;
      sign = e > 0 && static_cast<int>(e) % 2 != 0 ? -sign : sign;
      e = std::ldexp(e > 0 && static_cast<int>(e) % 2 != 0 ? -1.0 : 1.0, static_cast<int>(e));
    }
    const double wanted = sign * std::ldexp(1.0, static_cast<int>(exponents));
    std::vector<double> a = diagonal(x).to_vector<double>(), c = a;
    CHECK(linalg::loops::determinant(n, a.data()).value() == wanted);
    if (linalg::lapack::available()) CHECK(linalg::lapack::determinant(n, c.data()).value() == wanted);
  }
}

TEST_CASE("a side of a matrix may be long: least squares of 100000 rows, and their gradient") {
  const std::int64_t m = 100000, n = 5;
  const Tensor a = drawn({m, n}, 32);
  const auto [q, r] = qr(a);
  CHECK(distance(matmul(q, r), a) < 1e-12);
  const auto [u, s, vh] = svd(a);
  CHECK(distance(matmul(u * unsqueeze(s, 0), vh), a) < 1e-12);
  CHECK(distance(matmul(pinv(a), a), eye(n, -1, DType::f64)) < 1e-12);
  CHECK(distance(matmul(transpose(a), pinv(transpose(a))), eye(n, -1, DType::f64)) < 1e-12);
  const Tensor small = eye(n, -1, DType::f64) * 2.0, b = drawn({n, m}, 33);
  CHECK(distance(solve(small, b) * 2.0, b) < 1e-15);
  CHECK(distance(solve_triangular(small, b) * 2.0, b) < 1e-15);
  const Tensor w = drawn({n, m}, 34);
  for (const bool tall : {true, false}) { // products [m, m] would take 80 GB
    const Tensor x = tall ? a : transpose(a).contiguous(), v = tall ? w : transpose(w),
                 way = drawn(x.shape(), 35) * 100.0;
    const auto [wanted, found] = slopes([&](const Tensor& y) { return sum(v * pinv(y)) * 1e3; }, x, way);
    CHECK(found == doctest::Approx(wanted).epsilon(1e-5));
  }
  CHECK_THROWS_WITH_AS(svd(Tensor::zeros({20001, 1}).expand({20001, 20001})),
                       doctest::Contains("the shorter side of a matrix has at most 20000"), ShapeError);
}

TEST_CASE("pinv: a share of 0 keeps every singular value, the default those above rounding") {
  const Tensor a = Tensor::from<double>({1, 0, 0, 1e-20}, {2, 2});
  CHECK(pinv(a, 0.0).at({1, 1}) == doctest::Approx(1e20));
  CHECK(pinv(a).at({1, 1}) == 0.0);
  CHECK(pinv(a, 1e-10).at({1, 1}) == 0.0);
  CHECK_THROWS_WITH_AS(pinv(a, -0.5), doctest::Contains("pinv: rtol is -0.5; it must be at least 0"), ValueError);
}
