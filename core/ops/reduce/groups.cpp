#include "core/ops/reduce/groups.h"

namespace eg::reduce {

Reduced axes_attribute(const OpArgs& args) {
  return reduced_axes(args.op.name, args.attrs.integers("axes"), args.in[0].shape());
}

Shape result_shape(const OpArgs& args) {
  return reduced_shape(args.in[0].shape(), axes_attribute(args), args.attrs.flag("keepdim"));
}

Shape kept_shape(const OpArgs& args) { return reduced_shape(args.in[0].shape(), axes_attribute(args), true); }

std::vector<TensorSpec> infer_floating(const OpArgs& args) {
  check_floating(args, 0);
  return {{result_shape(args), args.in[0].dtype()}};
}

Tensor with_kept_axes(const OpArgs& args, const Tensor& reduced) { return reshape(reduced, kept_shape(args)); }

Tensor even_shares(const Tensor& x, const Tensor& y, const std::vector<std::int64_t>& axes, bool is_signed) {
  const PauseRecording pause;
  const Tensor extreme = cast(eq(is_signed ? abs(x) : x, y), x.dtype()); // 1 or 0
  const Tensor shares = div(extreme, sum(extreme, axes, true));
  return is_signed ? mul(sign(x), shares) : shares;
}

Groups groups_of(const Tensor& x, const Reduced& reduced) {
  const PauseRecording pause;
  Groups groups;
  std::vector<std::int64_t> kept_first;
  std::vector<std::int64_t> last;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool gone = reduced[static_cast<std::size_t>(axis)];
    (gone ? last : kept_first).push_back(axis);
    (gone ? groups.extent : groups.count) *= x.shape()[axis];
  }
  kept_first.insert(kept_first.end(), last.begin(), last.end());
  groups.x = permute_axes(x, kept_first).contiguous();
  return groups;
}

std::optional<AxisSplit> split_of(const Shape& x, const Reduced& reduced) {
  AxisSplit split{1, 1, 1};
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool gone = reduced[static_cast<std::size_t>(axis)];
    if (x[axis] == 1) continue;
    if (gone && split.inner != 1) return {};
    if (gone)
      split.extent *= x[axis];
    else
      (split.extent == 1 ? split.outer : split.inner) *= x[axis];
  }
  return split;
}

std::vector<Sample> axes_samples(DType dtype, std::uint64_t tag, const SampleKind& kind, const Attrs& extra) {
  const auto attrs = [&](std::vector<std::int64_t> axes, bool keepdim = false) {
    Attrs all = extra;
    all.set("axes", std::move(axes));
    all.set("keepdim", keepdim);
    return all;
  };
  const auto x = [&](const Shape& shape, std::uint64_t number) {
    return kind.off_zero ? sample_off_zero(shape, dtype, tag + number)
                         : sample_normal(shape, dtype, tag + number, kind.scale, kind.mean);
  };
  return {{{x({3, 5}, 1)}, extra, "all"},
          {{x({3, 33}, 2)}, attrs({-1}), "last axis"},
          {{x({65, 7}, 3)}, attrs({0}), "first axis"},
          {{x({3, 4, 5}, 4)}, attrs({1}, true), "middle axis, kept as 1"},
          {{x({2, 3, 4, 5}, 5)}, attrs({-1, 0}), "two axes apart"},
          {{x({2, 3, 4, 5}, 6)}, attrs({0, 2}, true), "two axes, kept as 1"},
          {{scattered(x({5, 6}, 7))}, attrs({0}), "strided"},
          {{x({3, 0}, 8)}, attrs({0}), "empty result"}};
}

std::vector<Refusal> axes_only_refusals() {
  const Tensor x = Tensor::zeros({2, 3});
  return {{{x}, {{"axes", std::vector<std::int64_t>{2}}}, "axis 2 is outside"},
          {{x}, {{"axes", std::vector<std::int64_t>{1, -1}}}, "axis -1 is named twice"},
          {{x}, {{"axes", std::int64_t{1}}}, "must be a list of integers"}};
}

std::vector<Refusal> axes_refusals() {
  std::vector<Refusal> list = axes_only_refusals();
  list.push_back({{Tensor::zeros({2, 3}, DType::i64)}, {}, "x must be f32 or f64, it is i64"});
  return list;
}

std::vector<Refusal> axes_number_refusals() {
  std::vector<Refusal> list = axes_only_refusals();
  list.push_back({{Tensor::zeros({2, 3}, DType::bf16)}, {}, "x must be f32, f64, i64, u8 or bool, it is bf16"});
  return list;
}

std::vector<Symmetry> axes_symmetries(const Sample& sample) {
  const Shape& shape = sample.in[0].shape();
  const std::vector<std::int64_t> axes =
      sample.attrs.has("axes") ? sample.attrs.integers("axes") : std::vector<std::int64_t>{};
  const bool keepdim = sample.attrs.has("keepdim") && sample.attrs.flag("keepdim");
  return reduction_symmetries(shape, reduced_axes("axes", axes, shape), keepdim);
}

} // namespace eg::reduce
