// Rows of unique and searchsorted: what stands among the elements, and between which of them.

#include "core/device/transfer.h"
#include "core/ops/list.h"
#include "core/ops/sort/key.h"
#include "core/ops/views/movement.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>

namespace eg {
namespace {

constexpr const char* why_on_the_host = "how many results there are depends on the values, which the host must see";

// --- unique ---

/// An element's key and its place; equal keys are equal elements.
template <class Key> struct Item {
  Key key;
  std::uint32_t place;
};

template <class Key> Key key_in(const Item<Key>& item) { return item.key; }
template <class Key> Key key_in(Key key) { return key; }

/// Sorts items by their keys, or keys alone; equal ones stay in order. 11 bits at a time, beginning with the lowest:
/// each pass goes through memory once, where a sort by comparison of a million does so twenty times. Digits that are
/// the same in all are passed over. Few items are compared.
template <class T> void sort_by_digits(std::vector<T>& items) {
  using Key = decltype(key_in(items[0]));
  constexpr int digit_bits = 11, digits = (8 * sizeof(Key) + digit_bits - 1) / digit_bits;
  constexpr std::size_t values = std::size_t{1} << digit_bits, few = 1024;
  if (items.size() < few) {
    std::stable_sort(items.begin(), items.end(), [](const T& a, const T& b) { return key_in(a) < key_in(b); });
    return;
  }
  const auto digit = [](const T& item, int d) {
    return static_cast<std::size_t>(key_in(item) >> (d * digit_bits)) & (values - 1);
  };
  std::vector<std::size_t> counts(digits * values);
  for (const T& item : items)
    for (int d = 0; d < digits; ++d) ++counts[static_cast<std::size_t>(d) * values + digit(item, d)];
  std::vector<T> other(items.size());
  for (int d = 0; d < digits; ++d) {
    std::size_t* place = counts.data() + static_cast<std::size_t>(d) * values;
    if (place[digit(items[0], d)] == items.size()) continue;
    std::size_t before = 0;
    for (std::size_t v = 0; v < values; ++v) before += std::exchange(place[v], before);
    for (const T& item : items) other[place[digit(item, d)]++] = item;
    items.swap(other);
  }
}

/// The smallest element and how many whole numbers there are from it to the largest, where these are so few that a
/// table of them is faster than sorting.
template <class T> std::optional<std::pair<std::int64_t, std::size_t>> short_range(const T* x, std::size_t n) {
  if constexpr (!std::is_integral_v<T>) {
    return std::nullopt;
  } else {
    const auto [least, most] = std::minmax_element(x, x + n);
    const auto first = static_cast<std::int64_t>(*least), last = static_cast<std::int64_t>(*most);
    const std::uint64_t distance = static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first);
    if (distance > 4 * n + 256) return std::nullopt;
    return std::pair(first, static_cast<std::size_t>(distance) + 1);
  }
}

/// How often each number of a short range stands in x.
template <class T> std::vector<std::int64_t> counted(const T* x, std::size_t n, std::int64_t first, std::size_t range) {
  std::vector<std::int64_t> counts(range);
  for (std::size_t i = 0; i < n; ++i) ++counts[static_cast<std::size_t>(static_cast<std::int64_t>(x[i]) - first)];
  return counts;
}

template <class T> using Items = std::vector<Item<sorting::KeyOf<T>>>;

/// The elements of a packed tensor that is not empty, in order; equal ones by their places.
template <class T> Items<T> in_order(const Tensor& x) {
  Items<T> items(static_cast<std::size_t>(x.numel()));
  const T* values = x.data<T>();
  for (std::size_t i = 0; i < items.size(); ++i)
    items[i] = {sorting::key_of(values[i], false), static_cast<std::uint32_t>(i)};
  sort_by_digits(items);
  return items;
}

/// How many different elements there are.
template <class T> std::int64_t different(const Tensor& x) {
  const auto n = static_cast<std::size_t>(x.numel());
  if (n == 0) return 0;
  if (const auto range = short_range(x.data<T>(), n)) {
    const auto counts = counted(x.data<T>(), n, range->first, range->second);
    return std::count_if(counts.begin(), counts.end(), [](std::int64_t count) { return count > 0; });
  }
  std::vector<sorting::KeyOf<T>> keys(n);
  const T* values = x.data<T>();
  for (std::size_t i = 0; i < n; ++i) keys[i] = sorting::key_of(values[i], false);
  sort_by_digits(keys);
  std::int64_t count = 1;
  for (std::size_t i = 1; i < n; ++i) count += keys[i] != keys[i - 1] ? 1 : 0;
  return count;
}

std::vector<TensorSpec> unique_infer(const OpArgs& args) {
  check_number(args, 0);
  if (args.in[0].numel() > std::numeric_limits<std::uint32_t>::max()) // places have 32 bits
    throw ValueError(fmt::format("unique: x has {} elements; up to 4294967295 are sorted", args.in[0].numel()));
  const Tensor x = device::on_cpu(packed(args.in[0]));
  std::int64_t count = 0;
  visit_number(x.dtype(), [&]<class T>() { count = different<T>(x); });
  return {{{count}, args.in[0].dtype()}, {args.in[0].shape(), DType::i64}, {{count}, DType::i64}};
}

template <class T> struct UniqueOutputs {
  T* values;
  std::int64_t *inverse, *counts;
};

template <class T> void unique_by_sorting(const Tensor& x, UniqueOutputs<T> out) {
  const Items<T> items = in_order<T>(x);
  const T* values = x.data<T>();
  std::int64_t at = -1;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i == 0 || items[i].key != items[i - 1].key) {
      out.values[++at] = values[items[i].place];
      out.counts[at] = 0;
    }
    ++out.counts[at];
    out.inverse[items[i].place] = at;
  }
}

