// Rows of prod and prod_of_others. Nothing is divided: the gradient is right where factors are 0.

#include "core/ops/reduce/products.h"
#include "core/memory/scratch_pool.h"
#include "core/ops/list.h"
#include "core/ops/reduce/groups.h"
#include "core/ops/reduce/on_device.h"
#include "core/ops/reduce/product.h"
#include "core/ops/reduce/scans.h"
#include "core/ops/reduce/whole.h"
#include "core/reduction.h"

#include <array>
#include <fmt/format.h>

namespace eg {
namespace {

using namespace reduce;

template <class T> double product_in_order(const T* x, std::int64_t n) {
  Product p;
  for (std::int64_t i = 0; i < n; ++i) p.times(static_cast<double>(x[i]));
  return p.value();
}

template <class T> double product_of(const T* x, std::int64_t n) {
  const RowProduct p = of_pieces(x, n, row_product<T>, [](const RowProduct* pieces, std::int64_t count) {
    Product product;
    bool normal = true;
    for (std::int64_t i = 0; i < count; ++i) {
      product.times(Product{pieces[i].mantissa, pieces[i].exponent});
      normal = normal && pieces[i].normal;
    }
    return RowProduct{product.mantissa, product.exponent, normal};
  });
  return p.normal ? Product{p.mantissa, p.exponent}.value() : product_in_order(x, n);
}

/// A total order of the numbers, NaN first, -0 before 0.
template <class T> bool is_before(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}

/// By size, so that the product does not depend on the order of the factors.
template <class T> std::vector<T> sorted(const T* x, std::int64_t n) {
  std::vector<T> factors(x, x + n);
  std::sort(factors.begin(), factors.end(), is_before<T>);
  return factors;
}

std::vector<TensorSpec> prod_infer(const OpArgs& args) {
  check_number(args, 0);
  const DType dtype = args.in[0].dtype();
  return {{result_shape(args), is_whole(dtype) ? DType::i64 : dtype}};
}

/// The same of a column, by steps of `stride`.
template <class T> double product_of_column(const T* x, std::int64_t n, std::int64_t stride) {
  Product p;
  for (std::int64_t i = 0; i < n; ++i) p.times(static_cast<double>(x[i * stride]));
  return p.value();
}

template <class T> void products_of_columns(const T* x, const AxisSplit& s, T* y) {
  constexpr std::int64_t width = 1024; // long streams are read ahead best
  for_each_block(s, width, sizeof(T), [&](std::int64_t o, std::int64_t column, std::int64_t columns) {
    std::array<double, width> mantissa;
    std::array<std::int64_t, width> exponent;
    std::array<bool, width> odd; // a column's bits depend on no other
    const T* from = x + o * s.extent * s.inner + column;
    column_products(from, s.extent, s.inner, columns, mantissa.data(), exponent.data(), odd.data());
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto at = static_cast<std::size_t>(c);
      y[o * s.inner + column + c] = static_cast<T>(!odd[at] ? Product{mantissa[at], exponent[at]}.value()
                                                            : product_of_column(from + c, s.extent, s.inner));
    }
  });
}

template <bool exact> void prod_cpu(const OpArgs& args, std::span<Tensor> out) {
  if (is_whole(args.in[0].dtype())) return whole_prod(args, out);
  const std::optional<AxisSplit> split = split_of(args.in[0].shape(), axes_attribute(args));
  if (!exact && split && split->inner > 1 && args.in[0].numel() > 0) {
    const Tensor x = packed(args.in[0]);
    return visit_floating(x.dtype(),
                          [&]<class T>() { products_of_columns(x.data<T>(), *split, out[0].mutable_data<T>()); });
  }
  const Groups groups = groups_of(args.in[0], axes_attribute(args));
  visit_floating(out[0].dtype(), [&]<class T>() {
    T* y = out[0].mutable_data<T>();
    for_each_group<T>(groups, [&](std::int64_t g, const T* x) {
      y[g] = static_cast<T>(exact ? product_in_order(sorted(x, groups.extent).data(), groups.extent)
                                  : product_of(x, groups.extent));
    });
  });
}

void prod_on_device(const OpArgs& args, std::span<Tensor> out) {
  if (is_whole(args.in[0].dtype())) return run_on_host(whole_prod, args, out);
  run_on_device("prod", device::ReduceKind::product, args.in[0], axes_attribute(args), {out[0], {}, {}});
}

/// The reduced axes joined into a last one.
struct Joined {
  std::vector<std::int64_t> order;   ///< kept axes, then reduced ones
  std::vector<std::int64_t> inverse; ///< of order
  Shape permuted;
  Shape shape; ///< kept extents, then the number of factors
  Shape broadcast;
};

Joined joined(const Shape& x, const Reduced& reduced) {
  Joined j;
  for (const bool gone : {false, true})
    for (int axis = 0; axis < x.rank(); ++axis)
      if (reduced[static_cast<std::size_t>(axis)] == gone) j.order.push_back(axis);
  j.inverse.resize(j.order.size());
  for (std::size_t i = 0; i < j.order.size(); ++i)
    j.inverse[static_cast<std::size_t>(j.order[i])] = static_cast<std::int64_t>(i);
  for (const std::int64_t axis : j.order) j.permuted.push_back(x[static_cast<int>(axis)]);
  j.shape = reduced_shape(x, reduced, false);
  j.broadcast = j.shape;
  j.shape.push_back(reduced_count(x, reduced));
  j.broadcast.push_back(1);
  return j;
}

/// prod_of_others(x, axis) * g in one pass, with the bits of both in turn; g is [..., 1, ...].
Tensor scaled_products_of_others(const Tensor& x, int axis, const Tensor& g);

Tensor prod_gradient(const VjpArgs& args) {
  const Reduced reduced = axes_attribute(args);
  if (std::count(reduced.begin(), reduced.end(), true) == 1) {
    const auto axis = static_cast<int>(std::find(reduced.begin(), reduced.end(), true) - reduced.begin());
    const Tensor &x = args.in[0], g = with_kept_axes(args, args.grad[0]);
    if (reduction() != Reduction::exact && may_fuse(std::array{x, g})) return scaled_products_of_others(x, axis, g);
    return mul(prod_of_others(x, axis), g);
  }
  const Joined j = joined(args.in[0].shape(), axes_attribute(args));
  const Tensor others = prod_of_others(reshape(permute_axes(args.in[0], j.order), j.shape), -1);
  const Tensor g = mul(others, reshape(args.grad[0], j.broadcast));
  return permute_axes(reshape(g, j.permuted), j.inverse);
}

std::vector<Sample> prod_samples(DType dtype) {
  std::vector<Sample> list = axes_samples(dtype, 1720, {0.3, 1.0, false});
  Tensor zeros = sample_normal({4, 5}, dtype, 1740);
  visit_floating(dtype, [&]<class T>() {
    T* x = zeros.mutable_data<T>();
    x[2] = x[5] = x[8] = x[10] = x[12] = x[14] = T(0);
  });
  list.push_back({{zeros}, {{"axes", std::vector<std::int64_t>{1}}}, "one, two, three and no zeros"});
  list.push_back({{Tensor::zeros({0, 3}, dtype)}, {{"axes", std::vector<std::int64_t>{0}}}, "of nothing: 1"});
  const std::vector<Sample> whole = whole_axes_samples(1745);
  list.insert(list.end(), whole.begin(), whole.end());
  return list;
}

// --- prod_of_others ---

Reduced only(int axis) {
  Reduced reduced{};
  reduced[static_cast<std::size_t>(axis)] = true;
  return reduced;
}

/// others[i] = product of what comes before and of what comes after i, elements `stride` apart.
template <class T> void others_of(const T* x, std::int64_t n, std::int64_t stride, T* y, Product* before) {
  before[0] = Product();
  for (std::int64_t i = 1; i < n; ++i) {
    before[i] = before[i - 1];
    before[i].times(static_cast<double>(x[(i - 1) * stride]));
  }
  Product after;
  for (std::int64_t i = n - 1; i >= 0; --i) {
    Product p = before[i];
    p.times(after);
    after.times(static_cast<double>(x[i * stride]));
    y[i * stride] = static_cast<T>(p.value());
  }
}

/// `factors`: null, or a number for each line, by which its products are multiplied once they are rounded.
template <class T> void others_of_lines(const T* x, const AxisSplit& s, const T* factors, T* y) {
  constexpr std::int64_t width = 64; // columns of one task
  const bool rows = s.inner == 1;
  const std::int64_t numbers =
      rows ? s.extent + most_lanes : s.extent * (s.inner < scratch_columns ? most_lanes : scratch_columns);
  const std::int64_t tasks = s.outer * parallel::chunks(s.inner, width);
  ScratchPool pool(tasks, static_cast<std::size_t>(numbers) * sizeof(Product));
  for_each_block(s, width, sizeof(T), [&](std::int64_t o, std::int64_t column, std::int64_t columns) {
    const ScratchPool::Buffer buffer = pool.take();
    auto* mantissa = reinterpret_cast<double*>(buffer.data());
    auto* exponent = reinterpret_cast<std::int64_t*>(mantissa + numbers);
    const T* from = x + o * s.extent * s.inner + column;
    T* to = y + o * s.extent * s.inner + column;
    std::array<bool, width> odd; // a column's bits depend on no other
    if (rows)
      odd[0] = !others_of_row(from, s.extent, to, mantissa, exponent);
    else
      others_of_columns(from, s.extent, s.inner, columns, to, mantissa, exponent, odd.data());
    for (std::int64_t c = 0; c < columns; ++c)
      if (odd[static_cast<std::size_t>(c)])
        others_of(from + c, s.extent, s.inner, to + c, reinterpret_cast<Product*>(buffer.data()));
    if (factors == nullptr) return;
    const T* const factor = factors + o * s.inner + column; // the block is in the second cache still
    if (rows)
      for (std::int64_t e = 0; e < s.extent; ++e) to[e] *= *factor;
    else
      for (std::int64_t e = 0; e < s.extent; ++e)
        for (std::int64_t c = 0; c < columns; ++c) to[e * s.inner + c] *= factor[c];
  });
}

Tensor scaled_products_of_others(const Tensor& x, int axis, const Tensor& g) {
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  if (y.numel() == 0) return y;
  const Tensor from = packed(x), factors = packed(g);
  visit_floating(x.dtype(), [&]<class T>() {
    others_of_lines(from.data<T>(), split_at(x.shape(), axis), factors.data<T>(), y.mutable_data<T>());
  });
  return y;
}

/// The same over the sorted factors; equal ones get one value, so that the places do not matter.
template <class T> void others_exactly(const T* x, std::int64_t n, std::vector<double>& others) {
  const std::vector<T> factors = sorted(x, n);
  std::vector<Product> after(factors.size() + 1); // after[i]: factors i, i + 1, ...
  for (std::size_t i = factors.size(); i > 0; --i) {
    after[i - 1] = after[i];
    after[i - 1].times(static_cast<double>(factors[i - 1]));
  }
  std::vector<double> of_rank(factors.size()); // at the first of each run of equals
  Product before;
  for (std::size_t first = 0; first < factors.size();) {
    const auto from = factors.begin() + static_cast<std::ptrdiff_t>(first);
    const auto last =
        static_cast<std::size_t>(std::upper_bound(from, factors.end(), *from, is_before<T>) - factors.begin());
    for (std::size_t i = first + 1; i < last; ++i) before.times(static_cast<double>(*from));
    Product rest = before; // all but one of the run
    rest.times(after[last]);
    of_rank[first] = rest.value();
    before.times(static_cast<double>(*from));
    first = last;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const auto place = std::lower_bound(factors.begin(), factors.end(), x[i], is_before<T>);
    others[static_cast<std::size_t>(i)] = of_rank[static_cast<std::size_t>(place - factors.begin())];
  }
}

template <bool exact> void others_cpu(const OpArgs& args, std::span<Tensor> out) {
  if (out[0].numel() == 0) return; // of which there may be more groups than can be walked
  const int axis = axis_of(args);
  const AxisSplit s = split_at(args.in[0].shape(), axis);
  if (!exact) {
    const Tensor x = packed(args.in[0]);
    return visit_floating(x.dtype(),
                          [&]<class T>() { others_of_lines<T>(x.data<T>(), s, nullptr, out[0].mutable_data<T>()); });
  }
  const Groups groups = groups_of(args.in[0], only(axis));
  visit_floating(out[0].dtype(), [&]<class T>() {
    T* y = out[0].mutable_data<T>();
    for_each_group<T>(groups, [&](std::int64_t g, const T* x) {
      std::vector<double> others(static_cast<std::size_t>(s.extent));
      others_exactly(x, s.extent, others);
      T* to = y + g / s.inner * s.extent * s.inner + g % s.inner;
      for (std::int64_t e = 0; e < s.extent; ++e) to[e * s.inner] = static_cast<T>(others[static_cast<std::size_t>(e)]);
    });
  });
}

/// dx_k = sum over i != k of g_i (product without i and k) = A_k S_k + P_k B_k, with P and S the products before and
/// after k, A_k = x_(k-1) A_(k-1) + g_(k-1) P_(k-1) the share of the i before k, B that of those after it.
Tensor others_gradient(const VjpArgs& args) {
  const Tensor& x = args.in[0];
  const Tensor& g = args.grad[0];
  const int axis = axis_of(args);
  Tensor total;
  for (const bool reverse : {false, true}) {
    const Tensor near = product_before(x, axis, reverse);
    const Tensor far = product_before(x, axis, !reverse);
    const Tensor share =
        linear_scan(shifted_along(x, axis, !reverse), shifted_along(mul(g, near), axis, !reverse), axis, reverse);
    add_term(total, mul(share, far));
  }
  return total;
}

std::vector<Tensor> others_naive(const OpArgs& args) {
  const Tensor& x = args.in[0];
  const AxisSplit s = split_at(x.shape(), axis_of(args));
  Tensor y = reference_output(x.shape());
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::int64_t place = i / s.inner % s.extent;
    values(y)[i] = 1.0;
    for (std::int64_t e = 0; e < s.extent; ++e)
      if (e != place) values(y)[i] *= values(x)[i + (e - place) * s.inner];
  }
  return {y};
}

