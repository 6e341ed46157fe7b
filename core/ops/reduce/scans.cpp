// Rows of cumsum, cumprod and linear_scan: each element from its neighbour along one axis. Derivatives of scans are
// scans in the other direction, so that these three are closed under differentiation.

#include "core/ops/reduce/scans.h"
#include "core/device/module.h"
#include "core/ops/list.h"
#include "core/ops/reduce/scan_rows.h"
#include "core/ops/row_tools.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <fmt/format.h>

namespace eg {

void scan_on_device(const OpArgs& args, device::ScanKind kind, bool reverse, ScanOperands operands) {
  if (operands.y.numel() == 0) return;
  const Tensor x = packed(operands.x);
  const Tensor b = operands.b.defined() ? packed(operands.b) : Tensor{};
  const AxisSplit s = split_at(x.shape(), axis_of(args));
  device::ScanJob job{};
  job.kind = kind;
  job.type = x.dtype();
  job.reverse = reverse;
  job.x = x.device_bytes();
  job.b = b.defined() ? b.device_bytes() : nullptr;
  job.y = operands.y.mutable_device_bytes(args.op.name.data());
  job.scratch = operands.scratch.defined() ? operands.scratch.mutable_device_bytes(args.op.name.data()) : nullptr;
  job.outer = s.outer;
  job.extent = s.extent;
  job.inner = s.inner;
  device::launch(x.device(), args.op.name.data(), &device::Table::scan, job);
}

Tensor shifted_along(const Tensor& x, int axis, bool towards_end) {
  const std::int64_t n = x.size(axis);
  if (n == 0) return x;
  return towards_end ? pad(slice(x, axis, 0, n - 1), axis, 1, 0) : pad(slice(x, axis, 1, n), axis, 0, 1);
}

namespace {

/// y[i] = state = step(i, state) along `columns` neighbouring lines of n elements, `stride` apart; the first element
/// gets first(i). `begin`: the place of the first line's first element in memory.
template <class State, int width, class T, class First, class Step>
void scan_columns(std::int64_t begin, std::int64_t n, std::int64_t stride, std::int64_t columns, bool reverse, T* y,
                  const First& first, const Step& step) {
  std::array<State, width> state{};
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t at = begin + (reverse ? n - 1 - k : k) * stride;
    for (std::int64_t j = 0; j < (width == 1 ? 1 : columns); ++j) {
      State& z = state[static_cast<std::size_t>(j)];
      z = k == 0 ? first(at + j) : step(at + j, z);
      y[at + j] = static_cast<T>(z);
    }
  }
}

/// The same along every line.
template <class State, class T, class First, class Step>
void scan_lines(const AxisSplit& s, bool reverse, T* y, const First& first, const Step& step) {
  constexpr std::int64_t width = 64;
  if (s.outer * s.extent * s.inner == 0) return;
  const std::int64_t bytes = s.extent * std::min(width, s.inner) * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t blocks = parallel::chunks(s.inner, width);
  const auto scan = s.inner == 1 ? scan_columns<State, 1, T, First, Step> // its state stays in a register
                                 : scan_columns<State, width, T, First, Step>;
  parallel::for_each(s.outer * blocks, parallel::grain_for_bytes(bytes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t column = task % blocks * width;
      scan(task / blocks * s.extent * s.inner + column, s.extent, s.inner, std::min(width, s.inner - column), reverse,
           y, first, step);
    }
  });
}

/// scan_lines, or several rows at a time: the same bits.
template <class T, class First, class Step>
void floating_scan(reduce::Scan scan, const AxisSplit& s, bool reverse, const T* a, const T* b, T* y,
                   const First& first, const Step& step) {
  constexpr std::int64_t several = reduce::rows_of_scan;
  const std::int64_t rows = s.inner == 1 && s.extent > 0 ? s.outer / several * several : 0;
  const std::int64_t bytes = several * s.extent * static_cast<std::int64_t>(sizeof(T));
  parallel::for_each(rows / several, parallel::grain_for_bytes(bytes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t at = i * several * s.extent;
      reduce::scan_rows(scan, a + at, b != nullptr ? b + at : nullptr, s.extent, reverse, y + at);
    }
  });
  const std::int64_t done = rows * s.extent;
  scan_lines<double>(
      {s.outer - rows, s.extent, s.inner}, reverse, y + done, [&](std::int64_t i) { return first(done + i); },
      [&](std::int64_t i, double z) { return step(done + i, z); });
}

// --- cumsum ---

std::vector<TensorSpec> cumsum_infer(const OpArgs& args) {
  const DType dtype = args.in[0].dtype();
  check_number(args, 0);
  axis_of(args);
  return {{args.in[0].shape(), is_whole(dtype) ? DType::i64 : dtype}};
}