template <class T>
void unique_by_table(const T* x, std::size_t n, std::int64_t first, std::size_t range, UniqueOutputs<T> out) {
  std::vector<std::int64_t> table = counted(x, n, first, range);
  std::int64_t at = 0;
  for (std::size_t v = 0; v < range; ++v) {
    if (table[v] == 0) continue;
    out.values[at] = static_cast<T>(first + static_cast<std::int64_t>(v));
    out.counts[at] = std::exchange(table[v], at);
    ++at;
  }
  for (std::size_t i = 0; i < n; ++i)
    out.inverse[i] = table[static_cast<std::size_t>(static_cast<std::int64_t>(x[i]) - first)];
}

void unique_cpu(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]);
  const auto n = static_cast<std::size_t>(x.numel());
  if (n == 0) return;
  visit_number(x.dtype(), [&]<class T>() {
    const UniqueOutputs<T> to{out[0].mutable_data<T>(), out[1].mutable_data<std::int64_t>(),
                              out[2].mutable_data<std::int64_t>()};
    if (const auto range = short_range(x.data<T>(), n))
      unique_by_table(x.data<T>(), n, range->first, range->second, to);
    else
      unique_by_sorting<T>(x, to);
  });
}

std::vector<Tensor> unique_reference(const OpArgs& args) {
  const Tensor& x = args.in[0];
  std::map<double, std::int64_t> counted;
  for_each_index(x.shape(), [&](const Index& i) { ++counted[read(x, i)]; });
  const auto n = static_cast<std::int64_t>(counted.size());
  Tensor values = reference_output({n}), counts = Tensor::zeros({n}, DType::i64);
  std::map<double, double> place;
  std::int64_t at = 0;
  for (const auto& [value, count] : counted) {
    eg::values(values)[at] = value;
    counts.mutable_data<std::int64_t>()[at] = count;
    place[value] = static_cast<double>(at++);
  }
  return {values, tabulate(x.shape(), DType::i64, [&](const Index& i) { return place[read(x, i)]; }), counts};
}

std::vector<Sample> unique_samples(DType dtype) {
  const auto few = [&](const Shape& shape, std::uint64_t tag) { return sample_whole(shape, tag, -4, 5).to(dtype); };
  return {{{few({33}, 1)}, {}, "a vector, many equal"},
          {{scattered(few({5, 6}, 2))}, {}, "a strided matrix"},
          {{sample_normal({2, 7}, dtype, 3)}, {}, "all different"},
          {{sample_whole({3, 9}, 4, 0, 200).to(DType::u8)}, {}, "bytes"},
          {{sample_whole({3, 4, 5}, 5, -3, 4)}, {}, "whole numbers"},
          {{few({}, 6)}, {}, "scalar"},
          {{few({0, 3}, 7)}, {}, "empty"}};
}

