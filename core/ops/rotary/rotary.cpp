// Rotary position embedding (Su et al., "RoFormer", 2021): pairs of features of the token at position p turn by the
// angle p base^(-2 i / dims). The map is linear and orthogonal: its gradient is the rotation by minus the angle, which
// is the same op with `inverse`.

#include "core/call.h"
#include "core/device/module.h"
#include "core/exact/elementary.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <vector>

namespace eg {
namespace {

/// One call. Rows of x are features of one (batch entry, token, head).
struct Layout {
  std::int64_t batch = 1, tokens = 0, heads = 0, features = 0, dims = 0;
  bool heads_first = false, interleaved = false, by_batch = false;

  /// Row of the positions that belongs to row `r` of x.
  std::int64_t position_row(std::int64_t r) const {
    const std::int64_t b = r / (heads * tokens);
    const std::int64_t t = heads_first ? r % tokens : r / heads % tokens;
    return by_batch ? b * tokens + t : t;
  }
};

Layout layout_of(const OpArgs& args) {
  check_floating(args, 0);
  check_dtype(args, 1, DType::i64);
  check_rank_at_least(args, 0, 3);
  const Shape& x = args.in[0].shape();
  Layout layout;
  layout.heads_first = args.attrs.flag("heads_first");
  layout.interleaved = args.attrs.flag("interleaved");
  layout.tokens = x[layout.heads_first ? -2 : -3];
  layout.heads = x[layout.heads_first ? -3 : -2];
  layout.features = x[-1];
  layout.dims = args.attrs.integer("dims") == 0 ? layout.features : args.attrs.integer("dims");
  if (layout.dims < 0 || layout.dims > layout.features || layout.dims % 2 != 0)
    throw ValueError(
        fmt::format("{}: dims must be even, 0 to {}, it is {}", args.op.name, layout.features, layout.dims));
  if (const double base = args.attrs.real("base"); !(base > 0.0 && std::isfinite(base)))
    throw ValueError(fmt::format("{}: base must be positive and finite, it is {}", args.op.name, base));
  Shape leading = Shape(x.dims().first(static_cast<std::size_t>(x.rank() - 3)));
  layout.batch = leading.numel();
  leading.push_back(layout.tokens);
  if (const std::size_t given = args.attrs.reals("frequencies").size();
      given != 0 && given != static_cast<std::size_t>(layout.dims / 2))
    throw ValueError(fmt::format("{}: frequencies must be one for each of {} pairs, there are {}", args.op.name,
                                 layout.dims / 2, given));
  layout.by_batch = args.in[1].rank() > 1;
  if (layout.by_batch)
    check_shape(args, 1, leading);
  else
    check_shape(args, 1, {layout.tokens});
  return layout;
}

/// How far pair i turns from one position to the next, radians.
double frequency_of(const OpArgs& args, const Layout& layout, std::int64_t i) {
  const std::vector<double>& given = args.attrs.reals("frequencies");
  if (!given.empty()) return given[static_cast<std::size_t>(i)];
  return elementary::pow(args.attrs.real("base"), -2.0 * static_cast<double>(i) / static_cast<double>(layout.dims));
}

std::vector<double> frequencies_of(const OpArgs& args, const Layout& layout) {
  std::vector<double> frequency(static_cast<std::size_t>(layout.dims / 2));
  for (std::size_t i = 0; i < frequency.size(); ++i)
    frequency[i] = frequency_of(args, layout, static_cast<std::int64_t>(i));
  return frequency;
}

std::vector<TensorSpec> infer(const OpArgs& args) {
  layout_of(args);
  return {{args.in[0].shape(), args.in[0].dtype()}};
}

/// cos and sin of every angle, [positions, dims / 2], rounded once. Sines carry the sign of the direction.
template <class T> struct Angles {
  std::vector<T> cosine, sine;

  Angles(const OpArgs& args, const Layout& layout) {
    const Tensor positions = packed(args.in[1]);
    const std::int64_t half = layout.dims / 2;
    const std::vector<double> frequency = frequencies_of(args, layout);
    const double sign = args.attrs.flag("inverse") ? -1.0 : 1.0;
    cosine.resize(static_cast<std::size_t>(positions.numel() * half));
    sine.resize(cosine.size());
    const std::int64_t* const at = positions.data<std::int64_t>();
    parallel::for_each(
        positions.numel(), parallel::grain_for_bytes(half * 256), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t p = begin; p < end; ++p)
            for (std::int64_t i = 0; i < half; ++i) {
              const double angle = static_cast<double>(at[p]) * frequency[static_cast<std::size_t>(i)];
              cosine[static_cast<std::size_t>(p * half + i)] = static_cast<T>(elementary::cos(angle));
              sine[static_cast<std::size_t>(p * half + i)] = static_cast<T>(sign * elementary::sin(angle));
            }
        });
  }
};