/// In 128 bits, which no line of numbers of 64 leaves.
void whole_cumsum(const OpArgs& args, std::span<Tensor> out) {
  __extension__ using Wide = __int128;
  const Tensor x = packed(as_type(args.in[0], DType::i64));
  const std::int64_t* from = x.numel() > 0 ? x.data<std::int64_t>() : nullptr;
  std::atomic<bool> all = true;
  const auto held = [&](Wide sum) {
    if (sum != static_cast<std::int64_t>(sum)) all = false;
    return sum;
  };
  scan_lines<Wide>(
      split_at(x.shape(), axis_of(args)), args.attrs.flag("reverse"), out[0].mutable_data<std::int64_t>(),
      [from](std::int64_t i) { return static_cast<Wide>(from[i]); },
      [from, &held](std::int64_t i, Wide sum) { return held(sum + from[i]); });
  if (!all) throw ValueError("cumsum: a sum is beyond integers of 64 bits; convert x with to(\"f64\")");
}

void cumsum_cpu(const OpArgs& args, std::span<Tensor> out) {
  if (is_whole(args.in[0].dtype())) return whole_cumsum(args, out);
  const Tensor x = packed(args.in[0]);
  const AxisSplit s = split_at(x.shape(), axis_of(args));
  if (x.numel() == 0) return;
  visit_floating(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    const auto read = [from](std::int64_t i) { return static_cast<double>(from[i]); };
    floating_scan<T>(reduce::Scan::sum, s, args.attrs.flag("reverse"), from, nullptr, out[0].mutable_data<T>(), read,
                     [read](std::int64_t i, double z) { return z + read(i); });
  });
}

/// Every place along a line by a sum or product of its own.
template <bool product> std::vector<Tensor> naive(const OpArgs& args) {
  const Tensor x = is_whole(args.in[0].dtype()) ? as_type(args.in[0], DType::i64) : args.in[0];
  const AxisSplit s = split_at(x.shape(), axis_of(args));
  const bool reverse = !product && args.attrs.flag("reverse");
  Tensor y = Tensor::zeros(x.shape(), is_whole(x.dtype()) ? DType::i64 : x.dtype());
  visit_dtype(y.dtype(), [&]<class T>() {
    T* to = y.mutable_data<T>();
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const std::int64_t place = i / s.inner % s.extent;
      double total = product ? 1.0 : 0.0;
      for (std::int64_t e = reverse ? place : 0; e < (reverse ? s.extent : place + 1); ++e) {
        const auto value = static_cast<double>(x.data<T>()[i + (e - place) * s.inner]);
        total = product ? total * value : total + value;
      }
      to[i] = static_cast<T>(total);
    }
  });
  return {y};
}

std::vector<Sample> axis_samples(DType dtype, std::uint64_t tag, double scale, double mean) {
  const auto at = [](std::int64_t axis) { return Attrs{{"axis", axis}}; };
  const auto x = [&](const Shape& s, std::uint64_t number) {
    return sample_normal(s, dtype, tag + number, scale, mean);
  };
  return {{{x({3, 33}, 1)}, at(-1), "rows"},
          {{x({7, 65}, 2)}, at(0), "columns"},
          {{x({2, 5, 3}, 3)}, at(1), "middle axis"},
          {{scattered(x({5, 6}, 4))}, at(1), "strided"},
          {{x({4, 1}, 5)}, at(1), "axis of one element"},
          {{x({0, 3}, 6)}, at(1), "no lines"},
          {{x({3, 0}, 7)}, at(1), "empty lines"}};
}

std::vector<Sample> cumsum_samples(DType dtype) {
  std::vector<Sample> list = axis_samples(dtype, 1600, 1.0, 0.2);
  for (Sample s : axis_samples(dtype, 1620, 1.0, 0.2)) {
    s.attrs.set("reverse", true);
    list.push_back(s);
  }
  list.push_back({{Tensor::from<std::int64_t>({1, -4, 2, 7, 0, 5}, {2, 3})}, {{"axis", std::int64_t{1}}}, "integers"});
  list.push_back({{sample_whole({7, 5}, 1639, 0, 2).to(DType::boolean)}, {{"axis", std::int64_t{0}}}, "truth values"});
  return list;
}

/// The lines are independent: axes of input 0 other than `axis`, in every input.
template <int inputs> std::vector<Symmetry> line_symmetries(const Sample& sample) {
  const Shape& shape = sample.in[0].shape();
  const int along = normalize_axis("axis", sample.attrs.integer("axis"), shape.rank());
  std::vector<Symmetry> list;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis == along || shape[axis] < 2) continue;
    Symmetry symmetry{.name = fmt::format("kept axis {}", axis), .legs = {out_leg(0, axis)}, .bit_exact = true};
    for (int i = 0; i < inputs; ++i) symmetry.legs.push_back(in_leg(i, axis));
    list.push_back(std::move(symmetry));
  }
  return list;
}