std::vector<Refusal> unique_refuses() {
  return {{{Tensor::zeros({3}, DType::bf16)}, {}, "x must be f32, f64, i64, u8 or bool, it is bf16"},
          {{Tensor()}, {}, "must be given"}};
}

/// Values and counts stay as the elements move, their places move with them.
std::vector<Symmetry> unique_symmetries(const Sample& sample) {
  std::vector<Symmetry> list;
  for (int axis = 0; axis < sample.in[0].rank(); ++axis)
    if (sample.in[0].shape()[axis] >= 2)
      list.push_back(
          {.name = fmt::format("axis {}", axis), .legs = {in_leg(0, axis), out_leg(1, axis)}, .bit_exact = true});
  return list;
}

Work unique_work(const OpArgs& args, std::span<const TensorSpec> out) {
  const auto n = static_cast<double>(args.in[0].numel());
  return {n * std::max(1.0, std::log2(std::max(1.0, n))), bytes_moved(args, out)};
}

// --- searchsorted ---

std::vector<TensorSpec> search_infer(const OpArgs& args) {
  check_number(args, 0);
  check_rank_at_least(args, 0, 1);
  check_dtype(args, 1, args.in[0].dtype());
  const Shape& lines = args.in[0].shape();
  const Shape& values = args.in[1].shape();
  const bool shared = lines.rank() == 1;
  bool fits = shared || lines.rank() == values.rank();
  for (int axis = 0; fits && !shared && axis + 1 < lines.rank(); ++axis) fits = lines[axis] == values[axis];
  if (!fits)
    throw ShapeError(fmt::format("searchsorted: sorted must be [N], or have the extents of values but on the last "
                                 "axis: sorted is {}, values is {}",
                                 lines.str(), values.str()));
  return {{values, DType::i64}};
}

void search_cpu(const OpArgs& args, std::span<Tensor> out) {
  const Tensor lines = packed(args.in[0]), x = packed(args.in[1]);
  if (x.numel() == 0) return;
  const std::int64_t n = lines.shape()[-1], each = lines.rank() == 1 ? x.numel() : x.shape()[-1];
  const bool right = args.attrs.flag("right");
  std::int64_t* y = out[0].mutable_data<std::int64_t>();
  visit_number(x.dtype(), [&]<class T>() {
    const T* sorted = n > 0 ? lines.data<T>() : nullptr;
    const T* values = x.data<T>();
    const auto before = [](T a, T b) { return sorting::key_of(a, false) < sorting::key_of(b, false); };
    parallel::for_each(x.numel(), 1024, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T* first = sorted + (lines.rank() == 1 ? 0 : i / each * n);
        y[i] = (right ? std::upper_bound(first, first + n, values[i], before)
                      : std::lower_bound(first, first + n, values[i], before)) -
               first;
      }
    });
  });
}

/// By counting what comes before.
std::vector<Tensor> search_reference(const OpArgs& args) {
  const Tensor &lines = args.in[0], &x = args.in[1];
  const bool right = args.attrs.flag("right");
  return {tabulate(x.shape(), DType::i64, [&](const Index& i) {
    const double value = read(x, i);
    Index at = lines.rank() == 1 ? Index{0} : i;
    double count = 0;
    for (at.back() = 0; at.back() < lines.shape()[-1]; ++at.back()) {
      const double other = read(lines, at);
      count += right ? other <= value : other < value;
    }
    return count;
  })};
}

/// 1, 1.5, 1.5^2, ...: in order also after the laws have changed each by a tenth. Each line begins higher.
Tensor ascending(const Shape& shape, DType dtype) {
  std::vector<double> v(static_cast<std::size_t>(shape.numel()));
  const auto extent = static_cast<std::size_t>(shape[-1]);
  for (std::size_t i = 0; i < v.size(); ++i)
    v[i] = std::pow(1.5, static_cast<double>(i % extent)) * (1.0 + 0.5 * static_cast<double>(i / extent));
  return Tensor::from<double>(v, shape).to(dtype);
}

