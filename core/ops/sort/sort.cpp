// Rows of sort and argsort: stable, NaN larger than everything.

#include "core/device/module.h"
#include "core/ops/list.h"
#include "core/ops/sort/order.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg {

namespace sorting {

void sort_on_device(const OpArgs& args, std::int64_t k, bool descending, bool by_place, Tensor values, Tensor places) {
  if (places.numel() == 0) return;
  const Tensor x = packed(args.in[0]);
  const AxisSplit s = split_at(x.shape(), axis_of(args));
  const std::size_t item = item_bytes(size_of(x.dtype()), s.extent);
  const std::int64_t lines = s.outer * s.inner;
  Tensor items = Tensor::empty({lines * device::sorted_line(s.extent) * static_cast<std::int64_t>(item)}, DType::u8);
  const char* const name = args.op.name.data();
  const device::SortJob job{x.dtype(),
                            x.device_bytes(),
                            values.defined() ? values.mutable_device_bytes(name) : nullptr,
                            reinterpret_cast<std::int64_t*>(places.mutable_device_bytes(name)),
                            s.outer,
                            s.extent,
                            s.inner,
                            k,
                            descending,
                            by_place,
                            items.mutable_device_bytes(),
                            item};
  device::launch(x.device(), name, &device::Table::sort, job);
}

Gradients scattered_back(const VjpArgs& args) {
  if (!args.wants(0) || !args.grad[0].defined()) return {Tensor()};
  const Tensor& x = args.in[0];
  return {scatter_add(Tensor::zeros(x.shape(), x.dtype()), axis_of(args), args.out[1], args.grad[0])};
}

std::vector<Symmetry> line_symmetries(const Sample& sample, int outputs) {
  const Shape& shape = sample.in[0].shape();
  const int along = normalize_axis("axis", sample.attrs.has("axis") ? sample.attrs.integer("axis") : -1, shape.rank());
  std::vector<Symmetry> list;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis == along || shape[axis] < 2) continue;
    Symmetry symmetry{.name = fmt::format("kept axis {}", axis), .legs = {in_leg(0, axis)}, .bit_exact = true};
    for (int o = 0; o < outputs; ++o) symmetry.legs.push_back(out_leg(o, axis));
    list.push_back(std::move(symmetry));
  }
  return list;
}

} // namespace sorting

namespace {

using namespace sorting;

std::vector<TensorSpec> sort_infer(const OpArgs& args) {
  check_number(args, 0);
  axis_of(args);
  return {{args.in[0].shape(), args.in[0].dtype()}, {args.in[0].shape(), DType::i64}};
}

std::vector<TensorSpec> argsort_infer(const OpArgs& args) { return {sort_infer(args)[1]}; }

/// write(place in the packed output, element, its place in the line).
template <class T, class Write> void sort_lines(const OpArgs& args, const Write& write) {
  const AxisSplit s = split_at(args.in[0].shape(), axis_of(args));
  const auto sort_line = [&](std::int64_t l, const T* first, auto& items, auto& spare) {
    sort_items(items, spare, static_cast<int>(sizeof(T)));
    std::int64_t at = l / s.inner * s.extent * s.inner + l % s.inner;
    for (const auto& item : items) {
      write(at, first[item.place() * s.inner], item.place());
      at += s.inner;
    }
  };
  for_each_line<T>(args.in[0], s, args.attrs.flag("descending"), sort_line);
}

void sort_cpu(const OpArgs& args, std::span<Tensor> out) {
  std::int64_t* indices = out[1].mutable_data<std::int64_t>();
  visit_number(out[0].dtype(), [&]<class T>() {
    T* y = out[0].mutable_data<T>();
    sort_lines<T>(args, [=](std::int64_t at, T value, std::int64_t place) {
      y[at] = value;
      indices[at] = place;
    });
  });
}

void argsort_cpu(const OpArgs& args, std::span<Tensor> out) {
  std::int64_t* indices = out[0].mutable_data<std::int64_t>();
  visit_number(args.in[0].dtype(), [&]<class T>() {
    sort_lines<T>(args, [=](std::int64_t at, T, std::int64_t place) { indices[at] = place; });
  });
}

void sort_cuda(const OpArgs& args, std::span<Tensor> out) {
  if (is_whole(args.in[0].dtype())) return run_on_host(sort_cpu, args, out);
  sort_on_device(args, args.in[0].shape()[axis_of(args)], args.attrs.flag("descending"), false, out[0], out[1]);
}

void argsort_cuda(const OpArgs& args, std::span<Tensor> out) {
  if (is_whole(args.in[0].dtype())) return run_on_host(argsort_cpu, args, out);
  sort_on_device(args, args.in[0].shape()[axis_of(args)], args.attrs.flag("descending"), false, {}, out[0]);
}

/// An element's rank is the number of those before it: smaller ones, and equal ones at earlier places.
std::vector<Tensor> naive(const OpArgs& args) {
  const Tensor x = as_type(args.in[0], DType::f64);
  const AxisSplit s = split_at(x.shape(), axis_of(args));
  const double sign = args.attrs.flag("descending") ? -1.0 : 1.0;
  Tensor y = reference_output(x.shape());
  Tensor indices = Tensor::zeros(x.shape(), DType::i64);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::int64_t place = i / s.inner % s.extent;
    const std::int64_t first = i - place * s.inner;
    std::int64_t rank = 0;
    for (std::int64_t e = 0; e < s.extent; ++e) {
      const double gap = sign * (values(x)[first + e * s.inner] - values(x)[i]);
      if (gap < 0 || (gap == 0 && e < place)) ++rank;
    }
    values(y)[first + rank * s.inner] = values(x)[i];
    indices.mutable_data<std::int64_t>()[first + rank * s.inner] = place;
  }
  return {y, indices};
}

