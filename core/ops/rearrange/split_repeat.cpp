// Rows of split, chunk, repeat and repeat_interleave: made of views, whose rules give the gradients.

#include "core/ops/list.h"
#include "core/ops/views/movement.h"

#include <fmt/format.h>
#include <optional>
#include <utility>

namespace eg {
namespace {

using List = std::vector<std::int64_t>;

// --- split and chunk ---

/// Each piece is a tensor: more are taken for a mistake, and would not fit in memory.
constexpr std::int64_t most_pieces = std::int64_t{1} << 16;

/// Extents of pieces of one size; a last one that is smaller.
List equal_pieces(const OpArgs& args, std::int64_t extent, std::int64_t size) {
  const std::int64_t count = extent / size + (extent % size != 0 ? 1 : 0);
  if (count > most_pieces)
    throw ValueError(fmt::format("{}: axis {} would be cut into {} pieces, {} are the most: x is {}", args.op.name,
                                 axis_of(args), count, most_pieces, args.in[0].shape().str()));
  if (count == 0) return {0};
  List pieces(static_cast<std::size_t>(count), size);
  pieces.back() = extent - (count - 1) * size;
  return pieces;
}

List split_extents(const OpArgs& args) {
  const Shape& shape = args.in[0].shape();
  const int axis = axis_of(args);
  const List& sizes = args.attrs.integers("sizes");
  if (sizes.empty()) throw ValueError("split: sizes is empty; it must hold a number");
  const auto extent = static_cast<std::uint64_t>(shape[axis]);
  std::uint64_t total = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > shape[axis])
      if (sizes.size() > 1 || size < 0)
        throw ValueError(fmt::format("split: a piece of {} does not fit axis {}: x is {}", size, axis, shape.str()));
    // A sum beyond the extent stays wrong; counted further it could overflow.
    if (total <= extent) total += std::min(static_cast<std::uint64_t>(size), extent);
  }
  if (sizes.size() == 1) {
    if (sizes[0] == 0 && shape[axis] > 0) throw ValueError("split: pieces of size 0 never fill the axis");
    return equal_pieces(args, shape[axis], std::max<std::int64_t>(1, std::min(sizes[0], shape[axis])));
  }
  if (total != extent)
    throw ValueError(
        fmt::format("split: sizes add up to {}, axis {} has {}: x is {}", total, axis, shape[axis], shape.str()));
  return sizes;
}

List chunk_extents(const OpArgs& args) {
  const std::int64_t extent = args.in[0].shape()[axis_of(args)];
  const std::int64_t chunks = args.attrs.integer("chunks");
  if (chunks < 1) throw ValueError(fmt::format("chunk: chunks is {}; it must be positive", chunks));
  const std::int64_t size = extent / chunks + (extent % chunks != 0 ? 1 : 0);
  return equal_pieces(args, extent, std::max<std::int64_t>(1, size));
}

template <List (*extents)(const OpArgs&)> std::vector<TensorSpec> pieces_infer(const OpArgs& args) {
  std::vector<TensorSpec> specs;
  for (const std::int64_t extent : extents(args))
    specs.push_back({with_extent(args.in[0].shape(), axis_of(args), extent), args.in[0].dtype()});
  return specs;
}

template <List (*extents)(const OpArgs&)> std::vector<Tensor> pieces_body(const OpArgs& args) {
  std::vector<Tensor> pieces;
  std::int64_t start = 0;
  for (const std::int64_t extent : extents(args)) {
    pieces.push_back(slice(args.in[0], axis_of(args), start, start + extent));
    start += extent;
  }
  return pieces;
}

template <List (*extents)(const OpArgs&)> std::vector<Tensor> pieces_reference(const OpArgs& args) {
  const auto axis = static_cast<std::size_t>(axis_of(args));
  std::vector<Tensor> pieces;
  std::int64_t start = 0;
  for (const TensorSpec& spec : pieces_infer<extents>(args)) {
    pieces.push_back(tabulate(spec.shape, spec.dtype, [&](Index i) {
      i[axis] += start;
      return read(args.in[0], i);
    }));
    start += spec.shape[static_cast<int>(axis)];
  }
  return pieces;
}

