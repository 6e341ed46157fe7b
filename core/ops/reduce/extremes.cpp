// Rows of max, min, argmax, argmin and those that give value and place together.

#include "core/ops/list.h"
#include "core/ops/reduce/axes.h"
#include "core/ops/reduce/on_device.h"
#include "core/ops/reduce/rows.h"
#include "core/ops/row_tools.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <type_traits>

namespace eg {
namespace {

reduce::Reduced only(int axis) {
  reduce::Reduced reduced{};
  reduced[static_cast<std::size_t>(axis)] = true;
  return reduced;
}

Shape infer_shape(const OpArgs& args) {
  check_number(args, 0);
  const Shape& shape = args.in[0].shape();
  const int axis = axis_of(args);
  if (shape[axis] == 0)
    throw ShapeError(fmt::format("{}: axis {} has no elements: x is {}", args.op.name, axis, shape.str()));
  return reduce::reduced_shape(shape, only(axis), args.attrs.flag("keepdim"));
}

/// Place of the first of n elements that is `extreme`, or of the first NaN where that is one.
template <class T> std::int64_t place_of(const T* x, std::int64_t n, T extreme) {
  if constexpr (std::is_integral_v<T>) return std::find(x, x + n, extreme) - x;
  const auto is_nan = [](T value) { return value != value; };
  const auto found = is_nan(extreme) ? std::find_if(x, x + n, is_nan) : std::find(x, x + n, extreme);
  return found - x;
}

/// write(row, value, place) for every row of a last axis. The value is that at the first place, also of 0 and -0.
template <bool largest, class T, class Write>
void extremes_of_rows(const T* data, std::int64_t rows, std::int64_t n, Write write) {
  parallel::for_each(rows, std::max<std::int64_t>(1, 16384 / n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* first = data + r * n;
      const std::int64_t place = place_of(first, n, reduce::extreme_of(first, n, largest));
      write(r, first[place], place);
    }
  });
}

/// Columns that are compared side by side.
constexpr std::int64_t columns_at_once = 64;

/// The best of each of at most 64 columns and its first position; a NaN comes before everything.
template <class T> struct BestOfColumns {
  using Place = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>; // as wide, for the sake of vectors
  T value[columns_at_once];
  std::int64_t place[columns_at_once];

  template <bool largest> void find(const T* x, std::int64_t n, std::int64_t stride, std::int64_t columns) {
    constexpr std::int64_t most = std::int64_t{1} << 30; // rows that a Place can count
    std::copy_n(x, columns, value);
    std::fill_n(place, columns, 0);
    for (std::int64_t first = 0; first < n; first += most)
      add_rows<largest>(x + first * stride, first, static_cast<Place>(std::min(most, n - first)), stride, columns);
  }

private:
  template <bool largest>
  void add_rows(const T* x, std::int64_t first, Place rows, std::int64_t stride, std::int64_t columns) {
    Place at[columns_at_once];
    std::fill_n(at, columns, Place{-1});
    for (Place r = 0; r < rows; ++r, x += stride)
      for (std::int64_t c = 0; c < columns; ++c) {
        const T candidate = x[c];
        const bool wins = largest ? candidate > value[c] : candidate < value[c];
        const bool better = wins | ((candidate != candidate) & (value[c] == value[c]));
        value[c] = better ? candidate : value[c];
        at[c] = better ? r : at[c];
      }
    for (std::int64_t c = 0; c < columns; ++c)
      if (at[c] >= 0) place[c] = first + at[c];
  }
};

/// The same for an axis with others behind it: rows are read in place.
template <bool largest, class T, class Write> void extremes_of_columns(const T* data, const AxisSplit& s, Write write) {
  const std::int64_t blocks = parallel::chunks(s.inner, columns_at_once);
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (s.extent * std::min(s.inner, columns_at_once)));
  parallel::for_each(s.outer * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    BestOfColumns<T> best;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t column = i % blocks * columns_at_once;
      const std::int64_t columns = std::min(columns_at_once, s.inner - column);
      best.template find<largest>(data + i / blocks * s.extent * s.inner + column, s.extent, s.inner, columns);
      for (std::int64_t c = 0; c < columns; ++c) write(i / blocks * s.inner + column + c, best.value[c], best.place[c]);
    }
  });
}