/// Turns the first `dims` features of one row; the others stay.
template <class T>
void rotate_row(const Layout& layout, const T* x, T* y, const T* __restrict cosine, const T* __restrict sine) {
  const std::int64_t half = layout.dims / 2;
  const std::int64_t step = layout.interleaved ? 2 : 1, apart = layout.interleaved ? 1 : half;
  if (step == 1) { // the compiler makes vectors of this one
    const T *const first = x, *const second = x + half;
    T* __restrict const to_first = y, * __restrict const to_second = y + half;
    for (std::int64_t i = 0; i < half; ++i) {
      to_first[i] = first[i] * cosine[i] - second[i] * sine[i];
      to_second[i] = second[i] * cosine[i] + first[i] * sine[i];
    }
  } else {
    for (std::int64_t i = 0; i < half; ++i) {
      const T a = x[step * i], b = x[step * i + apart];
      y[step * i] = a * cosine[i] - b * sine[i];
      y[step * i + apart] = b * cosine[i] + a * sine[i];
    }
  }
  std::copy(x + layout.dims, x + layout.features, y + layout.dims);
}

template <class T> void run_as(const OpArgs& args, const Tensor& x, Tensor& y) {
  const Layout layout = layout_of(args);
  if (x.numel() == 0) return;
  const Angles<T> angles(args, layout);
  const T* const from = x.data<T>();
  T* const to = y.mutable_data<T>(args.op.name.data());
  const std::int64_t grain = parallel::grain_for_bytes(layout.features * static_cast<std::int64_t>(sizeof(T)));
  parallel::for_each(x.numel() / layout.features, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto first = static_cast<std::size_t>(layout.position_row(r) * (layout.dims / 2));
      rotate_row(layout, from + r * layout.features, to + r * layout.features, angles.cosine.data() + first,
                 angles.sine.data() + first);
    }
  });
}

void kernel(const OpArgs& args, std::span<Tensor> out) {
  visit_floating(out[0].dtype(), [&]<class T>() { run_as<T>(args, packed(args.in[0]), out[0]); });
}

void run_on_device(const OpArgs& args, std::span<Tensor> out) {
  const Layout layout = layout_of(args);
  const Tensor x = packed(args.in[0]), positions = packed(args.in[1]);
  if (x.numel() == 0) return;
  const std::int64_t half = layout.dims / 2;
  const Tensor frequencies = Tensor::from(frequencies_of(args, layout), {half});
  Tensor cosine = Tensor::empty({positions.numel(), half}, x.dtype());
  Tensor sine = Tensor::empty({positions.numel(), half}, x.dtype());
  const device::RotaryJob job{x.dtype(),
                              out[0].mutable_device_bytes("rotary"),
                              x.device_bytes(),
                              reinterpret_cast<const std::int64_t*>(positions.device_bytes()),
                              reinterpret_cast<const double*>(frequencies.device_bytes()),
                              cosine.mutable_device_bytes(),
                              sine.mutable_device_bytes(),
                              positions.numel(),
                              layout.batch,
                              layout.tokens,
                              layout.heads,
                              layout.features,
                              half,
                              layout.heads_first,
                              layout.interleaved,
                              layout.by_batch,
                              args.attrs.flag("inverse") ? -1.0 : 1.0};
  device::launch(x.device(), "rotary", &device::Table::rotary, job);
}

Gradients rule(const VjpArgs& args) {
  if (!args.wants(0)) return {{}, {}};
  Attrs attrs = args.attrs;
  attrs.set("inverse", !args.attrs.flag("inverse"));
  return {call1(rotary_op, {args.grad[0], args.in[1]}, attrs), {}};
}

std::vector<Tensor> reference(const OpArgs& args) {
  const Layout layout = layout_of(args);
  Tensor y = reference_output(args.in[0].shape());
  const std::int64_t* positions = args.in[1].data<std::int64_t>();
  const double sign = args.attrs.flag("inverse") ? -1.0 : 1.0;
  for (std::int64_t r = 0; r < y.numel() / std::max<std::int64_t>(layout.features, 1); ++r) {
    const double* from = values(args.in[0]) + r * layout.features;
    double* to = values(y) + r * layout.features;
    std::copy_n(from, layout.features, to);
    for (std::int64_t i = 0; i < layout.dims / 2; ++i) {
      const std::int64_t a = layout.interleaved ? 2 * i : i;
      const std::int64_t b = layout.interleaved ? 2 * i + 1 : i + layout.dims / 2;
      const double angle =
          sign * static_cast<double>(positions[layout.position_row(r)]) * frequency_of(args, layout, i);
      to[a] = from[a] * std::cos(angle) - from[b] * std::sin(angle);
      to[b] = from[a] * std::sin(angle) + from[b] * std::cos(angle);
    }
  }
  return {y};
}

Tensor sample_positions(const Shape& shape, std::uint64_t tag) {
  return random_integers(shape, RandomKey{20240719, tag}, 0, 50);
}