/// The other axes, in every piece. Counting the pieces needs the attribute.
std::vector<Symmetry> pieces_symmetries(const Sample& s, std::size_t pieces) {
  const int along = normalize_axis("axis", s.attrs.integer("axis"), s.in[0].rank());
  std::vector<Symmetry> list;
  for (int axis = 0; axis < s.in[0].rank(); ++axis) {
    if (axis == along || s.in[0].shape()[axis] < 2) continue;
    Symmetry symmetry{fmt::format("axis {}", axis), {in_leg(0, axis)}};
    for (std::size_t o = 0; o < pieces; ++o) symmetry.legs.push_back(out_leg(static_cast<int>(o), axis));
    list.push_back(std::move(symmetry));
  }
  return list;
}

std::vector<Sample> split_samples(DType dtype) {
  const auto by = [](List sizes, std::int64_t axis) { return Attrs{{"sizes", std::move(sizes)}, {"axis", axis}}; };
  return {{{sample_values({3, 7}, dtype, 1)}, by({3}, 1), "pieces of 3, the last smaller"},
          {{sample_values({5, 4, 3}, dtype, 2)}, by({1, 0, 4}, 0), "given extents, one empty"},
          {{sample_values({3, 5, 2}, dtype, 6)}, by({1, 2, 2}, 1), "three pieces"},
          {{sample_transposed({4, 33}, dtype, 3)}, by({32, 1}, -1), "transposed"},
          {{sample_values({2, 1}, dtype, 4)}, by({8}, 1), "one piece"},
          {{sample_values({2, 0}, dtype, 5)}, by({2}, 1), "no elements"}};
}

std::vector<Refusal> split_refuses() {
  const Tensor x = Tensor::zeros({2, 5});
  const auto by = [](List sizes, std::int64_t axis) { return Attrs{{"sizes", std::move(sizes)}, {"axis", axis}}; };
  return {{{x}, by({2, 2}, 1), "sizes add up to 4, axis 1 has 5: x is [2, 5]"},
          {{x}, by({-1, 6}, 1), "a piece of -1 does not fit axis 1"},
          {{x}, by({0}, 1), "pieces of size 0 never fill the axis"},
          {{x}, by({}, 1), "sizes is empty"},
          {{Tensor::zeros({1}).expand({std::int64_t{1} << 40})}, by({3}, 0), "cut into 366503875926 pieces"},
          {{x}, by({1}, 2), "axis 2 is outside"}};
}

std::vector<Sample> chunk_samples(DType dtype) {
  const auto into = [](std::int64_t n, std::int64_t axis) { return Attrs{{"chunks", n}, {"axis", axis}}; };
  return {{{sample_values({3, 7}, dtype, 1)}, into(3, 1), "the last is smaller"},
          {{sample_values({6, 4, 3}, dtype, 2)}, into(2, 0), "halves"},
          {{sample_values({2, 5, 3}, dtype, 3)}, into(4, 1), "fewer than asked for"},
          {{sample_transposed({4, 33}, dtype, 4)}, into(1, -1), "one, transposed"},
          {{sample_values({2, 0}, dtype, 5)}, into(2, 1), "no elements"}};
}

std::vector<Refusal> chunk_refuses() {
  const Tensor x = Tensor::zeros({2, 5});
  return {{{x}, {{"chunks", std::int64_t{0}}}, "chunks is 0; it must be positive"},
          {{x}, {{"chunks", std::int64_t{2}}, {"axis", std::int64_t{-3}}}, "axis -3 is outside"},
          {{Tensor::zeros({1}).expand({INT64_MAX})},
           {{"chunks", INT64_MAX}},
           "would be cut into 9223372036854775807 pieces"},
          {{x}, {}, "attribute 'chunks' must be given"}};
}

