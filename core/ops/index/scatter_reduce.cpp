// Row of scatter_reduce: elements joined at the places that an index names, in index order.

#include "core/ops/index/row_moves.h"
#include "core/ops/list.h"
#include "core/ops/views/movement.h"
#include "core/threads/parallel.h"

#include <cmath>
#include <fmt/format.h>

namespace eg {
namespace {

enum class Join { sum, mean, prod, amax, amin };

Join join_of(const OpArgs& args) {
  const std::string& name = args.attrs.text("reduce");
  if (name == "sum") return Join::sum;
  if (name == "mean") return Join::mean;
  if (name == "prod") return Join::prod;
  if (name == "amax") return Join::amax;
  if (name == "amin") return Join::amin;
  throw ValueError(fmt::format("scatter_reduce: reduce is '{}'; it must be sum, mean, prod, amax or amin", name));
}

std::vector<TensorSpec> infer(const OpArgs& args) {
  check_floating(args, 0);
  check_dtype(args, 1, DType::i64);
  check_dtype(args, 2, args.in[0].dtype());
  join_of(args);
  const int axis = axis_of(args);
  const Shape &x = args.in[0].shape(), &index = args.in[1].shape();
  if (index.rank() != x.rank() || with_extent(x, axis, 0) != with_extent(index, axis, 0))
    throw ShapeError(fmt::format("scatter_reduce: index must have x's extents but on axis {}: x is {}, index is {}",
                                 axis, x.str(), index.str()));
  if (index != args.in[2].shape())
    throw ShapeError(fmt::format("scatter_reduce: index and source must have one shape: index is {}, source is {}",
                                 index.str(), args.in[2].shape().str()));
  return {{x, args.in[0].dtype()}};
}

double joined(Join join, double a, double b) {
  switch (join) {
  case Join::sum:
  case Join::mean:
    return a + b;
  case Join::prod:
    return a * b;
  case Join::amax:
    return b > a || std::isnan(b) ? b : a;
  case Join::amin:
    return b < a || std::isnan(b) ? b : a;
  }
  return a;
}

/// Line by line along the axis; joined in double.
void scatter_cpu(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]), index = packed(args.in[1]), source = packed(args.in[2]);
  const Join join = join_of(args);
  const int axis = axis_of(args);
  const bool with_self = args.attrs.flag("include_self");
  const AxisSplit s = split_at(x.shape(), axis);
  check_indices("scatter_reduce", index, s.extent);
  if (x.numel() == 0) return;
  const std::int64_t count = index.shape()[axis];
  const std::int64_t* places = index.numel() > 0 ? index.data<std::int64_t>() : nullptr;
  visit_floating(x.dtype(), [&]<class T>() {
    const T* self = x.data<T>();
    const T* terms = source.numel() > 0 ? source.data<T>() : nullptr;
    T* y = out[0].mutable_data<T>();
    const std::int64_t bytes = (s.extent + count) * 16;
    parallel::for_each(s.outer * s.inner, parallel::grain_for_bytes(bytes), [&](std::int64_t begin, std::int64_t end) {
      std::vector<double> value(static_cast<std::size_t>(s.extent));
      std::vector<std::int64_t> joins(static_cast<std::size_t>(s.extent)); // elements that value is made of
      for (std::int64_t line = begin; line < end; ++line) {
        const std::int64_t first = line / s.inner * s.extent * s.inner + line % s.inner;
        for (std::int64_t e = 0; e < s.extent; ++e) {
          value[static_cast<std::size_t>(e)] = static_cast<double>(self[first + e * s.inner]);
          joins[static_cast<std::size_t>(e)] = with_self ? 1 : 0;
        }
        const std::int64_t from = line / s.inner * count * s.inner + line % s.inner;
        for (std::int64_t k = 0; k < count; ++k) {
          const auto at = static_cast<std::size_t>(places[from + k * s.inner]);
          const auto term = static_cast<double>(terms[from + k * s.inner]);
          value[at] = joins[at]++ == 0 ? term : joined(join, value[at], term);
        }
        for (std::int64_t e = 0; e < s.extent; ++e) {
          const auto at = static_cast<std::size_t>(e);
          const double parts = join == Join::mean ? static_cast<double>(std::max<std::int64_t>(1, joins[at])) : 1.0;
          y[first + e * s.inner] = static_cast<T>(value[at] / parts);
        }
      }
    });
  });
}

/// What the rules read that does not change as the inputs change a little: no tape sees it.
struct Counted {
  Tensor number; ///< of elements of source at each place
  Tensor self;   ///< 1 where x counts, else 0
};
Counted counted(const VjpArgs& v, int axis) {
  const PauseRecording pause;
  const DType dtype = v.grad[0].dtype();
  const Tensor zeros = Tensor::zeros(v.in[0].shape(), dtype);
  Counted c;
  c.number = scatter_add(zeros, axis, v.in[1], Tensor::ones(v.in[1].shape(), dtype));
  c.self = v.attrs.flag("include_self") ? Tensor::ones(v.in[0].shape(), dtype) : cast(eq(c.number, 0.0), dtype);
  return c;
}

