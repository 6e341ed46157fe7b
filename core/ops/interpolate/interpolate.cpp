// interpolate and its adjoint: y = A_h x A_w^T with one sparse matrix for each axis, so the adjoint is the same kernel
// with both transposed.

#include "core/call.h"
#include "core/device/module.h"
#include "core/ops.h"
#include "core/ops/fold/windows.h"
#include "core/ops/interpolate/resample.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

namespace eg {
namespace {

using resample::Filter;
using resample::Matrix;

struct Settings {
  Filter filter;
  bool align_corners, antialias;

  bool nearest() const { return filter == Filter::nearest || filter == Filter::nearest_exact; }
  Matrix matrix(std::int64_t in, std::int64_t out) const {
    return antialias ? resample::antialiased(filter, in, out, align_corners)
                     : resample::interpolation(filter, in, out, align_corners);
  }
};

Settings settings_of(const OpArgs& args) {
  constexpr std::array<std::pair<std::string_view, Filter>, 4> modes = {{{"nearest", Filter::nearest},
                                                                         {"nearest-exact", Filter::nearest_exact},
                                                                         {"bilinear", Filter::bilinear},
                                                                         {"bicubic", Filter::bicubic}}};
  const std::string& mode = args.attrs.text("mode");
  const auto* found = std::find_if(modes.begin(), modes.end(), [&](const auto& m) { return m.first == mode; });
  if (found == modes.end())
    throw ValueError(
        fmt::format("{}: mode is '{}'; it must be nearest, nearest-exact, bilinear or bicubic", args.op.name, mode));
  const Settings s{found->second, args.attrs.flag("align_corners"), args.attrs.flag("antialias")};
  if (s.nearest() && (s.align_corners || s.antialias))
    throw ValueError(
        fmt::format("{}: align_corners and antialias are for bilinear and bicubic, mode is '{}'", args.op.name, mode));
  return s;
}

/// x [N, C, from] and y [N, C, to].
struct Extents {
  std::int64_t images, channels;
  Size2 from, to;
  Shape x_shape() const { return {images, channels, from.rows, from.columns}; }
  Shape y_shape() const { return {images, channels, to.rows, to.columns}; }
};

Shape images_of(const OpArgs& args) {
  check_floating(args, 0);
  const Shape& s = args.in[0].shape();
  if (s.rank() != 4)
    throw ShapeError(
        fmt::format("{}: {} must be [N, C, H, W], it is {}", args.op.name, args.op.inputs[0].name, s.str()));
  return s;
}

Size2 size_of(const OpArgs& args, std::string_view name) {
  const Size2 size = windows::pair_of(args, name, 0, 1);
  if (size.rows == 0) throw ValueError(fmt::format("{}: {} must not be empty", args.op.name, name));
  return size;
}

Extents extents(const OpArgs& args) {
  const Shape s = images_of(args);
  settings_of(args);
  if (s[2] < 1 || s[3] < 1 || s[2] > windows::most || s[3] > windows::most)
    throw ShapeError(
        fmt::format("{}: the image has no pixels, or more than can be counted: x is {}", args.op.name, s.str()));
  return {s[0], s[1], {s[2], s[3]}, size_of(args, "size")};
}

Extents adjoint_extents(const OpArgs& args) {
  const Shape s = images_of(args);
  settings_of(args);
  const Size2 to = size_of(args, "size");
  const Extents e{s[0], s[1], size_of(args, "input_size"), to};
  check_shape(args, 0, e.y_shape());
  return e;
}

/// y = rows x columns^T for every plane, through the columns first; sums in double, in the order of the source.
template <class T> void apply(const Matrix& rows, const Matrix& columns, std::int64_t planes, const T* x, T* y) {
  const std::int64_t width = columns.rows();
  parallel::for_each(planes, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> narrow(static_cast<std::size_t>(rows.columns * width));
    std::vector<double> line(static_cast<std::size_t>(width));
    for (std::int64_t p = begin; p < end; ++p) {
      const T* plane = x + p * rows.columns * columns.columns;
      for (std::int64_t r = 0; r < rows.columns; ++r)
        for (std::int64_t j = 0; j < width; ++j) {
          const T* from = plane + r * columns.columns + columns.first[static_cast<std::size_t>(j)];
          const double* w = columns.row(j);
          double sum = 0;
          for (std::int64_t k = 0; k < columns.count(j); ++k) sum += w[k] * static_cast<double>(from[k]);
          narrow[static_cast<std::size_t>(r * width + j)] = sum;
        }
      for (std::int64_t i = 0; i < rows.rows(); ++i) {
        std::fill(line.begin(), line.end(), 0.0);
        for (std::int64_t k = 0; k < rows.count(i); ++k) {
          const double w = rows.row(i)[k];
          const double* from = narrow.data() + (rows.first[static_cast<std::size_t>(i)] + k) * width;
          for (std::size_t j = 0; j < line.size(); ++j) line[j] += w * from[j];
        }
        T* to = y + (p * rows.rows() + i) * width;
        for (std::size_t j = 0; j < line.size(); ++j) to[j] = static_cast<T>(line[j]);
      }
    }
  });
}

/// The matrices of both axes.
struct Matrices {
  Matrix rows, columns;

