#include "core/ops/linalg/matrix.h"

#include "core/call.h"
#include "core/memory/scratch_pool.h"
#include "core/ops.h"
#include "core/ops/linalg/lapack.h"
#include "core/ops/row_tools.h"
#include "core/threads/parallel.h"
#include "core/visit_dtype.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <limits>
#include <mutex>

namespace eg::linalg {

bool uses_lapack() {
  static const bool lapack = [] {
    const char* wished = std::getenv("EQUIGRAD_LINALG");
    const std::string_view name = wished == nullptr ? "" : wished;
    if (!name.empty() && name != "own" && name != "openblas")
      throw ValueError(fmt::format("EQUIGRAD_LINALG is '{}'; it can be own or openblas", name));
    if (name == "openblas" && !lapack::available())
      throw Error("EQUIGRAD_LINALG is openblas, and OpenBLAS with LAPACK does not open here");
    return name != "own" && lapack::available();
  }();
  return lapack;
}

std::string engine() { return uses_lapack() ? "OpenBLAS's LAPACK" : "own loops"; }

void check_matrix(const OpArgs& args, std::size_t i, bool square) {
  check_floating(args, i);
  const Shape& shape = args.in[i].shape();
  const std::string_view name = args.op.inputs[i].name;
  if (shape.rank() < 2 || (square && shape[-1] != shape[-2]))
    throw ShapeError(
        fmt::format("{}: {} must be [..., {}, n], it is {}", args.op.name, name, square ? "n" : "m", shape.str()));
  // LAPACK counts in 32 bits: rows, columns, and work space, which for svd is 4 k^2 numbers and more, k the shorter
  // side.
  constexpr std::int64_t most = 20000, longest = 2'000'000'000;
  const std::int64_t shorter = std::min(shape[-1], shape[-2]), longer = std::max(shape[-1], shape[-2]);
  if (shorter > most || longer > longest)
    throw ShapeError(fmt::format("{}: {} is {}; the shorter side of a matrix has at most {} elements, the longer {}",
                                 args.op.name, name, shape.str(), most, longest));
}

Shape leading(const Shape& shape) { return Shape(shape.dims().first(static_cast<std::size_t>(shape.rank() - 2))); }

Shape with_matrix(Shape batch, std::int64_t rows, std::int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

namespace {

/// Places of matrix `index` of the batch along the leading axes of a tensor that broadcasts to it.
std::vector<std::int64_t> places_of(const Shape& leading_axes, const Shape& batch, std::int64_t index) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(leading_axes.rank()));
  for (int axis = batch.rank() - 1; axis >= 0; --axis) {
    const std::int64_t place = index % batch[axis];
    index /= batch[axis];
    const int own = axis - batch.rank() + leading_axes.rank();
    if (own >= 0) places[static_cast<std::size_t>(own)] = leading_axes[own] == 1 ? 0 : place;
  }
  return places;
}

/// f(row, column, element) for every element with counts(row, column); false where one of them is not finite.
template <class Counts, class F>
bool each_element(const Tensor& x, const Shape& batch, std::int64_t index, const Counts& counts, F&& f) {
  const std::vector<std::int64_t> places = places_of(leading(x.shape()), batch, index);
  std::int64_t offset = 0;
  for (int axis = 0; axis < x.rank() - 2; ++axis) offset += places[static_cast<std::size_t>(axis)] * x.strides()[axis];
  return visit_floating(x.dtype(), [&]<class T>() {
    const T* first = x.data<T>() + offset;
    bool finite = true;
    for (std::int64_t i = 0; i < x.size(-2); ++i)
      for (std::int64_t j = 0; j < x.size(-1); ++j) {
        if (!counts(i, j)) continue;
        const auto element = static_cast<double>(first[i * x.strides()[-2] + j * x.strides()[-1]]);
        finite = finite && std::isfinite(element);
        f(i, j, element);
      }
    return finite;
  });
}

/// Multiplies n numbers by -1; a zero stays 0.
void negate(std::int64_t n, double* x, std::int64_t stride) {
  for (std::int64_t i = 0; i < n; ++i) x[i * stride] = 0.0 - x[i * stride];
}

std::string words_for(Problem problem) {
  switch (problem) {
  case Problem::not_finite:
  case Problem::second_not_finite:
    return "has an element that is not finite";
  case Problem::singular:
    return "is singular: a pivot of its elimination is zero, or nothing but rounding; add a multiple of the identity, "
           "or "
           "use svd";
  case Problem::not_positive:
    return "is not positive definite; add a multiple of the identity, or use eigh";
  case Problem::zero_on_diagonal:
    return "has a zero on its diagonal, so the system has no unique solution";
  case Problem::not_converged:
    return "did not converge";
  case Problem::none:
    break;
  }
  return "";
}

} // namespace

