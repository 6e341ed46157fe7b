// Row of pad_mode: a border made of the tensor's own elements.

#include "core/ops/list.h"
#include "core/ops/views/movement.h"

#include <fmt/format.h>

namespace eg {
namespace {

struct Border {
  int axis;
  std::int64_t before, after, extent;
};

Border border_of(const OpArgs& args) {
  Border b = {axis_of(args), args.attrs.integer("before"), args.attrs.integer("after"), 0};
  b.extent = args.in[0].shape()[b.axis];
  constexpr std::int64_t most = std::int64_t{1} << 40;
  if (b.before < 0 || b.after < 0 || b.before > most || b.after > most)
    throw ValueError(fmt::format("pad_mode: before and after must be in [0, {}]: {} and {}", most, b.before, b.after));
  if (b.extent == 0 && b.before + b.after > 0)
    throw ShapeError(
        fmt::format("pad_mode: axis {} has no elements to repeat: x is {}", b.axis, args.in[0].shape().str()));
  return b;
}

/// The place of x that is seen at `place` outside of it.
using Seen = std::int64_t (*)(std::int64_t place, std::int64_t extent);

std::int64_t modulo(std::int64_t a, std::int64_t n) { return (a % n + n) % n; }

Seen seen_by(const OpArgs& args) {
  const std::string& mode = args.attrs.text("mode");
  if (mode == "replicate" || mode == "edge")
    return [](std::int64_t place, std::int64_t n) { return std::clamp<std::int64_t>(place, 0, n - 1); };
  if (mode == "circular" || mode == "wrap") return modulo;
  if (mode == "symmetric")
    return [](std::int64_t place, std::int64_t n) {
      const std::int64_t at = modulo(place, 2 * n);
      return std::min(at, 2 * n - 1 - at);
    };
  if (mode == "reflect")
    return [](std::int64_t place, std::int64_t n) {
      if (n == 1) return std::int64_t{0};
      const std::int64_t at = modulo(place, 2 * n - 2);
      return std::min(at, 2 * n - 2 - at);
    };
  throw ValueError(fmt::format("pad_mode: mode is '{}'; it must be reflect, symmetric, replicate (edge) or circular "
                               "(wrap); pad() adds a constant",
                               mode));
}

std::vector<TensorSpec> infer(const OpArgs& args) {
  const Border b = border_of(args);
  seen_by(args);
  return {{with_extent(args.in[0].shape(), b.axis, b.before + b.extent + b.after), args.in[0].dtype()}};
}

std::vector<Tensor> body(const OpArgs& args) {
  const Border b = border_of(args);
  const Seen seen = seen_by(args);
  std::vector<std::int64_t> places;
  for (std::int64_t i = -b.before; i < b.extent + b.after; ++i) places.push_back(seen(i, b.extent));
  const auto count = static_cast<std::int64_t>(places.size());
  return {index_select(args.in[0], b.axis, Tensor::from(places, {count}))};
}

/// One step at a time: beyond an end the position is reflected, clamped, or wrapped.
std::vector<Tensor> reference(const OpArgs& args) {
  const Border b = border_of(args);
  const std::string& mode = args.attrs.text("mode");
  return {tabulate(infer(args)[0].shape, args.in[0].dtype(), [&](Index i) {
    auto& along = i[static_cast<std::size_t>(b.axis)];
    std::int64_t steps = along - b.before, at = steps < 0 ? 0 : std::min(steps, b.extent - 1);
    int way = steps < 0 ? -1 : 1;
    for (steps = steps < 0 ? -steps : steps - at; steps > 0; --steps) {
      const bool ends = at + way < 0 || at + way >= b.extent;
      if (!ends) {
        at += way;
      } else if (mode == "circular" || mode == "wrap") {
        at = way < 0 ? b.extent - 1 : 0;
      } else if (mode == "symmetric") {
        way = -way; // the end is seen twice
      } else if (mode == "reflect" && b.extent > 1) {
        way = -way;
        at += way;
      }
    }
    along = at;
    return read(args.in[0], i);
  })};
}

Attrs with(std::int64_t axis, std::int64_t before, std::int64_t after, const char* mode) {
  return {{"axis", axis}, {"before", before}, {"after", after}, {"mode", std::string(mode)}};
}

std::vector<Sample> samples(DType dtype) {
  return {{{sample_values({3, 4}, dtype, 1)}, with(1, 2, 1, "reflect"), "beside columns"},
          {{sample_transposed({2, 3, 5}, dtype, 2)}, with(-2, 0, 3, "symmetric"), "below transposed rows"},
          {{sample_values({2, 3}, dtype, 3)}, with(0, 7, 6, "reflect"), "back and forth several times"},
          {{sample_values({5, 2}, dtype, 4)}, with(0, 3, 2, "replicate"), "the edges"},
          {{sample_values({2, 3, 4}, dtype, 5)}, with(1, 4, 2, "circular"), "round the ends, more than once"},
          {{sample_values({1, 7}, dtype, 6)}, with(0, 1, 2, "reflect"), "around one row"},
          {{sample_whole({4}, 7, -9, 10)}, with(0, 1, 5, "symmetric"), "whole numbers"},
          {{sample_values({3, 0}, dtype, 8)}, with(0, 1, 1, "edge"), "no columns"},
          {{sample_values({0, 2}, dtype, 9)}, with(0, 0, 0, "wrap"), "nothing is added"}};
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::zeros({4, 3});
  return {{{x}, with(2, 1, 1, "reflect"), "axis 2 is outside [-2, 2)"},
          {{x}, with(0, -1, 1, "reflect"), "before and after must be in"},
          {{x}, with(0, 1, 1, "constant"), "mode is 'constant'"},
          {{Tensor::zeros({0, 3})}, with(0, 1, 0, "edge"), "axis 0 has no elements to repeat: x is [0, 3]"}};
}

std::vector<Symmetry> symmetries(const Sample& s) {
  const int rank = s.in[0].rank();
  const int axis = normalize_axis("pad_mode", integer_or(s.attrs, "axis", -1), rank);
  std::vector<Symmetry> list;
  for (int i = 0; i < rank; ++i)
    if (i != axis) add_axis_symmetry(list, s, i, i);
  return list;
}

} // namespace

constinit const OpDef pad_mode_op = row({
    .name = "pad_mode",
    .math = "y[.., before + i, ..] = x[.., i, ..]; outside, x reflected, repeated at its edge, or continued circularly",
    .inputs = {{"x"}},
    .attributes = {attr_int("axis", -1, "the axis that grows"), attr_int("before", 0, "elements added in front"),
                   attr_int("after", 0, "elements added behind"),
                   attr_text("mode", "reflect", "reflect, symmetric, replicate (edge) or circular (wrap)")},
    .infer = infer,
    .body = body,
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = movement_work,
});

Tensor pad_mode(const Tensor& x, int axis, std::int64_t before, std::int64_t after, const char* mode) {
  return call1(pad_mode_op, {x}, with(axis, before, after, mode));
}

} // namespace eg