  template <bool adjoint> static Matrices of(const OpArgs& args, const Extents& e) {
    const Settings s = settings_of(args);
    Matrices m{s.matrix(e.from.rows, e.to.rows), s.matrix(e.from.columns, e.to.columns)};
    return adjoint ? Matrices{resample::transposed(m.rows), resample::transposed(m.columns)} : m;
  }
};

template <bool adjoint> void kernel(const OpArgs& args, std::span<Tensor> out) {
  const Extents e = adjoint ? adjoint_extents(args) : extents(args);
  if (out[0].numel() == 0) return;
  const Matrices m = Matrices::of<adjoint>(args, e);
  const Tensor x = packed(args.in[0]);
  visit_floating(x.dtype(), [&]<class T>() {
    apply<T>(m.rows, m.columns, e.images * e.channels, x.data<T>(), out[0].mutable_data<T>("interpolate"));
  });
}

/// A matrix in the memory of the present device.
struct MatrixThere {
  Tensor first, start, weights;
  device::ResampleMatrix matrix;

  explicit MatrixThere(const Matrix& m)
      : first(Tensor::from(m.first, {m.rows()})), start(Tensor::from(m.start, {m.rows() + 1})),
        weights(Tensor::from(m.weights, {static_cast<std::int64_t>(m.weights.size())})),
        matrix{m.rows(), m.columns, reinterpret_cast<const std::int64_t*>(first.device_bytes()),
               reinterpret_cast<const std::int64_t*>(start.device_bytes()),
               reinterpret_cast<const double*>(weights.device_bytes())} {}
};

template <bool adjoint> void kernel_cuda(const OpArgs& args, std::span<Tensor> out) {
  const Extents e = adjoint ? adjoint_extents(args) : extents(args);
  if (out[0].numel() == 0) return;
  const Matrices m = Matrices::of<adjoint>(args, e);
  const MatrixThere rows(m.rows), columns(m.columns);
  const Tensor x = packed(args.in[0]);
  const std::int64_t planes = e.images * e.channels;
  Tensor half_way = Tensor::empty({planes, m.rows.columns, m.columns.rows()}, DType::f64);
  const char* const name = args.op.name.data();
  const device::ResampleJob job{x.dtype(),        out[0].mutable_device_bytes(name),
                                x.device_bytes(), reinterpret_cast<double*>(half_way.mutable_device_bytes()),
                                planes,           rows.matrix,
                                columns.matrix};
  device::launch(x.device(), name, &device::Table::resample, job);
}

// --- reference: the weight of source p in result i, from the formulas alone ---

double keys(double x, double a) {
  x = std::abs(x);
  // the published cubics, by their zeros: (a + 2) x^3 - (a + 3) x^2 + 1 and a (x^3 - 5 x^2 + 8 x - 4)
  if (x <= 1) return (1 - x) * (1 + x - (a + 2) * x * x);
  return x < 2 ? a * (x - 1) * (x - 2) * (x - 2) : 0;
}

double smooth_weight(const Settings& s, double step, std::int64_t in, std::int64_t i, std::int64_t p) {
  const double stretch = std::max(step, 1.0);
  const double centre = (static_cast<double>(i) + 0.5) * step;
  const double support = (s.filter == Filter::bicubic ? 2 : 1) * stretch;
  const auto raw = [&](std::int64_t q) {
    if (q < static_cast<std::int64_t>(centre - support + 0.5) || q >= static_cast<std::int64_t>(centre + support + 0.5))
      return 0.0;
    const double x = (static_cast<double>(q) + 0.5 - centre) / stretch;
    return s.filter == Filter::bicubic ? keys(x, -0.5) : std::max(0.0, 1 - std::abs(x));
  };
  double total = 0;
  for (std::int64_t q = 0; q < in; ++q) total += raw(q);
  return total != 0 ? raw(p) / total : 0.0;
}

double weight(const Settings& s, std::int64_t in, std::int64_t out, std::int64_t i, std::int64_t p) {
  const auto n = static_cast<double>(in);
  double step = n / static_cast<double>(out);
  if (s.align_corners) step = out > 1 ? (n - 1) / static_cast<double>(out - 1) : 0.0;
  if (s.antialias) return smooth_weight(s, step, in, i, p);
  if (s.nearest()) {
    const float shift = s.filter == Filter::nearest ? 0.0F : 0.5F;
    const float place = (static_cast<float>(i) + shift) * (static_cast<float>(in) / static_cast<float>(out));
    return std::min(static_cast<std::int64_t>(place), in - 1) == p ? 1.0 : 0.0;
  }
  // place - q, of whole numbers, so that it is rounded once
  const auto distance = [&](std::int64_t q) {
    if (s.align_corners && out == 1) return -static_cast<double>(q);
    if (s.align_corners) return static_cast<double>(i * (in - 1) - q * (out - 1)) / static_cast<double>(out - 1);
    return static_cast<double>((2 * i + 1) * in - (2 * q + 1) * out) / static_cast<double>(2 * out);
  };
  if (s.filter == Filter::bilinear) {
    if (distance(0) <= 0) return p == 0 ? 1.0 : 0.0;
    if (distance(in - 1) >= 0) return p == in - 1 ? 1.0 : 0.0;
    return std::max(0.0, 1 - std::abs(distance(p)));
  }
  double total = 0; // every neighbour beyond the edge is the edge's pixel
  for (std::int64_t q = -2; q <= in + 1; ++q)
    if (std::clamp<std::int64_t>(q, 0, in - 1) == p) total += keys(distance(q), -0.75);
  return total;
}

Tensor loops(const OpArgs& args, const Extents& e, bool adjoint) {
  const Settings s = settings_of(args);
  Tensor out = reference_output(adjoint ? e.x_shape() : e.y_shape());
  for (std::int64_t i = 0; i < e.to.rows; ++i)
    for (std::int64_t j = 0; j < e.to.columns; ++j)
      for (std::int64_t r = 0; r < e.from.rows; ++r)
        for (std::int64_t q = 0; q < e.from.columns; ++q) {
          const double w = weight(s, e.from.rows, e.to.rows, i, r) * weight(s, e.from.columns, e.to.columns, j, q);
          if (w == 0) continue;
          for (std::int64_t p = 0; p < e.images * e.channels; ++p) {
            const std::int64_t y = (p * e.to.rows + i) * e.to.columns + j;
            const std::int64_t x = (p * e.from.rows + r) * e.from.columns + q;
            values(out)[adjoint ? x : y] += w * values(args.in[0])[adjoint ? y : x];
          }
        }
  return out;
}

// --- samples ---

struct Case {
  Shape x;
  Size2 size;
  const char* mode;
  InterpolateOptions options;
  bool strided;
  const char* note;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{2, 3, 5, 4}, {7, 9}, "bilinear", {}, false, "bilinear, larger"},
      {{2, 2, 7, 9}, {3, 4}, "bilinear", {}, true, "bilinear, smaller"},
      {{1, 2, 5, 6}, {9, 3}, "bilinear", {.align_corners = true}, false, "bilinear, corners aligned"},
      {{1, 2, 9, 7}, {4, 3}, "bilinear", {.antialias = true}, false, "bilinear, antialiased"},
      {{2, 2, 5, 6}, {8, 7}, "bicubic", {}, false, "bicubic, larger"},
      {{1, 2, 5, 3}, {3, 1}, "bicubic", {.align_corners = true}, false, "bicubic, corners aligned"},
      {{1, 2, 11, 7}, {4, 9}, "bicubic", {.antialias = true}, false, "bicubic, antialiased"},
      {{1, 1, 9, 8}, {4, 5}, "bicubic", {.align_corners = true, .antialias = true}, false, "both"},
      {{2, 2, 5, 3}, {7, 2}, "nearest", {}, false, "nearest"},
      {{1, 2, 5, 3}, {7, 2}, "nearest-exact", {}, false, "nearest, from the centres"},
      {{1, 1, 1, 1}, {3, 2}, "bicubic", {}, false, "from one pixel"},
      {{1, 2, 33, 7}, {1, 1}, "bilinear", {.antialias = true}, false, "to one pixel"},
      {{0, 2, 4, 4}, {3, 3}, "bilinear", {}, false, "no images"}};
  return all;
}