std::vector<Refusal> axis_refusals(const char* words, DType refused = DType::boolean) {
  return {{{Tensor::zeros({2, 3}, refused)}, {{"axis", std::int64_t{0}}}, words},
          {{Tensor::zeros({2, 3})}, {{"axis", std::int64_t{2}}}, "axis 2 is outside"},
          {{Tensor::zeros({2, 3})}, {}, "attribute 'axis' must be given"}};
}

constexpr AttrSpec axis_spec = required_attr("axis", AttrKind::integer, "axis to run along; negative from the end");

// --- cumprod ---

/// dx_k = y_(k-1) r_k with y_(-1) = 1 and r_k = g_k + x_(k+1) r_(k+1): no division, so zeros need no special case.
Tensor cumprod_gradient(const VjpArgs& args) {
  const Tensor& x = args.in[0];
  const int axis = axis_of(args);
  const Tensor rest = linear_scan(shifted_along(x, axis, false), args.grad[0], axis, true);
  if (x.numel() == 0) return rest;
  return mul(pad(slice(args.out[0], axis, 0, x.size(axis) - 1), axis, 1, 0, 1.0), rest);
}

// --- linear_scan ---

void linear_cpu(const OpArgs& args, std::span<Tensor> out) {
  const Tensor a = packed(args.in[0]);
  const Tensor b = packed(args.in[1]);
  const AxisSplit s = split_at(a.shape(), axis_of(args));
  if (a.numel() == 0) return;
  visit_floating(a.dtype(), [&]<class T>() {
    const T* factor = a.data<T>();
    const T* term = b.data<T>();
    floating_scan<T>(
        reduce::Scan::linear, s, args.attrs.flag("reverse"), factor, term, out[0].mutable_data<T>(),
        [term](std::int64_t i) { return static_cast<double>(term[i]); },
        [factor, term](std::int64_t i, double z) {
          return static_cast<double>(factor[i]) * z + static_cast<double>(term[i]);
        });
  });
}

/// db_k = g_k + a_(k+1) db_(k+1), da_k = db_k y_(k-1): the scan in the other direction.
Gradients linear_rule(const VjpArgs& args) {
  const int axis = axis_of(args);
  const bool reverse = args.attrs.flag("reverse");
  Gradients grads(2);
  const Tensor db = linear_scan(shifted_along(args.in[0], axis, reverse), args.grad[0], axis, !reverse);
  if (args.wants(0)) grads[0] = mul(db, shifted_along(args.out[0], axis, !reverse));
  if (args.wants(1)) grads[1] = db;
  return grads;
}

std::vector<Tensor> linear_naive(const OpArgs& args) {
  const Tensor& a = args.in[0];
  const AxisSplit s = split_at(a.shape(), axis_of(args));
  const bool reverse = args.attrs.flag("reverse");
  Tensor y = reference_output(a.shape());
  for (std::int64_t line = 0; line < s.outer * s.inner; ++line)
    for (std::int64_t k = 0; k < s.extent; ++k) {
      const std::int64_t e = reverse ? s.extent - 1 - k : k;
      const std::int64_t i = (line / s.inner * s.extent + e) * s.inner + line % s.inner;
      const std::int64_t before = i + (reverse ? s.inner : -s.inner);
      values(y)[i] = values(args.in[1])[i] + (k == 0 ? 0.0 : values(a)[i] * values(y)[before]);
    }
  return {y};
}

std::vector<Sample> linear_samples(DType dtype) {
  std::vector<Sample> list;
  for (const bool reverse : {false, true})
    for (Sample s : axis_samples(dtype, reverse ? 1660 : 1640, 0.5, 0.3)) {
      s.in.push_back(sample_normal(s.in[0].shape(), dtype, 1680 + list.size()));
      s.attrs.set("reverse", reverse);
      list.push_back(s);
    }
  return list;
}

std::vector<Refusal> linear_refusals() {
  const Tensor x = Tensor::zeros({2, 3});
  return {{{x, Tensor::zeros({3, 2})}, {}, "shapes differ: a is [2, 3], b is [3, 2]"},
          {{x, x}, {{"axis", std::int64_t{-3}}}, "axis -3 is outside"},
          {{x, Tensor::zeros({2, 3}, DType::i64)}, {}, "b must be f32 or f64, it is i64"}};
}

} // namespace

