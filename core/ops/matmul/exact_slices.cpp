#include "core/ops/matmul/exact_slices.h"

#include "core/exact/exact_grid.h"
#include "core/gemm/gemm_run.h"
#include "core/tensor.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace eg {
namespace {

using exact_slices::Lines;

template <class T> constexpr int slices_of = sizeof(T) == sizeof(float) ? 3 : 4;

// A tile of C at most: its sums stay in the second-level cache, and few rows share what their last slices hold.
constexpr std::int64_t tile_rows = 288;
constexpr std::int64_t tile_columns = 128;

/// for_each over single pieces, or a plain loop where the caller is a thread of one already.
void for_pieces(bool parallel, std::int64_t count, FunctionRef<void(std::int64_t)> body) {
  parallel::for_each(count, parallel ? 1 : count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i);
  });
}

/// x * 2^power without rounding on the way where the result needs none.
double scaled(double x, int power) {
  return power > -1000 && power < 1000 ? x * std::ldexp(1.0, power) : std::ldexp(x, power);
}

/// Inner indices outside of which some lines of a slice are zero; nothing where they are half of all, or more.
using Support = std::optional<std::vector<std::int64_t>>;

/// The lines of one operand, cut into slices: entries in (-1, 1) before scaling back. They are packed along k for A,
/// and across it for B, as products read them fastest.
struct Sliced {
  bool along = true;
  std::int64_t count = 0, k = 0;
  std::int64_t block = 0; // lines of a tile of C
  std::int64_t ld = 0;
  Tensor values;                 // [slices, lines or k, ld] f64
  std::vector<int> exponents;    // line i was divided by 2^exponents[i]
  std::vector<double> factors;   // 2^exponents[i]; 0 where products of two of them may leave the range of double
  std::vector<char> odd;         // line i has entries that are not finite (taken as 0)
  std::vector<Support> supports; // [slices, blocks]
  int slices = 1;                // behind which all are zero
  bool plain = true;             // no line is odd, no factor 0

  std::int64_t blocks() const { return (count + block - 1) / block; }
  std::int64_t slice_size() const { return (along ? count : k) * ld; }
  std::int64_t place(int s, std::int64_t line, std::int64_t p) const {
    return s * slice_size() + (along ? line * ld + p : p * ld + line);
  }
  const double* at(int s, std::int64_t line, std::int64_t p) const { return values.data<double>() + place(s, line, p); }
  const Support& support(int s, std::int64_t line) const {
    return supports[static_cast<std::size_t>(s * blocks() + line / block)];
  }
};

/// Sets exponents, factors and odd of lines [begin, end). Returns whether all are plain.
template <class T> bool measure(const Lines<T>& x, std::int64_t begin, std::int64_t end, Sliced& out) {
  std::vector<exact::Extent> extents(static_cast<std::size_t>(end - begin));
  if (x.step == 1)
    for (std::int64_t i = begin; i < end; ++i)
      extents[static_cast<std::size_t>(i - begin)] = exact::extent_of(x.data + i * x.line, x.k);
  else
    exact::column_extents(x.data + begin * x.line, x.k, x.step, end - begin, extents.data());
  bool plain = true;
  for (std::int64_t i = begin; i < end; ++i) {
    const auto line = static_cast<std::size_t>(i);
    auto [largest, finite] = extents[static_cast<std::size_t>(i - begin)];
    if (!finite) { // the largest that is
      largest = 0.0;
      for (std::int64_t p = 0; p < x.k; ++p)
        if (const double value = std::abs(static_cast<double>(x.data[i * x.line + p * x.step])); std::isfinite(value))
          largest = std::max(largest, value);
    }
    out.odd[line] = finite ? 0 : 1;
    std::frexp(largest, &out.exponents[line]);
    out.factors[line] = std::abs(out.exponents[line]) < 400 ? std::ldexp(1.0, out.exponents[line]) : 0.0;
    plain = plain && finite && out.factors[line] != 0.0;
  }
  return plain;
}