std::vector<Sample> search_samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_uniform(shape, dtype, tag, 0.5, 12.0); };
  const Attrs right = {{"right", true}};
  const Tensor steps = Tensor::from<std::int64_t>({-3, 0, 0, 2, 2, 2, 7}, {7});
  return {{{ascending({6}, dtype), x({33}, 1)}, {}, "one line"},
          {{ascending({6}, dtype), scattered(x({4, 5}, 2))}, right, "one line for a matrix, strided"},
          {{ascending({3, 5}, dtype), x({3, 7}, 3)}, {}, "a line for each row"},
          {{steps, sample_whole({4, 5}, 4, -5, 9)}, {}, "whole numbers, some equal"},
          {{steps, sample_whole({4, 5}, 4, -5, 9)}, right, "the same from the right"},
          {{Tensor::zeros({0}, dtype), x({3}, 5)}, {}, "an empty line"},
          {{ascending({4}, dtype), x({0, 2}, 6)}, {}, "nothing to search for"}};
}

std::vector<Refusal> search_refuses() {
  const Tensor line = Tensor::zeros({4});
  return {{{line, Tensor::zeros({2}, DType::f64)}, {}, "different types"},
          {{line, Tensor::zeros({2}, DType::i64)}, {}, "values must be f32, it is i64"},
          {{Tensor::zeros({}), line}, {}, "sorted must have at least 1 axes"},
          {{Tensor::zeros({2, 3}), Tensor::zeros({3, 3})}, {}, "sorted is [2, 3], values is [3, 3]"}};
}

std::vector<Symmetry> search_symmetries(const Sample& sample) {
  const Tensor &lines = sample.in[0], &x = sample.in[1];
  std::vector<Symmetry> list;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (x.shape()[axis] < 2) continue;
    Symmetry symmetry{.name = fmt::format("axis {} of the values", axis),
                      .legs = {in_leg(1, axis), out_leg(0, axis)},
                      .bit_exact = true};
    if (lines.rank() > 1 && axis + 1 < x.rank()) symmetry.legs.push_back(in_leg(0, axis));
    list.push_back(std::move(symmetry));
  }
  return list;
}

Work search_work(const OpArgs& args, std::span<const TensorSpec> out) {
  const auto n = static_cast<double>(std::max<std::int64_t>(2, args.in[0].shape()[-1]));
  return {static_cast<double>(args.in[1].numel()) * std::log2(n), bytes_moved(args, out)};
}

} // namespace

constinit const OpDef unique_op = row({
    .name = "unique",
    .math = "values = the different x in ascending order, NaN last; x = values[inverse]; counts = how often each is",
    .inputs = {{"x"}},
    .outputs = {"values", "inverse", "counts"},
    .infer = unique_infer,
    .cpu = unique_cpu,
    .no_cuda = why_on_the_host,
    .no_gradient = "which elements are equal changes when x changes a little",
    .reference = unique_reference,
    .samples = unique_samples,
    .refuses = unique_refuses,
    .symmetries = unique_symmetries,
    .work = unique_work,
});

constinit const OpDef searchsorted_op = row({
    .name = "searchsorted",
    .math = "y = how many of the ascending line are < the value; right: <= the value",
    .inputs = {{"sorted"}, {"values"}},
    .attributes = {attr_bool("right", false, "equal elements come before the value")},
    .infer = search_infer,
    .cpu = search_cpu,
    .no_cuda = "a search takes turns that differ from value to value; few values of a model are searched for",
    .no_gradient = "a place is an integer: it does not change when the values change a little",
    .reference = search_reference,
    .samples = search_samples,
    .refuses = search_refuses,
    .symmetries = search_symmetries,
    .work = search_work,
});

UniqueResult unique(const Tensor& x) {
  std::vector<Tensor> out = call(unique_op, {x}, {});
  return {std::move(out[0]), std::move(out[1]), std::move(out[2])};
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right) {
  return call1(searchsorted_op, {sorted, values}, {{"right", right}});
}

} // namespace eg