bool load(const Tensor& x, const Shape& batch, std::int64_t index, double* to) {
  const auto all = [](std::int64_t, std::int64_t) { return true; };
  return each_element(x, batch, index, all, [&](std::int64_t, std::int64_t, double element) { *to++ = element; });
}

bool load_triangle(const Tensor& x, const Shape& batch, std::int64_t index, bool upper, bool unit, double* to) {
  const std::int64_t n = x.size(-1);
  std::fill(to, to + n * n, 0.0);
  for (std::int64_t i = 0; i < n && unit; ++i) to[i * n + i] = 1;
  const auto inside = [=](std::int64_t i, std::int64_t j) { return i == j ? !unit : (i < j) == upper; };
  return each_element(x, batch, index, inside,
                      [=](std::int64_t i, std::int64_t j, double element) { to[i * n + j] = element; });
}

void symmetrise(std::int64_t n, double* a) {
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < i; ++j) a[i * n + j] = a[j * n + i] = 0.5 * (a[i * n + j] + a[j * n + i]);
}

int tame(std::int64_t count, double* x) {
  double largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(x[i]));
  if (largest == 0 || (largest > 0x1p-200 && largest < 0x1p200)) return 0;
  const int exponent = std::ilogb(largest) / 2 * 2 + 2; // even, for square roots
  scale(count, x, -exponent);
  return exponent;
}

void scale(std::int64_t count, double* x, int exponent) {
  for (std::int64_t i = 0; i < count && exponent != 0; ++i) x[i] = std::ldexp(x[i], exponent);
}

void Output::store(std::int64_t index, const double* from, std::int64_t count) const {
  visit_floating(dtype_, [&]<class T>() {
    T* to = reinterpret_cast<T*>(bytes_) + index * count;
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i]);
  });
}

void for_each_matrix(const OpArgs& args, const Shape& batch, double flops, std::int64_t doubles,
                     FunctionRef<Problem(std::int64_t index, double* room)> f) {
  const std::int64_t count = batch.numel();
  constexpr double flops_per_chunk = 2e5;
  const auto grain = static_cast<std::int64_t>(std::clamp(flops_per_chunk / std::max(flops, 1.0), 1.0, 4096.0));
  ScratchPool pool(parallel::chunks(count, grain), static_cast<std::size_t>(doubles) * sizeof(double));
  std::mutex mutex;
  std::int64_t first = count;
  Problem problem = Problem::none;
  parallel::for_each(count, grain, [&](std::int64_t begin, std::int64_t end) {
    const ScratchPool::Buffer buffer = pool.take();
    for (std::int64_t index = begin; index < end; ++index) {
      const Problem here = f(index, reinterpret_cast<double*>(buffer.data()));
      if (here == Problem::none) continue;
      const std::lock_guard lock(mutex);
      if (index < first) {
        first = index;
        problem = here;
      }
    }
  });
  if (problem == Problem::none) return;
  const std::size_t input = problem == Problem::second_not_finite ? 1 : 0;
  throw ValueError(fmt::format("{}: {} {}", args.op.name,
                               matrix_name(args.op.inputs[input].name, leading(args.in[input].shape()), batch, first),
                               words_for(problem)));
}

std::string matrix_name(std::string_view name, const Shape& leading_axes, const Shape& batch, std::int64_t index) {
  if (leading_axes.rank() == 0) return std::string(name);
  const std::vector<std::int64_t> places = places_of(leading_axes, batch, index);
  return std::string(name) + Shape(places).str();
}

double sign_of_column(std::int64_t n, const double* x, std::int64_t stride) {
  double largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i * stride]));
  for (std::int64_t i = 0; i < n; ++i)
    if (std::abs(x[i * stride]) >= largest * (1 - 0x1p-20)) return x[i * stride] < 0 ? -1.0 : 1.0;
  return 1.0;
}

