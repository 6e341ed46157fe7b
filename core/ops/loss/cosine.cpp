// The cosine of the angle between vectors, and the loss made of it. Vectors are divided by their largest element first,
// so that no square overflows or vanishes; the cosine does not depend on that factor, which therefore counts as a
// constant.

#include "core/device/transfer.h"
#include "core/memory/scratch_pool.h"
#include "core/ops/list.h"
#include "core/ops/loss/parts.h"
#include "core/ops/pointwise/kernels.h"
#include "core/ops/reduce/kernels.h"
#include "core/ops/reduce/row_norm.h"
#include "core/reduction.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <optional>

namespace eg {
namespace {

using namespace loss_parts;

/// x / max(|x|, eps) along the axis is scaled * factor.
struct Direction {
  Tensor scaled; ///< x over its largest |x_j|, or over 1
  Tensor factor; ///< one a line: the axis has extent 1
};

Direction direction(const Tensor& x, int axis, double eps) {
  const Tensor one = Tensor::ones({}, x.dtype());
  Tensor unit; // the largest |x_j|, or 1 for a line of zeros; its inverse may be beyond the largest number
  Tensor is_zero;
  {
    const PauseRecording pause;
    const Tensor largest = norm(x, std::numeric_limits<double>::infinity(), {axis}, true);
    unit = where(logical_and(gt(largest, 0.0), isfinite(largest)), largest, one);
    is_zero = eq(largest, 0.0);
  }
  const Tensor scaled = x / unit;
  const Tensor length = norm(scaled, 2.0, {axis}, true);
  Tensor longer;  // 1 where the norm is at least eps, else 0
  Tensor shorter; // where it is not: the largest |x_j| / eps, else 0
  {
    const PauseRecording pause;
    const Tensor wide_unit = unit.to(DType::f64);
    const Tensor is_short = logical_or(is_zero, lt(wide_unit * length.to(DType::f64), eps));
    longer = cast(logical_not(is_short), x.dtype());
    const Tensor by_eps = eps > 0.0 ? (wide_unit / eps).to(x.dtype()) : one;
    shorter = where(is_short, by_eps, Tensor::zeros({}, x.dtype()));
  }
  return {scaled, longer / (length + affine(longer, -1.0, 1.0)) + shorter};
}

/// direction() of one row: writes `scaled`, returns the factor.
template <class T> T direction_of_row(const T* x, std::int64_t n, double eps, T* scaled) {
  const T largest = reduce::row_largest(x, n);
  const T unit = largest > 0 && std::isfinite(largest) ? largest : T{1};
  pointwise::kernel<T>(pointwise::Binary::div)(x, &unit, scaled, n, pointwise::Steps::first);
  const T length = reduce::row_length(scaled, n);
  const double wide_unit = static_cast<double>(unit);
  if (largest == 0 || wide_unit * static_cast<double>(length) < eps)
    return T{0} / (length + T{1}) + static_cast<T>(wide_unit * (1.0 / eps)); // as a tensor over a number
  return T{1} / length;
}

/// cosine() of packed rows in one pass, with its bits. Nothing where it is recorded or exact, and for rows that are
/// added up in several pieces.
std::optional<Tensor> cosine_of_rows(const Tensor& a, const Tensor& b, double eps) {
  const Tensor operands[] = {a, b};
  const std::int64_t n = a.size(-1);
  if (n == 0 || n > reduce::row_piece || reduction() == Reduction::exact || !may_fuse(operands)) return {};
  const Tensor all[] = {packed(a), packed(b)};
  const std::int64_t rows = a.numel() / n;
  Tensor y = Tensor::empty(Shape(a.shape().dims().first(static_cast<std::size_t>(a.rank() - 1))), a.dtype());
  visit_floating(a.dtype(), [&]<class T>() {
    const T *const from_a = all[0].data<T>(), *const from_b = all[1].data<T>();
    T* const to = y.mutable_data<T>();
    const auto times = pointwise::kernel<T>(pointwise::Binary::mul);
    const std::int64_t grain = parallel::grain_for_bytes(2 * n * static_cast<std::int64_t>(sizeof(T)));
    ScratchPool pool(parallel::chunks(rows, grain), static_cast<std::size_t>(2 * n) * sizeof(T));
    parallel::for_each(rows, grain, [&](std::int64_t begin, std::int64_t end) {
      const ScratchPool::Buffer scratch = pool.take();
      T *const scaled_a = reinterpret_cast<T*>(scratch.data()), *const scaled_b = scaled_a + n;
      for (std::int64_t row = begin; row < end; ++row) {
        const T factor_a = direction_of_row(from_a + row * n, n, eps, scaled_a);
        const T factor_b = direction_of_row(from_b + row * n, n, eps, scaled_b);
        times(scaled_b, &factor_b, scaled_b, n, pointwise::Steps::first);
        times(scaled_a, scaled_b, scaled_b, n, pointwise::Steps::both);
        to[row] = static_cast<T>(reduce::row_sum(scaled_b, n)) * factor_a;
      }
    });
  });
  return y;
}

Tensor cosine(const Tensor& a, const Tensor& b, int axis, double eps) {
  if (axis + 1 == a.rank() && a.numel() > 0)
    if (const auto y = cosine_of_rows(a, b, eps)) return *y;
  const Direction to_a = direction(a, axis, eps), to_b = direction(b, axis, eps);
  // Lines of zeros have the factor 1 / eps. That of b goes to its elements: 1 / eps^2 may be infinite, which meets
  // zeros in the gradient.
  const Tensor along = sum(to_a.scaled * (to_b.scaled * to_b.factor), {axis}, true) * to_a.factor;
  Shape kept;
  for (int i = 0; i < along.rank(); ++i)
    if (i != axis) kept.push_back(along.size(i));
  return reshape(along, kept);
}

double reference_cosine(const double* a, const double* b, std::int64_t n, std::int64_t step, double eps) {
  double aa = 0, bb = 0, ab = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    aa += a[j * step] * a[j * step];
    bb += b[j * step] * b[j * step];
    ab += a[j * step] * b[j * step];
  }
  return ab / (std::max(std::sqrt(aa), eps) * std::max(std::sqrt(bb), eps));
}

void check_eps(const OpArgs& args) {
  if (const double eps = args.attrs.real("eps"); !(eps > 0.0))
    throw ValueError(fmt::format("{}: eps must be positive, it is {}", args.op.name, eps));
}

// --- cosine_similarity ---

std::vector<TensorSpec> similarity_infer(const OpArgs& args) {
  const auto specs = same_shape_everywhere(args);
  check_eps(args);
  const int axis = axis_of(args);
  Shape shape;
  for (int i = 0; i < specs[0].shape.rank(); ++i)
    if (i != axis) shape.push_back(specs[0].shape[i]);
  return {{shape, specs[0].dtype}};
}

std::vector<Tensor> similarity_body(const OpArgs& args) {
  return {cosine(args.in[0], args.in[1], axis_of(args), args.attrs.real("eps"))};
}

std::vector<Tensor> similarity_reference(const OpArgs& args) {
  Tensor y = reference_output(similarity_infer(args)[0].shape);
  const AxisSplit split = split_at(args.in[0].shape(), axis_of(args));
  for (std::int64_t line = 0; line < y.numel(); ++line) {
    const std::int64_t first = line / split.inner * split.extent * split.inner + line % split.inner;
    values(y)[line] = reference_cosine(values(args.in[0]) + first, values(args.in[1]) + first, split.extent,
                                       split.inner, args.attrs.real("eps"));
  }
  return {y};
}

std::vector<Sample> similarity_samples(DType dtype) {
  const auto x = [&](const Shape& s, std::uint64_t tag) { return sample_normal(s, dtype, 2100 + tag, 2.0); };
  const Attrs first{{"axis", std::int64_t{0}}};
  return {{{x({5, 7}, 1), x({5, 7}, 2)}, {}, "rows"},
          {{x({33, 4}, 3), x({33, 4}, 4)}, first, "the first axis"},
          {{x({2, 3, 65}, 5), x({2, 3, 65}, 6)}, {}, "two leading axes"},
          {{x({4, 3}, 7), x({4, 3}, 8)}, {{"eps", 50.0}}, "vectors shorter than eps"},
          {{scattered(x({4, 6}, 9)), scattered(x({4, 6}, 10))}, {}, "strided views"},
          {{x({5}, 11), x({5}, 12)}, {}, "two vectors"},
          {{x({3, 0}, 13), x({3, 0}, 14)}, {}, "vectors without elements"},
          {{x({0, 3}, 15), x({0, 3}, 16)}, {}, "no vectors"}};
}

std::vector<Refusal> similarity_refuses() {
  const Tensor x = Tensor::ones({4, 3});
  return {{{x, Tensor::ones({3})}, {}, "[4, 3]"},
          {{x, x}, {{"axis", std::int64_t{2}}}, "axis"},
          {{x, x}, {{"eps", 0.0}}, "eps must be positive, it is 0"},
          {{Tensor::ones({3}, DType::i64), Tensor::ones({3}, DType::i64)}, {}, "must be f32 or f64"}};
}

std::vector<Symmetry> similarity_symmetries(const Sample& sample) {
  const int rank = sample.in[0].rank();
  const int along = normalize_axis("axis", sample.attrs.has("axis") ? sample.attrs.integer("axis") : -1, rank);
  std::vector<Symmetry> all;
  for (int axis = 0; axis < rank; ++axis) {
    if (sample.in[0].size(axis) < 2) continue;
    Symmetry symmetry{axis == along ? "elements" : fmt::format("axis {}", axis), {in_leg(0, axis), in_leg(1, axis)}};
    if (axis != along) symmetry.legs.push_back(out_leg(0, axis < along ? axis : axis - 1));
    all.push_back(std::move(symmetry));
  }
  return all;
}

// --- cosine_embedding_loss ---

/// 1 for labels 1 and 0 for labels -1, made of operations, so that who follows the calls sees where it comes from.
Tensor checked_signs(const OpArgs& args) {
  const PauseRecording pause;
  const Tensor labels = device::on_cpu(packed(args.in[2]));
  for (std::int64_t i = 0; i < labels.numel(); ++i)
    if (const std::int64_t label = labels.data<std::int64_t>()[i]; label != 1 && label != -1)
      throw ValueError(fmt::format("{}: labels must be 1 or -1, label {} is {}", args.op.name, i, label));
  return cast(eq(args.in[2], Tensor::from<std::int64_t>({1}, {})), args.in[0].dtype());
}

std::vector<TensorSpec> embedding_infer(const OpArgs& args) {
  check_floating(args, 0);
  check_floating(args, 1);
  check_dtype(args, 2, DType::i64);
  check_rank_at_least(args, 0, 1);
  check_reduction(args);
  const Shape& shape = args.in[0].shape();
  check_shape(args, 1, shape);
  const Shape rows(shape.dims().first(static_cast<std::size_t>(shape.rank() - 1)));
  check_shape(args, 2, rows);
  return {{reduced_shape(args, rows), args.in[0].dtype()}};
}

constexpr double embedding_eps = 1e-12; // as far as vectors count as zero

std::vector<Tensor> embedding_body(const OpArgs& args) {
  const Tensor positive = checked_signs(args);
  const Tensor c = cosine(args.in[0], args.in[1], args.in[0].rank() - 1, embedding_eps);
  const Tensor apart = relu(c - args.attrs.real("margin"));
  return {reduced(args, positive * affine(c, -1.0, 1.0) + affine(positive, -1.0, 1.0) * apart)};
}

std::vector<Tensor> embedding_reference(const OpArgs& args) {
  Tensor losses = reference_output(args.in[2].shape());
  const std::int64_t n = args.in[0].shape()[-1];
  for (std::int64_t r = 0; r < losses.numel(); ++r) {
    const double c = reference_cosine(values(args.in[0]) + r * n, values(args.in[1]) + r * n, n, 1, embedding_eps);
    const bool positive = args.in[2].data<std::int64_t>()[r] == 1;
    values(losses)[r] = positive ? 1.0 - c : std::max(0.0, c - args.attrs.real("margin"));
  }
  return {reduced_reference(args, losses)};
}

std::vector<Sample> embedding_samples(DType dtype) {
  const auto x = [&](const Shape& s, std::uint64_t tag) { return sample_normal(s, dtype, 2150 + tag, 2.0); };
  const Tensor labels = Tensor::from<std::int64_t>({1, -1, -1, 1, -1}, {5});
  return {{{x({5, 7}, 1), x({5, 7}, 2), labels}, {}, "mean"},
          {{x({5, 33}, 3), x({5, 33}, 4), labels},
           {{"margin", -0.5}, {"reduction", std::string("none")}},
           "a margin, none"},
          {{scattered(x({5, 6}, 5)), scattered(x({5, 6}, 6)), labels}, reducing("sum"), "strided views, sum"},
          {{x({65}, 7), x({65}, 8), Tensor::from<std::int64_t>({1}, {})}, {}, "two vectors"},
          {{x({0, 3}, 9), x({0, 3}, 10), Tensor::zeros({0}, DType::i64)}, {}, "nothing"}};
}

std::vector<Refusal> embedding_refuses() {
  const Tensor x = Tensor::ones({2, 3});
  const Tensor labels = Tensor::from<std::int64_t>({1, -1}, {2});
  return {{{x, x, Tensor::from<std::int64_t>({1, 0}, {2})}, {}, "labels must be 1 or -1, label 1 is 0"},
          {{x, Tensor::ones({3}), labels}, {}, "x2 must be [2, 3], it is [3]"},
          {{x, x, Tensor::from<std::int64_t>({1}, {1})}, {}, "labels must be [2], it is [1]"},
          {{x, x, Tensor::ones({2})}, {}, "labels must be i64, it is f32"},
          {{x, x, labels}, reducing("median"), "reduction must be mean, sum or none"}};
}

std::vector<Symmetry> embedding_symmetries(const Sample& sample) {
  const bool kept = sample.attrs.has("reduction") && sample.attrs.text("reduction") == "none";
  const int rank = sample.in[0].rank();
  std::vector<Symmetry> all;
  if (sample.in[0].size(-1) >= 2) all.push_back({"elements", {in_leg(0, -1), in_leg(1, -1)}});
  for (int axis = 0; axis + 1 < rank; ++axis) {
    if (sample.in[0].size(axis) < 2) continue;
    Symmetry symmetry{fmt::format("axis {}", axis), {in_leg(0, axis), in_leg(1, axis), in_leg(2, axis)}};
    if (kept) symmetry.legs.push_back(out_leg(0, axis));
    all.push_back(std::move(symmetry));
  }
  return all;
}

Work work(const OpArgs& args, std::span<const TensorSpec> out) {
  return {12.0 * static_cast<double>(args.in[0].numel()), bytes_moved(args, out)};
}

} // namespace