Attrs attrs_of(Size2 size, const char* mode, const InterpolateOptions& o) {
  return {{"size", windows::list(size)},
          {"mode", std::string(mode)},
          {"align_corners", o.align_corners},
          {"antialias", o.antialias}};
}

Attrs with_input_size(Attrs attrs, Size2 size) {
  attrs.set("input_size", windows::list(size));
  return attrs;
}

Attrs without_input_size(const Attrs& attrs) {
  Attrs fewer;
  for (const auto& [name, value] : attrs.items())
    if (name != "input_size") fewer.set(name, value);
  return fewer;
}

template <bool adjoint> std::vector<Sample> samples(DType dtype) {
  std::vector<Sample> all;
  for (const Case& c : cases()) {
    const Shape y{c.x[0], c.x[1], c.size.rows, c.size.columns};
    const Tensor x = sample_normal(adjoint ? y : c.x, dtype, (adjoint ? 2520U : 2500U) + all.size());
    const Attrs attrs = attrs_of(c.size, c.mode, c.options);
    all.push_back({{c.strided ? scattered(x) : x}, adjoint ? with_input_size(attrs, {c.x[2], c.x[3]}) : attrs, c.note});
  }
  return all;
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::zeros({1, 2, 4, 4});
  return {
      {{Tensor::zeros({4, 4})}, attrs_of(2, "bilinear", {}), "x must be [N, C, H, W], it is [4, 4]"},
      {{x}, attrs_of(2, "lanczos", {}), "mode is 'lanczos'; it must be nearest, nearest-exact, bilinear or bicubic"},
      {{x}, attrs_of(2, "nearest", {.antialias = true}), "align_corners and antialias are for bilinear and bicubic"},
      {{x}, attrs_of({2, 0}, "bilinear", {}), "size is 0"},
      {{x}, {{"size", std::vector<std::int64_t>{}}}, "size must not be empty"},
      {{Tensor::zeros({1, 2, 0, 4})}, attrs_of(2, "bilinear", {}), "the image has no pixels"},
      {{x.to(DType::u8)}, attrs_of(2, "bilinear", {}), "x must be f32 or f64, it is u8"}};
}