std::size_t pieces_of(const OpDef& op, const Sample& s) { return op.infer(OpArgs{op, s.in, s.attrs}).size(); }

// --- repeat and repeat_interleave ---

/// Each group of `inner` neighbouring elements along the axis `times` over: [outer, inner] -> [outer, times, inner].
Tensor multiplied(const Tensor& x, std::int64_t outer, std::int64_t inner, std::int64_t times) {
  return expand(reshape(x, {outer, 1, inner}), {outer, times, inner});
}

/// x's shape with leading ones, as long as the list of repeats.
Shape padded_shape(const OpArgs& args) {
  const List& repeats = args.attrs.integers("repeats");
  const Shape& shape = args.in[0].shape();
  if (repeats.size() > static_cast<std::size_t>(max_rank))
    throw ShapeError(fmt::format("repeat: {} repeats, at most {} axes are possible", repeats.size(), max_rank));
  if (static_cast<int>(repeats.size()) < shape.rank())
    throw ShapeError(fmt::format("repeat: {} repeats for {} axes: x is {}", repeats.size(), shape.rank(), shape.str()));
  for (const std::int64_t times : repeats)
    if (times < 1) throw ValueError(fmt::format("repeat: a repeat is {}; it must be positive", times));
  Shape padded = shape;
  while (padded.rank() < static_cast<int>(repeats.size())) padded.insert(0, 1);
  return padded;
}

Shape repeated_shape(const OpArgs& args) {
  Shape shape = padded_shape(args);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::int64_t times = args.attrs.integers("repeats")[static_cast<std::size_t>(axis)];
    if (shape[axis] != 0 && times > (std::int64_t{1} << 48) / shape[axis])
      throw ShapeError(fmt::format("repeat: {} times axis {} of {} is too large", times, axis, shape.str()));
    shape[axis] *= times;
  }
  return shape;
}

/// x seen as often as it is repeated: [r_1, d_1, r_2, d_2, ...], where an axis that is repeated once joins the one
/// before it. No shape where that takes more axes than a tensor has, and for no elements, whose other extents may be
/// too large to multiply.
std::optional<std::pair<Shape, Shape>> interleaved_shapes(const OpArgs& args, const Shape& padded) {
  if (args.in[0].numel() == 0) return std::nullopt;
  std::vector<std::int64_t> before, after;
  for (int axis = 0; axis < padded.rank(); ++axis) {
    const std::int64_t times = args.attrs.integers("repeats")[static_cast<std::size_t>(axis)];
    if (times == 1 && !before.empty()) {
      before.back() *= padded[axis];
      after.back() *= padded[axis];
      continue;
    }
    before.insert(before.end(), {1, padded[axis]});
    after.insert(after.end(), {times, padded[axis]});
  }
  if (before.size() > static_cast<std::size_t>(max_rank)) return std::nullopt;
  return std::pair{Shape(before), Shape(after)};
}

std::vector<Tensor> repeat_body(const OpArgs& args) {
  Shape shape = padded_shape(args);
  if (const auto shapes = interleaved_shapes(args, shape))
    return {reshape(expand(reshape(args.in[0], shapes->first), shapes->second), repeated_shape(args))};
  Tensor y = reshape(args.in[0], shape);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    const std::int64_t times = args.attrs.integers("repeats")[static_cast<std::size_t>(axis)];
    if (times == 1) continue;
    y = multiplied(y, outer_size(shape, axis), shape[axis] * inner_size(shape, axis), times);
    shape[axis] *= times;
    y = reshape(y, shape);
  }
  return {y};
}

std::vector<Tensor> repeat_reference(const OpArgs& args) {
  const Shape padded = padded_shape(args);
  const auto extra = padded.rank() - args.in[0].rank();
  return {tabulate(repeated_shape(args), args.in[0].dtype(), [&](Index i) {
    for (int axis = 0; axis < padded.rank(); ++axis) i[static_cast<std::size_t>(axis)] %= padded[axis];
    i.erase(i.begin(), i.begin() + extra);
    return read(args.in[0], i);
  })};
}