/// write(position in the packed output, value, place) for every output element.
template <bool largest, class T, class Write> void for_each_extreme(const Tensor& x, int axis, Write write) {
  const AxisSplit s = split_at(x.shape(), axis);
  if (s.outer * s.inner == 0) return;
  if (s.inner == 1)
    extremes_of_rows<largest>(x.data<T>(), s.outer, s.extent, write);
  else
    extremes_of_columns<largest>(x.data<T>(), s, write);
}

template <bool largest> void value_cpu(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]);
  visit_number(x.dtype(), [&]<class T>() {
    T* y = out[0].mutable_data<T>();
    for_each_extreme<largest, T>(x, axis_of(args), [y](std::int64_t i, T value, std::int64_t) { y[i] = value; });
  });
}

template <bool largest> void place_cpu(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]);
  std::int64_t* y = out[0].mutable_data<std::int64_t>();
  visit_number(x.dtype(), [&]<class T>() {
    for_each_extreme<largest, T>(x, axis_of(args), [y](std::int64_t i, T, std::int64_t place) { y[i] = place; });
  });
}

template <bool largest> void both_cpu(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]);
  std::int64_t* places = out[1].mutable_data<std::int64_t>();
  visit_number(x.dtype(), [&]<class T>() {
    T* y = out[0].mutable_data<T>();
    for_each_extreme<largest, T>(x, axis_of(args), [y, places](std::int64_t i, T value, std::int64_t place) {
      y[i] = value;
      places[i] = place;
    });
  });
}

template <bool largest> void run_on_device(const OpArgs& args, const reduce::DeviceOutputs& out) {
  reduce::run_on_device(args.op.name, largest ? device::ReduceKind::largest : device::ReduceKind::smallest, args.in[0],
                        only(axis_of(args)), out);
}
template <bool largest> void value_on_device(const OpArgs& args, std::span<Tensor> out) {
  if (is_whole(args.in[0].dtype())) return run_on_host(value_cpu<largest>, args, out);
  run_on_device<largest>(args, {out[0], {}, {}});
}
template <bool largest> void place_on_device(const OpArgs& args, std::span<Tensor> out) {
  if (is_whole(args.in[0].dtype())) return run_on_host(place_cpu<largest>, args, out);
  run_on_device<largest>(args, {{}, out[0], {}});
}
template <bool largest> void both_on_device(const OpArgs& args, std::span<Tensor> out) {
  if (is_whole(args.in[0].dtype())) return run_on_host(both_cpu<largest>, args, out);
  run_on_device<largest>(args, {out[0], out[1], {}});
}

std::vector<TensorSpec> infer_value(const OpArgs& args) { return {{infer_shape(args), args.in[0].dtype()}}; }
std::vector<TensorSpec> infer_place(const OpArgs& args) { return {{infer_shape(args), DType::i64}}; }
std::vector<TensorSpec> infer_both(const OpArgs& args) {
  const Shape shape = infer_shape(args);
  return {{shape, args.in[0].dtype()}, {shape, DType::i64}};
}

/// The element at `place` (reduced axis kept as 1) receives the gradient, the others none.
Tensor gradient_at(const VjpArgs& args, const Tensor& place) {
  const Tensor& x = args.in[0];
  const int axis = axis_of(args);
  const Shape kept = reduce::reduced_shape(x.shape(), only(axis), true);
  return scatter_add(Tensor::zeros(x.shape(), x.dtype()), axis, place.reshape(kept), reshape(args.grad[0], kept));
}

template <bool largest> Gradients value_rule(const VjpArgs& args) {
  if (!args.wants(0)) return {Tensor()};
  const int axis = axis_of(args);
  return {gradient_at(args, largest ? argmax(args.in[0], axis, true) : argmin(args.in[0], axis, true))};
}

Gradients both_rule(const VjpArgs& args) {
  if (!args.wants(0) || !args.grad[0].defined()) return {Tensor()};
  return {gradient_at(args, args.out[1])};
}