/// Writes the entries of lines [begin, end), each line below 1, where their first slice will be.
template <class T>
void normalise(const Lines<T>& x, std::int64_t begin, std::int64_t end, const Sliced& out, double* first) {
  constexpr std::int64_t few = 16; // lines that are turned together: a cache line of floats
  for (std::int64_t i = begin; i < end; i += few)
    for (std::int64_t p = 0; p < x.k; ++p)
      for (std::int64_t l = i; l < std::min(end, i + few); ++l) {
        const auto line = static_cast<std::size_t>(l);
        auto value = static_cast<double>(x.data[l * x.line + p * x.step]);
        if (out.odd[line] != 0 && !std::isfinite(value)) value = 0.0;
        first[out.place(0, l, p)] =
            out.factors[line] != 0.0 ? value * (1.0 / out.factors[line]) : scaled(value, -out.exponents[line]);
      }
}

/// Cuts lines [begin, end), which are measured.
template <class T>
void cut_lines(const Lines<T>& x, std::int64_t begin, std::int64_t end, bool plain, double* first, Sliced& out) {
  const bool turned = (x.step == 1) != out.along || (x.step != 1 && x.line != 1);
  const bool in_place = turned || !plain; // else from x itself
  if (in_place) normalise(x, begin, end, out, first);
  std::vector<double> factors(static_cast<std::size_t>(end - begin), 1.0);
  for (std::int64_t i = begin; i < end && !in_place; ++i)
    factors[static_cast<std::size_t>(i - begin)] = 1.0 / out.factors[static_cast<std::size_t>(i)];
  exact_slices::Cut cut;
  cut.slices = slices_of<T>;
  cut.bits = exact_slices::bits_for(x.k);
  cut.slice_size = out.slice_size();
  if (!out.along) {
    cut.n = end - begin;
    for (std::int64_t p = 0; p < x.k; ++p) {
      cut.to = first + out.place(0, begin, p);
      if (in_place)
        exact_slices::cut_across(cut, cut.to, factors.data());
      else
        exact_slices::cut_across(cut, x.data + begin * x.line + p * x.step, factors.data());
    }
    return;
  }
  cut.n = x.k;
  for (std::int64_t i = begin; i < end; ++i) {
    cut.to = first + out.place(0, i, 0);
    const double factor = factors[static_cast<std::size_t>(i - begin)];
    if (in_place)
      exact_slices::cut_line(cut, cut.to, factor);
    else
      exact_slices::cut_line(cut, x.data + i * x.line, factor);
  }
}

/// Of lines [begin, end) of slice s.
Support support_of(const Sliced& x, int s, std::int64_t begin, std::int64_t end) {
  const auto most = static_cast<std::size_t>(x.k / 2);
  std::vector<std::int64_t> indices;
  if (!x.along) {
    for (std::int64_t p = 0; p < x.k && indices.size() <= most; ++p) {
      const double* const run = x.at(s, begin, p);
      if (std::any_of(run, run + (end - begin), [](double v) { return v != 0.0; })) indices.push_back(p);
    }
  } else {
    std::vector<char> used(static_cast<std::size_t>(x.k));
    for (std::int64_t i = begin; i < end && indices.size() <= most; ++i) {
      const double* const run = x.at(s, i, 0);
      for (std::int64_t p = 0; p < x.k; ++p)
        if (run[p] != 0.0 && std::exchange(used[static_cast<std::size_t>(p)], char{1}) == 0) indices.push_back(p);
    }
  }
  if (indices.size() > most) return std::nullopt;
  return indices;
}