std::vector<Refusal> adjoint_refuses() {
  const Tensor g = Tensor::zeros({1, 2, 4, 4});
  return {{{g}, with_input_size(attrs_of({4, 5}, "bilinear", {}), 3), "g must be [1, 2, 4, 5], it is [1, 2, 4, 4]"},
          {{Tensor::zeros({4, 4})}, with_input_size(attrs_of(4, "bilinear", {}), 3), "g must be [N, C, H, W]"},
          {{g}, with_input_size(attrs_of(4, "bilinear", {}), 0), "input_size is 0"}};
}

std::vector<Symmetry> planes(const Sample&) {
  return {{.name = "kept: images", .legs = {in_leg(0, 0), out_leg(0, 0)}, .bit_exact = true},
          {.name = "kept: channels", .legs = {in_leg(0, 1), out_leg(0, 1)}, .bit_exact = true}};
}

/// Pixels of the half-way image and of the result, times the weights of one pixel.
Work cost(const OpArgs& args, const Extents& e, std::span<const TensorSpec> out) {
  const Settings s = settings_of(args);
  const double taps = s.nearest() ? 1 : s.filter == Filter::bilinear ? 2 : 4;
  const auto stretch = [&](std::int64_t from, std::int64_t to) {
    return s.antialias ? std::max(1.0, static_cast<double>(from) / static_cast<double>(to)) : 1.0;
  };
  const auto planes = static_cast<double>(e.images * e.channels);
  const double half_way = static_cast<double>(e.from.rows) * static_cast<double>(e.to.columns);
  const double result = static_cast<double>(e.to.rows) * static_cast<double>(e.to.columns);
  return {2 * taps * planes *
              (half_way * stretch(e.from.columns, e.to.columns) + result * stretch(e.from.rows, e.to.rows)),
          bytes_moved(args, out)};
}