/// Value and place by plain loops.
template <bool largest> std::vector<Tensor> naive_both(const OpArgs& args) {
  const Tensor x = as_type(args.in[0], DType::f64);
  const AxisSplit s = split_at(x.shape(), axis_of(args));
  Tensor y = reference_output(infer_shape(args));
  Tensor places = Tensor::zeros(infer_shape(args), DType::i64);
  for (std::int64_t o = 0; o < s.outer; ++o)
    for (std::int64_t i = 0; i < s.inner; ++i) {
      const auto value = [&](std::int64_t e) { return values(x)[(o * s.extent + e) * s.inner + i]; };
      std::int64_t place = 0;
      for (std::int64_t e = 1; e < s.extent; ++e)
        if (largest ? value(e) > value(place) : value(e) < value(place)) place = e;
      values(y)[o * s.inner + i] = value(place);
      places.mutable_data<std::int64_t>()[o * s.inner + i] = place;
    }
  return {y, places};
}
template <bool largest> std::vector<Tensor> naive_value(const OpArgs& args) { return {naive_both<largest>(args)[0]}; }
template <bool largest> std::vector<Tensor> naive_place(const OpArgs& args) { return {naive_both<largest>(args)[1]}; }

std::vector<Sample> extreme_samples(DType dtype) {
  const auto axis = [](std::int64_t a, bool keepdim) { return Attrs{{"axis", a}, {"keepdim", keepdim}}; };
  const auto x = [&](const Shape& s, std::uint64_t tag) { return sample_normal(s, dtype, 300 + tag, 2.0); };
  return {{{x({3, 33}, 1)}, axis(-1, false), "rows"},
          {{x({33, 3}, 2)}, axis(0, false), "columns"},
          {{x({3, 4, 5}, 3)}, axis(1, true), "middle axis, kept as 1"},
          {{scattered(x({5, 6}, 4))}, axis(-1, false), "strided"},
          {{x({4, 1}, 5)}, axis(1, false), "axis of one element"},
          {{x({7}, 6)}, axis(0, false), "vector to scalar"},
          {{x({0, 3}, 7)}, axis(1, false), "empty result"},
          {{sample_whole({3, 33}, 308, -5, 6)}, axis(-1, false), "whole numbers, many equal"},
          {{sample_whole({5, 6}, 309, 0, 200).to(DType::u8)}, axis(0, true), "bytes"},
          {{sample_whole({4, 6}, 310, 0, 2).to(DType::boolean)}, axis(1, false), "truth values"}};
}

std::vector<Refusal> extreme_refusals() {
  return {{{Tensor::zeros({2, 3}, DType::bf16)}, {}, "x must be f32, f64, i64, u8 or bool, it is bf16"},
          {{Tensor::zeros({2, 3})}, {{"axis", std::int64_t{2}}}, "axis 2 is outside"},
          {{Tensor::zeros({})}, {}, "axis -1 is named, but the tensor has no axes"},
          {{Tensor::zeros({2, 0})}, {}, "axis 1 has no elements: x is [2, 0]"}};
}

Work extreme_work(const OpArgs& args, std::span<const TensorSpec> out) {
  return {static_cast<double>(args.in[0].numel()), bytes_moved(args, out)};
}

struct SampleAxis {
  int axis;
  bool keepdim;
};
SampleAxis sample_axis(const Sample& sample) {
  return {normalize_axis("max", sample.attrs.integer("axis"), sample.in[0].rank()), sample.attrs.flag("keepdim")};
}

std::vector<Symmetry> value_symmetries(const Sample& sample) {
  const auto [axis, keepdim] = sample_axis(sample);
  return reduce::reduction_symmetries(sample.in[0].shape(), only(axis), keepdim);
}

/// Along the axis itself the places move. Outputs other than the first move like it.
template <int outputs> std::vector<Symmetry> kept_symmetries(const Sample& sample) {
  std::vector<Symmetry> kept;
  for (Symmetry& s : value_symmetries(sample)) {
    if (s.legs.size() < 2) continue;
    for (int o = 1; o < outputs; ++o) s.legs.push_back(out_leg(o, s.legs[1].axis));
    kept.push_back(std::move(s));
  }
  return kept;
}

constexpr AttrSpec axis_attr = attr_int("axis", -1, "axis to reduce; negative ones count from the end");
constexpr AttrSpec keepdim_attr = attr_bool("keepdim", false, "the reduced axis stays, with extent 1");

