// Row of topk: the k largest or smallest along one axis.

#include "core/ops/list.h"
#include "core/ops/sort/order.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg {
namespace {

using namespace sorting;

std::vector<TensorSpec> infer(const OpArgs& args) {
  check_number(args, 0);
  const int axis = axis_of(args);
  Shape shape = args.in[0].shape();
  const std::int64_t k = args.attrs.integer("k");
  if (k < 0 || k > shape[axis])
    throw ValueError(fmt::format("topk: k is {}; axis {} has {} elements: x is {}", k, axis, shape[axis], shape.str()));
  shape[axis] = k;
  return {{shape, args.in[0].dtype()}, {shape, DType::i64}};
}

/// The first k in order; the others may be anywhere.
template <class Item> void choose(std::vector<Item>& items, std::vector<Item>& spare, std::int64_t k, int key_bytes) {
  if (16 * k > static_cast<std::int64_t>(items.size())) return sort_items(items, spare, key_bytes);
  std::partial_sort(items.begin(), items.begin() + k, items.end());
}

void topk_cpu(const OpArgs& args, std::span<Tensor> out) {
  const AxisSplit s = split_at(args.in[0].shape(), axis_of(args));
  const std::int64_t k = args.attrs.integer("k");
  const bool in_order_of_size = args.attrs.flag("sorted");
  std::int64_t* indices = out[1].mutable_data<std::int64_t>();
  visit_number(out[0].dtype(), [&]<class T>() {
    T* y = out[0].mutable_data<T>();
    const auto write_best = [&](std::int64_t l, const T* first, auto& items, auto& spare) {
      choose(items, spare, k, static_cast<int>(sizeof(T)));
      if (!in_order_of_size)
        std::sort(items.begin(), items.begin() + k, [](auto a, auto b) { return a.place() < b.place(); });
      for (std::int64_t i = 0; i < k; ++i) {
        const std::int64_t at = (l / s.inner * k + i) * s.inner + l % s.inner;
        const std::int64_t place = items[static_cast<std::size_t>(i)].place();
        y[at] = first[place * s.inner];
        indices[at] = place;
      }
    };
    for_each_line<T>(args.in[0], s, args.attrs.flag("largest"), write_best);
  });
}

void topk_cuda(const OpArgs& args, std::span<Tensor> out) {
  if (is_whole(args.in[0].dtype())) return run_on_host(topk_cpu, args, out);
  sort_on_device(args, args.attrs.integer("k"), args.attrs.flag("largest"), !args.attrs.flag("sorted"), out[0], out[1]);
}

/// k times: the best of those that were not yet taken, the first of equals.
std::vector<std::int64_t> naive_places(const std::vector<double>& line, std::int64_t k, bool largest) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < k; ++i) {
    std::int64_t best = -1;
    for (std::int64_t e = 0; e < static_cast<std::int64_t>(line.size()); ++e) {
      if (std::find(places.begin(), places.end(), e) != places.end()) continue;
      const double value = line[static_cast<std::size_t>(e)];
      const bool better = best < 0 || (largest ? value > line[static_cast<std::size_t>(best)]
                                               : value < line[static_cast<std::size_t>(best)]);
      if (better) best = e;
    }
    places.push_back(best);
  }
  return places;
}

std::vector<Tensor> naive(const OpArgs& args) {
  const Tensor x = as_type(args.in[0], DType::f64);
  const AxisSplit s = split_at(x.shape(), axis_of(args));
  const std::int64_t k = args.attrs.integer("k");
  const Shape shape = infer(args)[0].shape;
  Tensor y = reference_output(shape);
  Tensor indices = Tensor::zeros(shape, DType::i64);
  for (std::int64_t l = 0; l < s.outer * s.inner && k > 0; ++l) {
    std::vector<double> line;
    for (std::int64_t e = 0; e < s.extent; ++e)
      line.push_back(values(x)[(l / s.inner * s.extent + e) * s.inner + l % s.inner]);
    std::vector<std::int64_t> places = naive_places(line, k, args.attrs.flag("largest"));
    if (!args.attrs.flag("sorted")) std::sort(places.begin(), places.end());
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t at = (l / s.inner * k + i) * s.inner + l % s.inner;
      const std::int64_t place = places[static_cast<std::size_t>(i)];
      values(y)[at] = line[static_cast<std::size_t>(place)];
      indices.mutable_data<std::int64_t>()[at] = place;
    }
  }
  return {y, indices};
}