std::vector<Sample> samples(DType dtype) {
  const auto at = [](std::int64_t axis, bool descending) { return Attrs{{"axis", axis}, {"descending", descending}}; };
  const auto x = [&](const Shape& s, std::uint64_t tag) { return sample_normal(s, dtype, 1800 + tag, 2.0); };
  return {{{x({3, 33}, 1)}, {}, "rows"},
          {{x({7, 3}, 2)}, at(0, true), "columns, descending"},
          {{x({2, 5, 3}, 3)}, at(1, false), "middle axis"},
          {{scattered(x({5, 6}, 4))}, at(-1, true), "strided"},
          {{x({65}, 5)}, at(0, false), "a vector"},
          {{x({4, 1}, 6)}, at(1, false), "axis of one element"},
          {{x({0, 3}, 7)}, at(1, false), "no lines"},
          {{sample_whole({3, 33}, 1808, -5, 6)}, {}, "whole numbers, many equal"},
          {{sample_whole({40, 2}, 1809, 0, 200).to(DType::u8)}, at(0, true), "bytes, descending"},
          {{sample_whole({4, 6}, 1810, 0, 2).to(DType::boolean)}, at(1, false), "truth values"}};
}

std::vector<Refusal> refuses() {
  return {{{Tensor::zeros({2, 3}, DType::bf16)}, {}, "x must be f32, f64, i64, u8 or bool, it is bf16"},
          {{Tensor::zeros({2, 3})}, {{"axis", std::int64_t{2}}}, "axis 2 is outside"},
          {{Tensor::zeros({})}, {}, "axis -1 is named, but the tensor has no axes"}};
}

/// Comparisons: n log2 n along each line.
Work work(const OpArgs& args, std::span<const TensorSpec> out) {
  const auto n = static_cast<double>(args.in[0].numel());
  const auto extent = static_cast<double>(args.in[0].shape()[axis_of(args)]);
  return {n * std::max(1.0, std::log2(std::max(1.0, extent))), bytes_moved(args, out)};
}

constexpr AttrSpec axis_spec = attr_int("axis", -1, "axis to sort along; negative ones count from the end");
constexpr AttrSpec descending_spec = attr_bool("descending", false, "largest first");

} // namespace

constinit const OpDef sort_op = row({
    .name = "sort",
    .math = "values = x in order along the axis, equals as they stood, NaN largest; indices = where they stood",
    .inputs = {{"x"}},
    .outputs = {"values", "indices"},
    .attributes = {axis_spec, descending_spec},
    .infer = sort_infer,
    .cpu = sort_cpu,
    .cuda = sort_cuda,
    .cuda_same_bits = true,
    .saves = saves::out(1),
    .vjp = scattered_back,
    .reference = naive,
    .samples = samples,
    .refuses = refuses,
    .symmetries = [](const Sample& s) { return line_symmetries(s, 2); },
    .work = work,
});

constinit const OpDef argsort_op = row({
    .name = "argsort",
    .math = "y = places of x's elements in order along the axis, equals as they stood, NaN largest",
    .inputs = {{"x"}},
    .attributes = {axis_spec, descending_spec},
    .infer = argsort_infer,
    .cpu = argsort_cpu,
    .cuda = argsort_cuda,
    .cuda_same_bits = true,
    .no_gradient = "a place is an integer: it does not change when x changes a little",
    .reference = [](const OpArgs& args) -> std::vector<Tensor> { return {naive(args)[1]}; },
    .samples = samples,
    .refuses = refuses,
    .symmetries = [](const Sample& s) { return line_symmetries(s, 1); },
    .work = work,
});

ValuesAndIndices sort(const Tensor& x, int axis, bool descending) {
  std::vector<Tensor> out = call(sort_op, {x}, {{"axis", std::int64_t{axis}}, {"descending", descending}});
  return {std::move(out[0]), std::move(out[1])};
}

Tensor argsort(const Tensor& x, int axis, bool descending) {
  return call1(argsort_op, {x}, {{"axis", std::int64_t{axis}}, {"descending", descending}});
}

} // namespace eg