consteval OpDef value_row(std::string_view name, std::string_view math, KernelFn cpu, KernelFn cuda, VjpFn rule,
                          ReferenceFn naive) {
  return row({.name = name,
              .math = math,
              .inputs = {{"x"}},
              .attributes = {axis_attr, keepdim_attr},
              .infer = infer_value,
              .cpu = cpu,
              .cuda = cuda,
              .cuda_same_bits = true,
              .saves = saves::in(0),
              .vjp = rule,
              .reference = naive,
              .samples = extreme_samples,
              .refuses = extreme_refusals,
              .symmetries = value_symmetries,
              .least_extents = {{"reduced axis", 1, "no elements have no extreme"}},
              .work = extreme_work});
}

consteval OpDef place_row(std::string_view name, std::string_view math, KernelFn cpu, KernelFn cuda,
                          ReferenceFn naive) {
  return row({.name = name,
              .math = math,
              .inputs = {{"x"}},
              .attributes = {axis_attr, keepdim_attr},
              .infer = infer_place,
              .cpu = cpu,
              .cuda = cuda,
              .cuda_same_bits = true,
              .no_gradient = "a place is an integer: it does not change when x changes a little",
              .reference = naive,
              .samples = extreme_samples,
              .refuses = extreme_refusals,
              .symmetries = kept_symmetries<1>,
              .work = extreme_work});
}

consteval OpDef both_row(std::string_view name, std::string_view math, KernelFn cpu, KernelFn cuda, ReferenceFn naive) {
  return row({.name = name,
              .math = math,
              .inputs = {{"x"}},
              .outputs = {"values", "indices"},
              .attributes = {axis_attr, keepdim_attr},
              .infer = infer_both,
              .cpu = cpu,
              .cuda = cuda,
              .cuda_same_bits = true,
              .saves = saves::out(1),
              .vjp = both_rule,
              .reference = naive,
              .samples = extreme_samples,
              .refuses = extreme_refusals,
              .symmetries = kept_symmetries<2>,
              .work = extreme_work});
}

Attrs at(int axis, bool keepdim) { return {{"axis", std::int64_t{axis}}, {"keepdim", keepdim}}; }

ValuesAndIndices pair_of(const OpDef& op, const Tensor& x, int axis, bool keepdim) {
  std::vector<Tensor> out = call(op, {x}, at(axis, keepdim));
  return {std::move(out[0]), std::move(out[1])};
}

} // namespace

constinit const OpDef max_op = value_row("max", "y = largest of x along the axis", value_cpu<true>,
                                         value_on_device<true>, value_rule<true>, naive_value<true>);
constinit const OpDef min_op = value_row("min", "y = smallest of x along the axis", value_cpu<false>,
                                         value_on_device<false>, value_rule<false>, naive_value<false>);
constinit const OpDef argmax_op = place_row("argmax", "y = place of the first largest of x along the axis",
                                            place_cpu<true>, place_on_device<true>, naive_place<true>);
constinit const OpDef argmin_op = place_row("argmin", "y = place of the first smallest of x along the axis",
                                            place_cpu<false>, place_on_device<false>, naive_place<false>);
constinit const OpDef max_with_index_op =
    both_row("max_with_index", "values = largest of x along the axis; indices = its first place", both_cpu<true>,
             both_on_device<true>, naive_both<true>);
constinit const OpDef min_with_index_op =
    both_row("min_with_index", "values = smallest of x along the axis; indices = its first place", both_cpu<false>,
             both_on_device<false>, naive_both<false>);

Tensor max(const Tensor& x, int axis, bool keepdim) { return call1(max_op, {x}, at(axis, keepdim)); }
Tensor min(const Tensor& x, int axis, bool keepdim) { return call1(min_op, {x}, at(axis, keepdim)); }
Tensor argmax(const Tensor& x, int axis, bool keepdim) { return call1(argmax_op, {x}, at(axis, keepdim)); }
Tensor argmin(const Tensor& x, int axis, bool keepdim) { return call1(argmin_op, {x}, at(axis, keepdim)); }

ValuesAndIndices max_with_index(const Tensor& x, int axis, bool keepdim) {
  return pair_of(max_with_index_op, x, axis, keepdim);
}

ValuesAndIndices min_with_index(const Tensor& x, int axis, bool keepdim) {
  return pair_of(min_with_index_op, x, axis, keepdim);
}

} // namespace eg