std::vector<Sample> repeat_samples(DType dtype) {
  const auto by = [](List repeats) { return Attrs{{"repeats", std::move(repeats)}}; };
  return {{{sample_values({3, 5}, dtype, 1)}, by({1, 3}), "rows side by side"},
          {{sample_values({2, 4, 3}, dtype, 2)}, by({2, 1, 2}), "two axes"},
          {{sample_values({33}, dtype, 3)}, by({2, 3, 1}), "new axes in front"},
          {{sample_transposed({4, 3}, dtype, 4)}, by({1, 2}), "transposed"},
          {{sample_values({}, dtype, 5)}, by({4}), "a scalar"},
          {{sample_values({2, 0}, dtype, 6)}, by({2, 2}), "no elements"},
          {{sample_values({2, 1, 2, 1, 2}, dtype, 7)}, by({2, 2, 2, 2, 2}), "five axes"}};
}

std::vector<Refusal> repeat_refuses() {
  const Tensor x = Tensor::zeros({2, 3});
  return {{{x}, {{"repeats", List{2}}}, "1 repeats for 2 axes: x is [2, 3]"},
          {{x}, {{"repeats", List{1, 0}}}, "a repeat is 0; it must be positive"},
          {{x}, {{"repeats", List(9, 1)}}, "9 repeats, at most 8 axes are possible"},
          {{x}, {}, "attribute 'repeats' must be given"}};
}

std::vector<Symmetry> repeat_symmetries(const Sample& s) {
  const List& repeats = s.attrs.integers("repeats");
  const int extra = static_cast<int>(repeats.size()) - s.in[0].rank();
  std::vector<Symmetry> list;
  for (int axis = 0; axis < s.in[0].rank(); ++axis)
    if (repeats[static_cast<std::size_t>(axis + extra)] == 1) add_axis_symmetry(list, s, axis, axis + extra);
  return list;
}

Shape interleaved_shape(const OpArgs& args) {
  const int axis = axis_of(args);
  const Shape& shape = args.in[0].shape();
  const std::int64_t times = args.attrs.integer("repeats");
  if (times < 1) throw ValueError(fmt::format("repeat_interleave: repeats is {}; it must be positive", times));
  if (shape[axis] != 0 && times > (std::int64_t{1} << 48) / shape[axis])
    throw ShapeError(fmt::format("repeat_interleave: {} times axis {} of {} is too large", times, axis, shape.str()));
  return with_extent(shape, axis, shape[axis] * times);
}

std::vector<Sample> interleave_samples(DType dtype) {
  const auto by = [](std::int64_t n, std::int64_t axis) { return Attrs{{"repeats", n}, {"axis", axis}}; };
  return {{{sample_values({3, 5}, dtype, 1)}, by(3, 1), "columns"},
          {{sample_values({2, 4, 3}, dtype, 2)}, by(2, 1), "heads"},
          {{sample_transposed({33, 3}, dtype, 3)}, by(2, 0), "transposed"},
          {{sample_values({3, 2}, dtype, 4)}, by(1, 0), "once"},
          {{sample_values({2, 0}, dtype, 5)}, by(2, 1), "no elements"}};
}

std::vector<Refusal> interleave_refuses() {
  const Tensor x = Tensor::zeros({2, 3});
  return {{{x}, {{"repeats", std::int64_t{0}}, {"axis", std::int64_t{0}}}, "repeats is 0; it must be positive"},
          {{x}, {{"repeats", std::int64_t{2}}, {"axis", std::int64_t{2}}}, "axis 2 is outside"},
          {{x}, {{"repeats", std::int64_t{2}}}, "attribute 'axis' must be given"}};
}

} // namespace