std::vector<Sample> samples(DType dtype) {
  const auto best = [](std::int64_t k, std::int64_t axis, bool largest = true, bool sorted = true) {
    return Attrs{{"k", k}, {"axis", axis}, {"largest", largest}, {"sorted", sorted}};
  };
  const auto x = [&](const Shape& s, std::uint64_t tag) { return sample_normal(s, dtype, 1820 + tag, 2.0); };
  return {{{x({3, 33}, 1)}, {{"k", std::int64_t{5}}}, "five largest of a row"},
          {{x({7, 3}, 2)}, best(2, 0, false), "two smallest of a column"},
          {{x({2, 5, 3}, 3)}, best(3, 1, true, false), "middle axis, in the order of places"},
          {{scattered(x({5, 6}, 4))}, best(6, -1), "all of a row, strided"},
          {{x({65}, 5)}, best(1, 0), "the largest"},
          {{x({4, 3}, 6)}, best(0, 1), "none"},
          {{x({0, 3}, 7)}, best(2, 1), "no lines"},
          {{sample_whole({3, 33}, 1828, -5, 6)}, best(4, 1), "whole numbers, many equal"}};
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::zeros({2, 3});
  const auto k = [](std::int64_t count) { return Attrs{{"k", count}}; };
  return {{{x}, k(4), "k is 4; axis 1 has 3 elements: x is [2, 3]"},
          {{x}, k(-1), "k is -1"},
          {{x}, {}, "attribute 'k' must be given"},
          {{x}, {{"k", std::int64_t{1}}, {"axis", std::int64_t{2}}}, "axis 2 is outside"},
          {{Tensor::zeros({2, 3}, DType::bf16)}, k(1), "x must be f32, f64, i64, u8 or bool, it is bf16"}};
}

Work work(const OpArgs& args, std::span<const TensorSpec> out) {
  const auto k = static_cast<double>(args.attrs.integer("k"));
  return {static_cast<double>(args.in[0].numel()) * std::log2(2.0 + k), bytes_moved(args, out)};
}

} // namespace

constinit const OpDef topk_op = row({
    .name = "topk",
    .math = "values = the k largest (or smallest) of x along the axis, the first of equals; indices = where they stood",
    .inputs = {{"x"}},
    .outputs = {"values", "indices"},
    .attributes = {required_attr("k", AttrKind::integer, "how many"),
                   attr_int("axis", -1, "axis to choose along; negative ones count from the end"),
                   attr_bool("largest", true, "the largest; false: the smallest"),
                   attr_bool("sorted", true, "best first; false: in the order of their places")},
    .infer = infer,
    .cpu = topk_cpu,
    .cuda = topk_cuda,
    .cuda_same_bits = true,
    .saves = saves::out(1),
    .vjp = scattered_back,
    .reference = naive,
    .samples = samples,
    .refuses = refuses,
    .symmetries = [](const Sample& s) { return line_symmetries(s, 2); },
    .work = work,
});

ValuesAndIndices topk(const Tensor& x, std::int64_t k, int axis, bool largest, bool sorted) {
  std::vector<Tensor> out =
      call(topk_op, {x}, {{"k", k}, {"axis", std::int64_t{axis}}, {"largest", largest}, {"sorted", sorted}});
  return {std::move(out[0]), std::move(out[1])};
}

} // namespace eg
