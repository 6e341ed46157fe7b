// pad: a border of one value at the ends of an axis.

#include "core/element.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/views/movement.h"
#include "core/ops/views/strided_copy.h"
#include "core/ops/whole_attribute.h"
#include "core/strided.h"

#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>

namespace eg {
namespace {

struct Padding {
  int axis;
  std::int64_t before;
  std::int64_t after;
};

Padding padding_of(const OpArgs& a) {
  const Padding p = {normalize_axis("pad", a.attrs.integer("axis"), a.in[0].rank()), a.attrs.integer("before"),
                     a.attrs.integer("after")};
  if (p.before < 0 || p.after < 0)
    throw ValueError(fmt::format("pad: before and after must not be negative: {} and {}", p.before, p.after));
  return p;
}

/// The value as an element of x's type, in its first bytes.
std::array<std::byte, 8> element(const OpArgs& a) {
  std::array<std::byte, 8> bytes{};
  visit_dtype(a.in[0].dtype(), [&]<class T>() {
    const auto put = [&](const auto& typed) { std::memcpy(bytes.data(), &typed, sizeof typed); };
    if constexpr (std::is_same_v<T, std::int64_t>)
      if (const auto whole = whole_attribute(a.attrs, "value")) return put(*whole);
    put(element_of<T>("pad", a.attrs.real("value")));
  });
  return bytes;
}

std::vector<TensorSpec> infer(const OpArgs& a) {
  const Padding p = padding_of(a);
  element(a);
  std::int64_t extent = a.in[0].shape()[p.axis];
  if (__builtin_add_overflow(extent, p.before, &extent) || __builtin_add_overflow(extent, p.after, &extent))
    throw ValueError("pad: the padded axis is longer than can be counted");
  return {{with_extent(a.in[0].shape(), p.axis, extent), a.in[0].dtype()}};
}

void kernel(const OpArgs& a, std::span<Tensor> out) {
  const Padding p = padding_of(a);
  const auto fill = element(a);
  embed_along(out[0], a.in[0], p.axis, p.before, 1, fill.data());
}

std::vector<Tensor> reference(const OpArgs& a) {
  const Padding p = padding_of(a);
  const Tensor& x = a.in[0];
  return {tabulate(infer(a)[0].shape, x.dtype(), [&](Index i) {
    auto& along = i[static_cast<std::size_t>(p.axis)];
    along -= p.before;
    return along >= 0 && along < x.shape()[p.axis] ? read(x, i) : a.attrs.real("value");
  })};
}

Attrs with(std::int64_t axis, std::int64_t before, std::int64_t after, double value = 0.0) {
  return {{"axis", axis}, {"before", before}, {"after", after}, {"value", value}};
}

std::vector<Sample> samples(DType dtype) {
  return {{{sample_values({3, 4}, dtype, 1)}, with(1, 2, 1), "zeros beside columns"},
          {{sample_transposed({2, 3, 5}, dtype, 2)}, with(-2, 0, 3, -1.5), "another value below transposed rows"},
          {{sample_values({1, 7}, dtype, 3)}, with(0, 1, 1), "around one row"},
          {{sample_values({5}, dtype, 4)}, with(0, 0, 0), "nothing is added"},
          {{sample_values({0, 2}, dtype, 5)}, with(0, 2, 0, 3.0), "only the border"}};
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::zeros({4, 3});
  return {{{x}, with(2, 1, 1), "axis 2 is outside [-2, 2)"},
          {{x}, with(0, -1, 1), "before and after must not be negative: -1 and 1"},
          {{Tensor::zeros({4}, DType::i64)}, with(0, 1, 1, 0.5), "0.5 is not a value of i64"},
          {{Tensor::zeros({4}, DType::u8)}, with(0, 1, 1, 256), "256 is not a value of u8"}};
}

std::vector<Symmetry> symmetries(const Sample& s) {
  const int rank = s.in[0].rank();
  const int axis = normalize_axis("pad", integer_or(s.attrs, "axis", -1), rank);
  std::vector<Symmetry> list;
  for (int i = 0; i < rank; ++i)
    if (i != axis) add_axis_symmetry(list, s, i, i);
  return list;
}

} // namespace

constinit const OpDef pad_op = row({
    .name = "pad",
    .math = "y[.., before + i, ..] = x[.., i, ..], value elsewhere",
    .inputs = {{"x"}},
    .attributes = {attr_int("axis", -1, "the axis that grows"), attr_int("before", 0, "elements added in front"),
                   attr_int("after", 0, "elements added behind"), attr_real("value", 0.0, "what the border holds")},
    .infer = infer,
    .cpu = kernel,
    .cuda = kernel,
    .cuda_same_bits = true,
    .vjp = [](const VjpArgs& v) -> Gradients {
      const Padding p = padding_of(v);
      return {slice(v.grad[0], p.axis, p.before, p.before + v.in[0].shape()[p.axis])};
    },
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = movement_work,
});

Tensor pad(const Tensor& x, int axis, std::int64_t before, std::int64_t after, double value) {
  return call1(pad_op, {x}, with(axis, before, after, value));
}

} // namespace eg