/// The gradients by x and source of an extreme: equals share it evenly.
Gradients extreme_gradients(const VjpArgs& v, int axis, const Counted& c) {
  Tensor self, others, number;
  {
    const PauseRecording pause;
    const DType dtype = v.grad[0].dtype();
    self = mul(cast(eq(v.in[0], v.out[0]), dtype), c.self);
    others = cast(eq(v.in[2], gather(v.out[0], axis, v.in[1])), dtype);
    number = maximum(scatter_add(self, axis, v.in[1], others), Tensor::ones({}, dtype));
  }
  const Tensor share = div(v.grad[0], number);
  Gradients gradients(3);
  if (v.wants(0)) gradients[0] = mul(share, self);
  if (v.wants(2)) gradients[2] = mul(gather(share, axis, v.in[1]), others);
  return gradients;
}

/// Of a product: with P the product of the factors that are not 0, and Z that of those that are. For a factor f that is
/// not 0 it is P Z / f; for one that is 0, P times the other zeros. Z is written so that its derivatives are right: the
/// zero itself where there is one, and of two the other for each.
Gradients product_gradients(const VjpArgs& v, int axis, const Counted& c) {
  const Tensor &x = v.in[0], &index = v.in[1], &source = v.in[2], &g = v.grad[0];
  const Tensor one = Tensor::ones({}, g.dtype()), nothing = Tensor::zeros({}, g.dtype());
  Tensor own_zero, source_zero, none, single, two; // masks as numbers: how many zeros a place has
  {
    const PauseRecording pause;
    own_zero = logical_and(eq(x, 0.0), gt(c.self, 0.0));
    source_zero = eq(source, 0.0);
    const Tensor zeros = scatter_add(cast(own_zero, g.dtype()), axis, index, cast(source_zero, g.dtype()));
    none = cast(eq(zeros, 0.0), g.dtype());
    single = cast(eq(zeros, 1.0), g.dtype());
    two = cast(eq(zeros, 2.0), g.dtype());
  }
  const Tensor zero_sum = scatter_add(where(own_zero, x, nothing), axis, index, where(source_zero, source, nothing));
  const Tensor own = where(logical_and(gt(c.self, 0.0), logical_not(own_zero)), x, one);
  const Tensor others = where(source_zero, one, source);
  const Tensor flow = mul(g, scatter_reduce(own, axis, index, others, "prod"));
  const Tensor usual = mul(flow, add(none, mul(single, zero_sum)));
  Gradients gradients(3);
  if (v.wants(0)) {
    const Tensor at_zero = mul(flow, add(single, mul(two, sub(zero_sum, x))));
    gradients[0] = mul(where(own_zero, at_zero, div(usual, own)), c.self);
  }
  if (v.wants(2)) {
    const auto there = [&](const Tensor& at) { return gather(at, axis, index); };
    const Tensor at_zero = mul(there(flow), add(there(single), mul(there(two), sub(there(zero_sum), source))));
    gradients[2] = where(source_zero, at_zero, div(there(usual), others));
  }
  return gradients;
}

Gradients rule(const VjpArgs& v) {
  const int axis = axis_of(v);
  const Tensor& g = v.grad[0];
  if (!g.defined()) return Gradients(3);
  const Counted c = counted(v, axis);
  const Join join = join_of(v);
  if (join == Join::prod) return product_gradients(v, axis, c);
  if (join == Join::amax || join == Join::amin) return extreme_gradients(v, axis, c);
  Tensor share = g;
  if (join == Join::mean) {
    Tensor parts;
    {
      const PauseRecording pause;
      parts = add(c.number, c.self);
    }
    share = div(g, parts);
  }
  Gradients gradients(3);
  if (v.wants(0)) gradients[0] = mul(share, c.self);
  if (v.wants(2)) gradients[2] = gather(share, axis, v.in[1]);
  return gradients;
}

std::vector<Tensor> reference(const OpArgs& args) {
  const int axis = axis_of(args);
  const auto along = static_cast<std::size_t>(axis);
  const Join join = join_of(args);
  return {tabulate(args.in[0].shape(), args.in[0].dtype(), [&](const Index& y) {
    std::vector<double> parts;
    if (args.attrs.flag("include_self")) parts.push_back(read(args.in[0], y));
    Index i = y;
    for (i[along] = 0; i[along] < args.in[1].shape()[axis]; ++i[along])
      if (static_cast<std::int64_t>(read(args.in[1], i)) == y[along]) parts.push_back(read(args.in[2], i));
    if (parts.empty()) return read(args.in[0], y);
    double total = parts[0];
    for (std::size_t k = 1; k < parts.size(); ++k) total = joined(join, total, parts[k]);
    return join == Join::mean ? total / static_cast<double>(parts.size()) : total;
  })};
}