Tensor product_before(const Tensor& x, int axis, bool reverse) {
  const std::int64_t n = x.size(axis);
  if (n == 0) return x;
  Shape one = x.shape();
  one[axis] = 1;
  const Tensor start =
      reverse ? pad(Tensor::ones(one, x.dtype()), axis, n - 1, 0) : pad(Tensor::ones(one, x.dtype()), axis, 0, n - 1);
  return linear_scan(shifted_along(x, axis, !reverse), start, axis, reverse);
}

constinit const OpDef cumsum_op = row({
    .name = "cumsum",
    .math = "y_k = x_0 + ... + x_k along the axis; reverse: x_k + ... + x_last",
    .inputs = {{"x"}},
    .attributes = {axis_spec, attr_bool("reverse", false, "sums from the end")},
    .infer = cumsum_infer,
    .cpu = cumsum_cpu,
    .cuda =
        [](const OpArgs& args, std::span<Tensor> out) {
          if (is_whole(args.in[0].dtype())) return run_on_host(whole_cumsum, args, out);
          scan_on_device(args, device::ScanKind::sum, args.attrs.flag("reverse"), {args.in[0], {}, out[0], {}});
        },
    .cuda_same_bits = true,
    .vjp = [](const VjpArgs& args) -> Gradients {
      if (!args.wants(0)) return {Tensor()};
      return {cumsum(args.grad[0], axis_of(args), !args.attrs.flag("reverse"))};
    },
    .reference = naive<false>,
    .samples = cumsum_samples,
    .refuses = [] { return axis_refusals("x must be f32, f64, i64, u8 or bool, it is bf16", DType::bf16); },
    .symmetries = line_symmetries<1>,
    .work = elementwise_work<1>,
});

constinit const OpDef cumprod_op = row({
    .name = "cumprod",
    .math = "y_k = x_0 x_1 ... x_k along the axis",
    .inputs = {{"x"}},
    .attributes = {axis_spec},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      axis_of(args);
      return same_shape_as_first(args);
    },
    .cpu =
        [](const OpArgs& args, std::span<Tensor> out) {
          const Tensor x = packed(args.in[0]);
          if (x.numel() == 0) return;
          visit_floating(x.dtype(), [&]<class T>() {
            const T* from = x.data<T>();
            const auto read = [from](std::int64_t i) { return static_cast<double>(from[i]); };
            floating_scan<T>(reduce::Scan::product, split_at(x.shape(), axis_of(args)), false, from, nullptr,
                             out[0].mutable_data<T>(), read, [read](std::int64_t i, double z) { return z * read(i); });
          });
        },
    .cuda =
        [](const OpArgs& args, std::span<Tensor> out) {
          scan_on_device(args, device::ScanKind::product, false, {args.in[0], {}, out[0], {}});
        },
    .cuda_same_bits = true,
    .saves = saves::in(0) | saves::out(0),
    .vjp = [](const VjpArgs& args) -> Gradients {
      if (!args.wants(0)) return {Tensor()};
      return {cumprod_gradient(args)};
    },
    .reference = naive<true>,
    .samples = [](DType dtype) { return axis_samples(dtype, 1700, 0.3, 0.9); },
    .refuses = [] { return axis_refusals("x must be f32 or f64, it is bool"); },
    .symmetries = line_symmetries<1>,
    .work = elementwise_work<1>,
});

constinit const OpDef linear_scan_op = row({
    .name = "linear_scan",
    .math = "y_k = a_k y_(k-1) + b_k along the axis, y_(-1) = 0; reverse: from the end",
    .inputs = {{"a"}, {"b"}},
    .attributes = {attr_int("axis", -1, "axis to run along; negative from the end"),
                   attr_bool("reverse", false, "runs from the end")},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      axis_of(args);
      return same_shape_everywhere(args);
    },
    .cpu = linear_cpu,
    .cuda =
        [](const OpArgs& args, std::span<Tensor> out) {
          scan_on_device(args, device::ScanKind::linear, args.attrs.flag("reverse"),
                         {args.in[0], args.in[1], out[0], {}});
        },
    .cuda_same_bits = true,
    .saves = saves::in(0) | saves::out(0),
    .vjp = linear_rule,
    .reference = linear_naive,
    .samples = linear_samples,
    .refuses = linear_refusals,
    .symmetries = line_symmetries<2>,
    .work = elementwise_work<2>,
});

Tensor cumsum(const Tensor& x, int axis, bool reverse) {
  return call1(cumsum_op, {x}, {{"axis", std::int64_t{axis}}, {"reverse", reverse}});
}

Tensor cumprod(const Tensor& x, int axis) { return call1(cumprod_op, {x}, {{"axis", std::int64_t{axis}}}); }

Tensor linear_scan(const Tensor& a, const Tensor& b, int axis, bool reverse) {
  return call1(linear_scan_op, {a, b}, {{"axis", std::int64_t{axis}}, {"reverse", reverse}});
}

} // namespace eg
