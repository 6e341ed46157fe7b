// Samples of the rows of a convolution, all made of one list, and calls that they must refuse.

#include "core/ops/conv/cases.h"

#include "core/ops/conv/geometry.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"

namespace eg::conv {
namespace {

/// One convolution, from which the samples of all three rows are made.
struct Case {
  Shape x, w;
  Size2 stride, padding, dilation;
  std::int64_t groups;
  bool strided;
  const char* note;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{1, 3, 4, 3}, {4, 3, 3, 3}, 1, 0, 1, 1, false, "two windows"},
      // The laws repeat the first two along their symmetries until they are large: few windows keep that cheap.
      {{2, 3, 8, 8}, {5, 3, 4, 4}, 4, 0, 1, 1, true, "patches, transposed storage"},
      {{2, 3, 5, 6}, {4, 3, 3, 3}, 1, 0, 1, 1, false, "3 x 3"},
      {{2, 2, 7, 5}, {3, 2, 3, 2}, {2, 1}, {1, 2}, 1, 1, false, "stride and padding"},
      {{1, 2, 9, 8}, {2, 2, 2, 3}, 1, {0, 3}, {3, 2}, 1, false, "dilated"},
      {{2, 5, 3, 4}, {7, 5, 1, 1}, 1, 0, 1, 1, false, "1 x 1: the image is its columns"},
      {{2, 4, 5, 5}, {6, 2, 3, 3}, 1, 1, 1, 2, false, "two groups"},
      {{2, 3, 6, 5}, {3, 1, 3, 3}, 1, 1, 1, 3, false, "depthwise"},
      {{2, 3, 7, 6}, {6, 1, 3, 2}, {2, 3}, 1, {1, 2}, 3, false, "depthwise with two outputs a channel, strided"},
      {{2, 33, 3, 3}, {7, 33, 3, 3}, 1, 1, 1, 1, false, "33 channels"},
      {{1, 1, 1, 1}, {1, 1, 1, 1}, 1, 0, 1, 1, false, "one pixel"},
      {{1, 2, 65, 65}, {2, 2, 3, 3}, 2, 1, 1, 1, false, "odd sides"},
      {{0, 2, 4, 4}, {3, 2, 3, 3}, 1, 1, 1, 1, false, "no images"}};
  return all;
}

Attrs attrs_of(const Case& c) {
  Attrs attrs = windows::sliding_attrs({1, c.stride, c.padding, c.dilation});
  attrs.set("groups", c.groups);
  return attrs;
}

Shape y_shape_of(const Case& c, const OpDef& op) {
  const Attrs attrs = attrs_of(c);
  return conv_of(OpArgs{op, {}, attrs}, c.x, c.w).y_shape();
}

Tensor drawn(const Case& c, const Shape& shape, DType dtype, std::uint64_t tag) {
  const Tensor x = sample_normal(shape, dtype, tag);
  return c.strided ? scattered(x) : x;
}

} // namespace

std::vector<Sample> forward_samples(DType dtype) {
  std::vector<Sample> all;
  std::uint64_t tag = 2200;
  for (const Case& c : cases()) {
    all.push_back({{drawn(c, c.x, dtype, tag), drawn(c, c.w, dtype, tag + 1), drawn(c, {c.w[0]}, dtype, tag + 2)},
                   attrs_of(c),
                   c.note});
    tag += 3;
  }
  Sample& bare = all.front();
  bare.in[2] = Tensor{};
  bare.note = "two windows, no bias";
  return all;
}

std::vector<Sample> input_samples(DType dtype) {
  std::vector<Sample> all;
  std::uint64_t tag = 2250;
  for (const Case& c : cases()) {
    Attrs attrs = attrs_of(c);
    attrs.set("input_size", std::vector<std::int64_t>{c.x[2], c.x[3]});
    const Shape y = y_shape_of(c, conv2d_op);
    all.push_back({{drawn(c, c.w, dtype, tag), drawn(c, y, dtype, tag + 1)}, attrs, c.note});
    tag += 2;
  }
  return all;
}