Tensor indices(const Shape& shape, std::int64_t extent, std::uint64_t seed) {
  return random_integers(shape, RandomKey{seed, 0x3d}, 0, extent);
}

std::vector<Sample> samples(DType dtype) {
  std::vector<Sample> list;
  std::uint64_t tag = 1;
  for (const char* reduce : {"sum", "mean", "prod", "amax", "amin"})
    for (const bool with_self : {true, false}) {
      const auto attrs = [&](std::int64_t axis) {
        return Attrs{{"axis", axis}, {"reduce", std::string(reduce)}, {"include_self", with_self}};
      };
      const auto x = [&](const Shape& shape) { return sample_off_zero(shape, dtype, 1990 + tag++); };
      list.push_back({{x({3, 4}), indices({3, 6}, 4, tag), x({3, 6})}, attrs(-1), "along rows"});
      list.push_back({{scattered(x({2, 5, 3})), indices({2, 2, 3}, 5, tag), scattered(x({2, 2, 3}))},
                      attrs(1),
                      "in the middle, strided"});
      list.push_back({{x({4, 2}), indices({0, 2}, 4, tag), x({0, 2})}, attrs(0), "no indices"});
    }
  Tensor zeros = sample_off_zero({2, 6}, dtype, 1989);
  visit_floating(dtype, [&]<class T>() { zeros.mutable_data<T>()[1] = zeros.mutable_data<T>()[8] = T(0); });
  visit_floating(dtype, [&]<class T>() { zeros.mutable_data<T>()[9] = T(0); });
  list.push_back({{sample_off_zero({2, 3}, dtype, 1988),
                   Tensor::from<std::int64_t>({0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}, {2, 6}), zeros},
                  {{"axis", std::int64_t{1}}, {"reduce", std::string("prod")}},
                  "a factor 0, and two"});
  return list;
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::zeros({2, 3});
  const Tensor index = Tensor::from<std::int64_t>({0, 3}, {2, 1});
  const Attrs sum = {{"axis", std::int64_t{1}}, {"reduce", std::string("sum")}};
  return {{{x, index, Tensor::zeros({2, 1})}, sum, "index 3 at position 1 is outside [0, 3)"},
          {{x, index, Tensor::zeros({2, 2})}, sum, "index is [2, 1], source is [2, 2]"},
          {{x, index, Tensor::zeros({2, 1}, DType::i64)}, sum, "source must be f32, it is i64"},
          {{x, Tensor::zeros({3, 1}, DType::i64), Tensor::zeros({3, 1})}, sum, "x is [2, 3], index is [3, 1]"},
          {{x, index, Tensor::zeros({2, 1})},
           {{"axis", std::int64_t{1}}, {"reduce", std::string("max")}},
           "reduce is 'max'; it must be sum, mean, prod, amax or amin"}};
}

std::vector<Symmetry> symmetries(const Sample& s) {
  const Shape& x = s.in[0].shape();
  const int axis = normalize_axis("scatter_reduce", s.attrs.integer("axis"), x.rank());
  std::vector<Symmetry> list;
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis && x[i] >= 2)
      list.push_back({fmt::format("axis {}", i), {in_leg(0, i), in_leg(1, i), in_leg(2, i), out_leg(0, i)}});
  if (x[axis] >= 2) list.push_back({"indexed axis", {in_leg(0, axis), out_leg(0, axis)}, {1}});
  return list;
}

} // namespace

constinit const OpDef scatter_reduce_op = row({
    .name = "scatter_reduce",
    .math = "y = x, then y[.., index[.., k, ..], ..] joined with source[.., k, ..]: sum, mean, product or extreme",
    .inputs = {{"x"}, {"index"}, {"source"}},
    .attributes = {attr_int("axis", -1, "the axis that the index runs over"),
                   required_attr("reduce", AttrKind::text, "sum, mean, prod, amax or amin"),
                   attr_bool("include_self", true,
                             "x is one of the elements that are joined; else it stays where "
                             "none goes")},
    .infer = infer,
    .cpu = scatter_cpu,
    .no_cuda = "elements must be joined in index order; scatter_add has a kernel that sorts them",
    .saves = saves::in(0) | saves::in(1) | saves::in(2) | saves::out(0),
    .vjp = rule,
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = scatter_work<2>,
});

Tensor scatter_reduce(const Tensor& x, int axis, const Tensor& index, const Tensor& source, const char* reduce,
                      bool include_self) {
  return call1(scatter_reduce_op, {x, index, source},
               {{"axis", std::int64_t{axis}}, {"reduce", std::string(reduce)}, {"include_self", include_self}});
}

} // namespace eg