template <class T> Sliced cut(const Lines<T>& x, bool along, std::int64_t block, bool parallel) {
  constexpr int slices = slices_of<T>;
  Sliced out;
  out.along = along;
  out.count = x.count;
  out.k = x.k;
  out.block = block;
  out.ld = along ? x.k : x.count;
  if (along && out.ld % 512 == 0) out.ld += 8; // lines 4096 bytes apart would displace each other from the cache
  out.values = Tensor::empty({slices, along ? x.count : x.k, out.ld}, DType::f64);
  const auto lines = static_cast<std::size_t>(x.count);
  out.exponents.resize(lines);
  out.factors.resize(lines);
  out.odd.resize(lines);
  const std::int64_t blocks = out.blocks();
  out.supports.resize(static_cast<std::size_t>(slices * blocks));
  double* const first = out.values.mutable_data<double>();
  for_pieces(parallel, blocks, [&](std::int64_t i) {
    const std::int64_t begin = i * block, end = std::min(x.count, begin + block);
    cut_lines(x, begin, end, measure(x, begin, end, out), first, out);
    for (int s = 1; s < slices; ++s)
      out.supports[static_cast<std::size_t>(s * blocks + i)] = support_of(out, s, begin, end);
  });
  for (int s = 1; s < slices; ++s)
    for (std::int64_t i = 0; i < blocks; ++i)
      if (const Support& support = out.supports[static_cast<std::size_t>(s * blocks + i)];
          !support || !support->empty())
        out.slices = s + 1;
  for (std::size_t i = 0; i < lines; ++i)
    if (out.odd[i] != 0 || out.factors[i] == 0.0) out.plain = false;
  return out;
}

/// What IEEE arithmetic gives for row i times column j when one has entries that are not finite.
template <class T> double odd_entry(const Lines<T>& a, std::int64_t i, const Lines<T>& b, std::int64_t j) {
  double total = 0.0;
  for (std::int64_t p = 0; p < a.k; ++p) {
    const double product =
        static_cast<double>(a.data[i * a.line + p * a.step]) * static_cast<double>(b.data[j * b.line + p * b.step]);
    if (!std::isfinite(product)) total += product;
  }
  return std::isnan(total) ? std::numeric_limits<double>::quiet_NaN() : total;
}

/// Rows [tile.row, ...) of slice s of A at the inner `indices`, packed.
std::vector<double> gathered_rows(const Sliced& a, int s, const blas::Tile& tile,
                                  const std::vector<std::int64_t>& indices) {
  std::vector<double> packed;
  packed.reserve(static_cast<std::size_t>(tile.rows) * indices.size());
  for (std::int64_t i = tile.row; i < tile.row + tile.rows; ++i) {
    const double* const from = a.at(s, i, 0);
    for (const std::int64_t p : indices) packed.push_back(from[p]);
  }
  return packed;
}

/// Columns [tile.col, ...) of slice s of B at the inner `indices`, packed.
std::vector<double> gathered_columns(const Sliced& b, int s, const blas::Tile& tile,
                                     const std::vector<std::int64_t>& indices) {
  std::vector<double> packed;
  packed.reserve(static_cast<std::size_t>(tile.cols) * indices.size());
  for (const std::int64_t p : indices)
    packed.insert(packed.end(), b.at(s, tile.col, p), b.at(s, tile.col + tile.cols, p));
  return packed;
}

/// sum = (slice s of the rows of A) times (slice t of the columns of B) + beta sum, for one tile of C. Where one of
/// them is zero at most inner indices, as the last slices of most numbers are, the others alone are multiplied.
void add_slices(const Sliced& a, int s, const Sliced& b, int t, const blas::Tile& tile, double beta, double* sum) {
  const Support &left = a.support(s, tile.row), &right = b.support(t, tile.col);
  const auto product = [&](std::int64_t k, blas::Matrix<double> x, blas::Matrix<double> y) {
    blas::gemm<double>(tile.rows, tile.cols, k, 1.0, x, y, beta, sum, tile.cols);
  };
  if (!left && !right) return product(a.k, {a.at(s, tile.row, 0), a.ld}, {b.at(t, tile.col, 0), b.ld});
  const auto& indices = !right || (left && left->size() < right->size()) ? *left : *right;
  product(std::ssize(indices), {gathered_rows(a, s, tile, indices).data(), std::ssize(indices)},
          {gathered_columns(b, t, tile, indices).data(), tile.cols});
}