constinit const OpDef split_op = row({
    .name = "split",
    .math = "ys = pieces of x of the given sizes along the axis, in their order",
    .inputs = {{"x"}},
    .outputs = {"ys"},
    .variadic_outputs = true,
    .attributes = {required_attr("sizes", AttrKind::integers, "one number: pieces of this size; several: the extents"),
                   attr_int("axis", 0, "axis that is cut")},
    .infer = pieces_infer<split_extents>,
    .body = pieces_body<split_extents>,
    .reference = pieces_reference<split_extents>,
    .samples = split_samples,
    .refuses = split_refuses,
    .symmetries = [](const Sample& s) { return pieces_symmetries(s, pieces_of(split_op, s)); },
    .work = no_work,
});

constinit const OpDef chunk_op = row({
    .name = "chunk",
    .math = "ys = pieces of x of ceil(n / chunks) along the axis, the last may be smaller",
    .inputs = {{"x"}},
    .outputs = {"ys"},
    .variadic_outputs = true,
    .attributes = {required_attr("chunks", AttrKind::integer, "how many pieces at most"),
                   attr_int("axis", 0, "axis that is cut")},
    .infer = pieces_infer<chunk_extents>,
    .body = pieces_body<chunk_extents>,
    .reference = pieces_reference<chunk_extents>,
    .samples = chunk_samples,
    .refuses = chunk_refuses,
    .symmetries = [](const Sample& s) { return pieces_symmetries(s, pieces_of(chunk_op, s)); },
    .work = no_work,
});

constinit const OpDef repeat_op = row({
    .name = "repeat",
    .math = "y[i] = x[i mod x's extents]: x side by side along each axis",
    .inputs = {{"x"}},
    .attributes = {required_attr("repeats", AttrKind::integers, "how often along each axis; more numbers: new axes")},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      return {{repeated_shape(args), args.in[0].dtype()}};
    },
    .body = repeat_body,
    .reference = repeat_reference,
    .samples = repeat_samples,
    .refuses = repeat_refuses,
    .symmetries = repeat_symmetries,
    .work = movement_work,
});

constinit const OpDef repeat_interleave_op = row({
    .name = "repeat_interleave",
    .math = "y[i] = x[floor(i / repeats)] along the axis",
    .inputs = {{"x"}},
    .attributes = {required_attr("repeats", AttrKind::integer, "how often each element comes in a row"),
                   required_attr("axis", AttrKind::integer, "axis along which they are repeated")},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      return {{interleaved_shape(args), args.in[0].dtype()}};
    },
    .body = [](const OpArgs& args) -> std::vector<Tensor> {
      const AxisSplit s = split_at(args.in[0].shape(), axis_of(args));
      const Tensor y = multiplied(args.in[0], s.outer * s.extent, s.inner, args.attrs.integer("repeats"));
      return {reshape(y, interleaved_shape(args))};
    },
    .reference = [](const OpArgs& args) -> std::vector<Tensor> {
      const auto axis = static_cast<std::size_t>(axis_of(args));
      return {tabulate(interleaved_shape(args), args.in[0].dtype(), [&](Index i) {
        i[axis] /= args.attrs.integer("repeats");
        return read(args.in[0], i);
      })};
    },
    .samples = interleave_samples,
    .refuses = interleave_refuses,
    .symmetries = [](const Sample& s) -> std::vector<Symmetry> {
      const int along = normalize_axis("axis", s.attrs.integer("axis"), s.in[0].rank());
      std::vector<Symmetry> list;
      for (int axis = 0; axis < s.in[0].rank(); ++axis)
        if (axis != along) add_axis_symmetry(list, s, axis, axis);
      return list;
    },
    .work = movement_work,
});

std::vector<Tensor> split(const Tensor& x, const List& sizes, int axis) {
  return call(split_op, {x}, {{"sizes", sizes}, {"axis", std::int64_t{axis}}});
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, int axis) {
  return call(chunk_op, {x}, {{"chunks", chunks}, {"axis", std::int64_t{axis}}});
}

Tensor repeat(const Tensor& x, const List& repeats) { return call1(repeat_op, {x}, {{"repeats", repeats}}); }

Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, int axis) {
  return call1(repeat_interleave_op, {x}, {{"repeats", repeats}, {"axis", std::int64_t{axis}}});
}

} // namespace eg