void qr(std::int64_t m, std::int64_t n, double* a, double* q, double* r) {
  uses_lapack() ? lapack::qr(m, n, a, q, r) : loops::qr(m, n, a, q, r);
  const std::int64_t rank = std::min(m, n);
  for (std::int64_t k = 0; k < rank; ++k)
    if (r[k * n + k] < 0) {
      negate(n - k, r + k * n + k, 1);
      negate(m, q + k, rank);
    }
}

bool eigh(std::int64_t n, double* a, double* w, double* v) {
  const bool done = uses_lapack() ? lapack::eigh(n, a, w, v) : loops::eigh(n, a, w, v);
  for (std::int64_t j = 0; j < n; ++j)
    if (sign_of_column(n, v + j, n) < 0) negate(n, v + j, n);
  return done;
}

bool svd(std::int64_t m, std::int64_t n, double* a, double* u, double* s, double* vh) {
  const bool done = uses_lapack() ? lapack::svd(m, n, a, u, s, vh) : loops::svd(m, n, a, u, s, vh);
  const std::int64_t rank = std::min(m, n);
  for (std::int64_t j = 0; j < rank; ++j)
    if (sign_of_column(m, u + j, rank) < 0) {
      negate(m, u + j, rank);
      negate(n, vh + j * n, 1);
    }
  return done;
}

std::vector<Symmetry> batch_symmetries(const Sample& sample, int outputs) {
  std::vector<Symmetry> all;
  for (int axis = 0; axis < sample.in[0].rank() - 2; ++axis) {
    Symmetry batch{.name = fmt::format("batch axis {}", axis), .legs = {in_leg(0, axis)}, .bit_exact = true};
    for (int o = 0; o < outputs; ++o) batch.legs.push_back(out_leg(o, axis));
    all.push_back(std::move(batch));
  }
  return all;
}

std::vector<Symmetry> broadcast_batch_symmetries(const Sample& sample) {
  std::vector<Symmetry> all;
  const int rank = std::max(sample.in[0].rank(), sample.in[1].rank());
  for (int back = 3; back <= rank; ++back) {
    Symmetry batch{.name = fmt::format("batch axis -{}", back), .legs = {}, .bit_exact = true};
    for (int i = 0; i < 2; ++i) // an axis of extent 1 serves all
      if (const Tensor& x = sample.in[static_cast<std::size_t>(i)]; x.rank() >= back && x.size(-back) >= 2)
        batch.legs.push_back(in_leg(i, -back));
    if (batch.legs.empty()) continue;
    batch.legs.push_back(out_leg(0, -back));
    all.push_back(std::move(batch));
  }
  return all;
}

namespace {

/// normal numbers of deviation 0.4 plus diagonal(j) at (j, j).
template <class F> Tensor with_diagonal(const Shape& shape, DType dtype, std::uint64_t tag, F&& diagonal) {
  std::vector<double> x = sample_normal(shape, DType::f64, tag, 0.4).to_vector<double>();
  const std::int64_t columns = std::max<std::int64_t>(shape[-1], 1), rows = std::max<std::int64_t>(shape[-2], 1);
  for (std::size_t e = 0; e < x.size(); ++e) {
    const auto at = static_cast<std::int64_t>(e);
    if (at % columns == at / columns % rows) x[e] += diagonal(at % columns);
  }
  return Tensor::from<double>(x, shape).to(dtype);
}

} // namespace

Tensor sample_matrix(const Shape& shape, DType dtype, std::uint64_t tag) {
  return with_diagonal(shape, dtype, tag, [](std::int64_t) { return 3.0; });
}

Tensor sample_graded(const Shape& shape, DType dtype, std::uint64_t tag) {
  return with_diagonal(shape, dtype, tag, [](std::int64_t j) { return 2.0 * static_cast<double>(j + 1); });
}

Tensor sample_definite(const Shape& shape, DType dtype, std::uint64_t tag) {
  const Tensor x = sample_matrix(shape, DType::f64, tag);
  return ((x + transpose(x)) * 0.5).to(dtype);
}

std::vector<double> looked_at(const Tensor& x) {
  const PauseRecording pause;
  return x.to(DType::f64).to_vector<double>();
}

double noise_of(DType dtype, std::int64_t n) {
  if (dtype == DType::f32) return 4.0 * static_cast<double>(std::numeric_limits<float>::epsilon()); // rounded once
  return 4.0 * static_cast<double>(std::max<std::int64_t>(n, 1)) * std::numeric_limits<double>::epsilon();
}

} // namespace eg::linalg