std::vector<Sample> others_samples(DType dtype) {
  const auto at = [](std::int64_t axis) { return Attrs{{"axis", axis}}; };
  const auto x = [&](const Shape& s, std::uint64_t tag) { return sample_normal(s, dtype, 1760 + tag, 0.3, 1.0); };
  return {{{x({3, 7}, 1)}, at(-1), "rows"},          {{x({33, 3}, 2)}, at(0), "columns"},
          {{x({2, 5, 3}, 3)}, at(1), "middle axis"}, {{scattered(x({5, 6}, 4))}, at(1), "strided"},
          {{x({3, 1}, 5)}, at(1), "no others: 1"},   {{x({3, 0}, 6)}, at(1), "no factors"}};
}

/// The others' product moves with the axis as well, but its rule adds along the axis by scans, whose bits depend on the
/// order: only the axes beside it are promised.
std::vector<Symmetry> others_symmetries(const Sample& sample) {
  const Shape& shape = sample.in[0].shape();
  const int along = normalize_axis("axis", sample.attrs.integer("axis"), shape.rank());
  std::vector<Symmetry> list;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (axis != along && shape[axis] >= 2)
      list.push_back(
          {.name = fmt::format("kept axis {}", axis), .legs = {in_leg(0, axis), out_leg(0, axis)}, .bit_exact = true});
  return list;
}

} // namespace