std::vector<Sample> samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, 1100 + tag); };
  const Attrs interleaved{{"interleaved", true}}, heads_first{{"heads_first", true}};
  return {{{x({2, 5, 3, 8}, 1), sample_positions({5}, 1)}, {}, "rotate half"},
          {{x({2, 5, 3, 8}, 2), sample_positions({2, 5}, 2)}, interleaved, "interleaved, positions of each sample"},
          {{x({2, 3, 5, 6}, 3), sample_positions({5}, 3)}, heads_first, "heads first"},
          {{x({2, 3, 5, 6}, 4), sample_positions({2, 5}, 4)},
           {{"heads_first", true}, {"interleaved", true}, {"inverse", true}, {"base", 100.0}},
           "heads first, interleaved, backwards, another base"},
          {{x({7, 2, 9}, 5), sample_positions({7}, 5)}, {{"dims", std::int64_t{4}}}, "4 of 9 features"},
          {{x({2, 5, 3, 6}, 12), sample_positions({5}, 12)},
           {{"frequencies", std::vector<double>{0.7, -0.3, 0.01}}},
           "given frequencies"},
          {{x({3, 2, 66}, 6), sample_positions({3}, 6)}, {}, "66 features"},
          {{scattered(x({4, 6, 4}, 7)), scattered(sample_positions({4}, 7))}, {}, "strided views"},
          {{x({1, 1, 1, 2}, 8), sample_positions({1, 1}, 8)}, {}, "extents of 1"},
          {{x({2, 0, 2, 4}, 9), sample_positions({0}, 9)}, {}, "no tokens"},
          {{x({3, 2, 0}, 10), sample_positions({3}, 10)}, {}, "no features"}};
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::ones({2, 3, 2, 4});
  const Tensor positions = sample_positions({3}, 11);
  return {{{x, sample_positions({2}, 12)}, {}, "rotary: positions must be [3], it is [2]"},
          {{x, sample_positions({3, 2}, 13)}, {}, "rotary: positions must be [2, 3], it is [3, 2]"},
          {{x, Tensor::ones({3})}, {}, "positions must be i64, it is f32"},
          {{x, positions}, {{"dims", std::int64_t{3}}}, "dims must be even, 0 to 4, it is 3"},
          {{x, positions}, {{"dims", std::int64_t{6}}}, "dims must be even, 0 to 4, it is 6"},
          {{x, positions}, {{"base", 0.0}}, "base must be positive"},
          {{x, positions},
           {{"frequencies", std::vector<double>{1.0}}},
           "rotary: frequencies must be one for each of 2 pairs, there are 1"},
          {{Tensor::ones({3, 4}), positions}, {}, "at least 3 axes"},
          {{Tensor::ones({3, 2, 4}, DType::i64), positions}, {}, "x must be f32 or f64"}};
}

// Tokens together with their positions, heads and leading axes. Features turn in pairs: no permutation of them alone.
std::vector<Symmetry> symmetries(const Sample& sample) {
  const Tensor &x = sample.in[0], &positions = sample.in[1];
  const bool heads_first = sample.attrs.has("heads_first") && sample.attrs.flag("heads_first");
  const int tokens = heads_first ? -2 : -3, heads = heads_first ? -3 : -2;
  std::vector<Symmetry> all;
  if (x.size(tokens) >= 2) all.push_back({"tokens", {in_leg(0, tokens), in_leg(1, -1), out_leg(0, tokens)}});
  if (x.size(heads) >= 2) all.push_back({"heads", {in_leg(0, heads), out_leg(0, heads)}});
  for (int axis = 0; axis + 3 < x.rank(); ++axis) {
    if (x.size(axis) < 2) continue;
    Symmetry symmetry{fmt::format("leading axis {}", axis), {in_leg(0, axis), out_leg(0, axis)}};
    if (positions.rank() > 1) symmetry.legs.push_back(in_leg(1, axis));
    all.push_back(std::move(symmetry));
  }
  return all;
}

} // namespace

constinit const OpDef rotary_op = row({
    .name = "rotary",
    .math = "(y_a, y_b) = (x_a cos w - x_b sin w, x_a sin w + x_b cos w), w = position base^(-2i/dims), or "
            "position frequencies_i, for the pairs (a, b) = (i, i + dims/2) or, interleaved, (2i, 2i + 1)",
    .inputs = {{"x"}, {"positions"}},
    .attributes = {attr_real("base", 10000.0, "theta: the slowest pair turns by position / base^(1 - 2/dims)"),
                   attr_bool("interleaved", false, "pairs of neighbours (GPT-J) instead of halves (NeoX, Llama)"),
                   attr_int("dims", 0, "leading features that turn; 0 means all"),
                   attr_bool("heads_first", false, "x is [..., heads, T, D] instead of [..., T, heads, D]"),
                   attr_reals("frequencies", "turn of each pair by position, in place of base^(-2i/dims)"),
                   attr_bool("inverse", false, "turn by minus the angle")},
    .infer = infer,
    .cpu = kernel,
    .cuda = run_on_device,
    .saves = saves::in(1),
    .vjp = rule,
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = elementwise_work<3>,
});

Tensor rotary(const Tensor& x, const Tensor& positions, const RotaryOptions& options) {
  return call1(rotary_op, {x, positions},
               {{"base", options.base},
                {"interleaved", options.interleaved},
                {"dims", options.dims},
                {"heads_first", options.heads_first},
                {"frequencies", options.frequencies}});
}

} // namespace eg