constexpr AttrSpec size_attr = required_attr("size", AttrKind::integers, "rows and columns of the result");
constexpr AttrSpec mode_attr = attr_text("mode", "bilinear", "nearest, nearest-exact, bilinear or bicubic");
constexpr AttrSpec corners_attr = attr_bool("align_corners", false, "the corners' centres are kept");
constexpr AttrSpec antialias_attr = attr_bool("antialias", false, "shrinking averages over all pixels covered");

} // namespace

constinit const OpDef interpolate_op = row({
    .name = "interpolate",
    .math = "y = A_h x A_w^T for every plane, A_n the mode's weights between the old and the new pixels",
    .inputs = {{"x"}},
    .attributes = {size_attr, mode_attr, corners_attr, antialias_attr},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      return {{extents(args).y_shape(), args.in[0].dtype()}};
    },
    .cpu = kernel<false>,
    .cuda = kernel_cuda<false>,
    .cuda_same_bits = true,
    .vjp = [](const VjpArgs& v) -> Gradients {
      const Shape& x = v.in[0].shape();
      return {call1(interpolate_backward_op, {v.grad[0]}, with_input_size(v.attrs, {x[2], x[3]}))};
    },
    .reference = [](const OpArgs& args) -> std::vector<Tensor> { return {loops(args, extents(args), false)}; },
    .samples = samples<false>,
    .refuses = refuses,
    .symmetries = planes,
    .work = [](const OpArgs& args, std::span<const TensorSpec> out) { return cost(args, extents(args), out); },
});

constinit const OpDef interpolate_backward_op = row({
    .name = "interpolate_backward",
    .math = "dx = A_h^T g A_w for every plane, A_n the mode's weights between the old and the new pixels",
    .inputs = {{"g"}},
    .outputs = {"dx"},
    .attributes = {required_attr("input_size", AttrKind::integers, "rows and columns of x"), size_attr, mode_attr,
                   corners_attr, antialias_attr},
    .infer = [](const OpArgs& args) -> std::vector<TensorSpec> {
      return {{adjoint_extents(args).x_shape(), args.in[0].dtype()}};
    },
    .cpu = kernel<true>,
    .cuda = kernel_cuda<true>,
    .cuda_same_bits = true,
    .vjp = [](const VjpArgs& v) -> Gradients {
      return {call1(interpolate_op, {v.grad[0]}, without_input_size(v.attrs))};
    },
    .reference = [](const OpArgs& args) -> std::vector<Tensor> { return {loops(args, adjoint_extents(args), true)}; },
    .samples = samples<true>,
    .refuses = adjoint_refuses,
    .symmetries = planes,
    .work = [](const OpArgs& args, std::span<const TensorSpec> out) { return cost(args, adjoint_extents(args), out); },
});

Tensor interpolate(const Tensor& x, Size2 size, const char* mode, const InterpolateOptions& options) {
  return call1(interpolate_op, {x}, attrs_of(size, mode, options));
}

Tensor resize_pillow(const Tensor& x, Size2 size, const char* mode) {
  return interpolate(x, size, mode, {.antialias = true});
}

} // namespace eg