constinit const OpDef prod_op = row({
    .name = "prod",
    .math = "y = product of x over the axes",
    .inputs = {{"x"}},
    .attributes = {axes_spec, keepdim_spec},
    .infer = prod_infer,
    .cpu = prod_cpu<false>,
    .exact = prod_cpu<true>,
    .cuda = prod_on_device,
    .saves = saves::in(0),
    .vjp = [](const VjpArgs& args) -> Gradients {
      if (!args.wants(0)) return {Tensor()};
      return {prod_gradient(args)};
    },
    .reference = [](const OpArgs& args) -> std::vector<Tensor> {
      Tensor y = reference_output(result_shape(args));
      for_each_naive_group(args, [&](std::int64_t g, const std::vector<double>& x) {
        values(y)[g] = 1.0;
        for (const double value : x) values(y)[g] *= value;
      });
      return {y};
    },
    .samples = prod_samples,
    .refuses = axes_number_refusals,
    .symmetries = axes_symmetries,
    .work = group_work<1>,
});

constinit const OpDef prod_of_others_op = row({
    .name = "prod_of_others",
    .math = "y_i = product of x_j over j != i along the axis",
    .inputs = {{"x"}},
    .attributes = {attr_int("axis", -1, "axis of the factors; negative ones count from the end")},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      axis_of(args);
      return same_shape_as_first(args);
    },
    .cpu = others_cpu<false>,
    .exact = others_cpu<true>,
    .cuda =
        [](const OpArgs& args, std::span<Tensor> out) {
          const std::int64_t words = 2 * args.in[0].numel(); // a double and an exponent for each element
          const Tensor before = Tensor::empty({words}, DType::f64);
          scan_on_device(args, device::ScanKind::others, false, {args.in[0], {}, out[0], before});
        },
    .saves = saves::in(0),
    .vjp = [](const VjpArgs& args) -> Gradients {
      if (!args.wants(0)) return {Tensor()};
      return {others_gradient(args)};
    },
    .reference = others_naive,
    .samples = others_samples,
    .refuses = []() -> std::vector<Refusal> {
      return {{{Tensor::zeros({2, 3}, DType::i64)}, {}, "x must be f32 or f64, it is i64"},
              {{Tensor::zeros({2, 3})}, {{"axis", std::int64_t{2}}}, "axis 2 is outside"},
              {{Tensor::zeros({})}, {}, "axis -1 is named, but the tensor has no axes"}};
    },
    .symmetries = others_symmetries,
    .work = elementwise_work<3>,
});

Tensor prod(const Tensor& x, const std::vector<std::int64_t>& axes, bool keepdim) {
  return call1(prod_op, {x}, {{"axes", axes}, {"keepdim", keepdim}});
}

Tensor prod_of_others(const Tensor& x, int axis) {
  return call1(prod_of_others_op, {x}, {{"axis", std::int64_t{axis}}});
}

} // namespace eg