constinit const OpDef cosine_similarity_op = row({
    .name = "cosine_similarity",
    .math = "y = <a, b> / (max(|a|, eps) max(|b|, eps)) along one axis",
    .inputs = {{"x1"}, {"x2"}},
    .attributes = {attr_int("axis", -1, "the axis of the vectors"), attr_real("eps", 1e-8, "least norm")},
    .infer = similarity_infer,
    .body = similarity_body,
    .reference = similarity_reference,
    .samples = similarity_samples,
    .refuses = similarity_refuses,
    .symmetries = similarity_symmetries,
    .work = work,
});

constinit const OpDef cosine_embedding_loss_op = row({
    .name = "cosine_embedding_loss",
    .math = "loss = 1 - cos(x1, x2) for label 1, max(0, cos(x1, x2) - margin) for label -1, reduced over the rows",
    .inputs = {{"x1"}, {"x2"}, {"labels"}},
    .outputs = {"loss"},
    .attributes = {attr_real("margin", 0.0, "cosine below which a pair with label -1 costs nothing"), reduction_attr},
    .infer = embedding_infer,
    .body = embedding_body,
    .reference = embedding_reference,
    .samples = embedding_samples,
    .refuses = embedding_refuses,
    .symmetries = embedding_symmetries,
    .work = work,
});

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int axis, double eps) {
  return call1(cosine_similarity_op, {x1, x2}, {{"axis", std::int64_t{axis}}, {"eps", eps}});
}
Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& labels, double margin,
                             const char* reduction) {
  return call1(cosine_embedding_loss_op, {x1, x2, labels}, {{"margin", margin}, {"reduction", std::string(reduction)}});
}

} // namespace eg