/// sum = the products of slices (s, order - s), all exact: one grid holds them.
void sum_order(int order, const Sliced& a, const Sliced& b, const blas::Tile& tile, double* sum) {
  double beta = 0.0;
  for (int s = 0; s < a.slices; ++s) {
    const int t = order - s;
    if (t < 0 || t >= b.slices) continue;
    add_slices(a, s, b, t, tile, beta, sum);
    beta = 1.0;
  }
}

/// One tile of C: its sums of each order, from which the elements are made.
template <class T> class TileOfC {
public:
  TileOfC(const Sliced& a, const Sliced& b, const blas::Tile& tile)
      : a_(a), b_(b), tile_(tile), finest_(std::min(a.slices + b.slices - 2, slices_of<T> - 1)),
        total_(static_cast<std::size_t>(tile.rows * tile.cols)), coarser_(finest_ > 0 ? total_.size() : 0) {}

  /// Writes the elements to c, which has ld columns.
  void write(T* c, std::int64_t ld) {
    sum_order(finest_, a_, b_, tile_, total_.data());
    for (int order = finest_ - 1; order >= 0; --order) {
      sum_order(order, a_, b_, tile_, coarser_.data());
      for (std::size_t i = 0; i < total_.size(); ++i) total_[i] += coarser_[i];
    }
    for (std::int64_t i = 0; i < tile_.rows; ++i) {
      const double* const from = total_.data() + i * tile_.cols;
      T* const to = c + i * ld;
      if (a_.plain && b_.plain)
        for (std::int64_t j = 0; j < tile_.cols; ++j) to[j] = rounded(from[j], i, j);
      else
        for (std::int64_t j = 0; j < tile_.cols; ++j)
          to[j] = static_cast<T>(scaled(from[j], a_.exponents[row(i)] + b_.exponents[column(j)]));
    }
  }

private:
  std::size_t row(std::int64_t i) const { return static_cast<std::size_t>(tile_.row + i); }
  std::size_t column(std::int64_t j) const { return static_cast<std::size_t>(tile_.col + j); }
  T rounded(double sum, std::int64_t i, std::int64_t j) const {
    return static_cast<T>(sum * a_.factors[row(i)] * b_.factors[column(j)]);
  }

  const Sliced& a_;
  const Sliced& b_;
  const blas::Tile tile_;
  const int finest_;
  std::vector<double> total_, coarser_;
};

} // namespace

int exact_slices::bits_for(std::int64_t k) {
  int log_terms = 2;
  while ((std::int64_t{4} << (log_terms - 2)) < 4 * k) ++log_terms;
  return (53 - log_terms) / 2;
}

template <class T> void exact_slices::product(const Lines<T>& rows, const Lines<T>& columns, T* c, bool parallel) {
  const std::int64_t m = rows.count, n = columns.count;
  const Sliced left = cut(rows, true, gemm::even_piece(m, tile_rows, 12), parallel);
  const Sliced right = cut(columns, false, gemm::even_piece(n, tile_columns, 16), parallel);
  for_pieces(parallel, left.blocks() * right.blocks(), [&](std::int64_t at) {
    const std::int64_t row = at / right.blocks() * left.block, column = at % right.blocks() * right.block;
    const blas::Tile tile{row, std::min(left.block, m - row), column, std::min(right.block, n - column)};
    TileOfC<T>(left, right, tile).write(c + row * n + column, n);
    if (left.plain && right.plain) return;
    for (std::int64_t i = row; i < row + tile.rows; ++i)
      for (std::int64_t j = column; j < column + tile.cols; ++j)
        if (left.odd[static_cast<std::size_t>(i)] != 0 || right.odd[static_cast<std::size_t>(j)] != 0)
          if (const double special = odd_entry(rows, i, columns, j); special != 0.0) // NaN too
            c[i * n + j] = static_cast<T>(special);
  });
}

template void exact_slices::product(const Lines<float>&, const Lines<float>&, float*, bool);
template void exact_slices::product(const Lines<double>&, const Lines<double>&, double*, bool);

} // namespace eg