std::vector<Sample> weight_samples(DType dtype) {
  std::vector<Sample> all;
  std::uint64_t tag = 2280;
  for (const Case& c : cases()) {
    Attrs attrs = attrs_of(c);
    attrs.set("kernel_size", std::vector<std::int64_t>{c.w[2], c.w[3]});
    const Shape y = y_shape_of(c, conv2d_op);
    all.push_back({{drawn(c, c.x, dtype, tag), drawn(c, y, dtype, tag + 1)}, attrs, c.note});
    tag += 2;
  }
  return all;
}

std::vector<Refusal> forward_refuses() {
  const Tensor x = Tensor::zeros({2, 4, 5, 5});
  const Tensor w = Tensor::zeros({6, 4, 3, 3});
  const Attrs two{{"groups", std::int64_t{2}}};
  return {{{Tensor::zeros({4, 5, 5}), w}, {}, "x must be [N, Cin, H, W], it is [4, 5, 5]"},
          {{x, Tensor::zeros({6, 4, 3})}, {}, "weight must be [Cout, Cin / groups, kh, kw], it is [6, 4, 3]"},
          {{x, Tensor::zeros({6, 3, 3, 3})}, {}, "x is [2, 4, 5, 5], weight is [6, 3, 3, 3], groups 1"},
          {{x, Tensor::zeros({5, 2, 3, 3})}, two, "5 output channels do not divide into 2 groups"},
          {{x, w}, {{"groups", std::int64_t{0}}}, "groups is 0"},
          {{x, Tensor::zeros({6, 4, 0, 3})}, {}, "the kernel has no extent"},
          {{x, Tensor::zeros({6, 4, 7, 7})}, {}, "the kernel is larger than the padded image: it covers 7 rows"},
          {{x, w, Tensor::zeros({4})}, {}, "bias must be [6], it is [4]"},
          {{x, w}, {{"stride", std::vector<std::int64_t>{0, 1}}}, "stride is 0"},
          {{x.to(DType::u8), w.to(DType::u8)}, {}, "x must be f32 or f64, it is u8"}};
}

std::vector<Refusal> input_refuses() {
  const Tensor w = Tensor::zeros({6, 4, 3, 3});
  const Tensor g = Tensor::zeros({2, 6, 3, 3});
  const auto size = [](std::int64_t n) { return Attrs{{"input_size", std::vector<std::int64_t>{n}}}; };
  return {{{w, Tensor::zeros({2, 5, 3, 3})}, size(5), "g must be [2, 6, 3, 3], it is [2, 5, 3, 3]"},
          {{w, g}, size(6), "g must be [2, 6, 4, 4], it is [2, 6, 3, 3]"},
          {{w, g}, size(2), "the kernel is larger than the padded image"},
          {{w, Tensor::zeros({6, 3, 3})}, size(5), "weight and g must have 4 axes"},
          {{w, g}, {{"input_size", std::vector<std::int64_t>{}}}, "input_size must not be empty"}};
}

std::vector<Refusal> weight_refuses() {
  const Tensor x = Tensor::zeros({2, 4, 5, 5});
  const Tensor g = Tensor::zeros({2, 6, 3, 3});
  const auto size = [](std::int64_t n) { return Attrs{{"kernel_size", std::vector<std::int64_t>{n}}}; };
  return {{{x, Tensor::zeros({3, 6, 3, 3})}, size(3), "g must be [2, 6, 3, 3], it is [3, 6, 3, 3]"},
          {{x, g}, size(2), "g must be [2, 6, 4, 4]"},
          {{x, Tensor::zeros({6, 3, 3})}, size(3), "x and g must have 4 axes"},
          {{x, g}, size(0), "kernel_size is 0"}};
}

} // namespace eg::conv
