// Rows of bincount and one_hot: numbers counted, numbers as unit vectors.

#include "core/device/module.h"
#include "core/device/transfer.h"
#include "core/exact/exact.h"
#include "core/ops/index/row_moves.h"
#include "core/ops/list.h"
#include "core/ops/views/movement.h"
#include "core/ops/views/strided_copy.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <span>
#include <vector>

namespace eg {
namespace {

// --- bincount ---

constexpr std::int64_t numbers_at_once = 32768; // that one task reads

/// Bins that the numbers need. Throws IndexError for a negative number or one that no memory could count.
std::int64_t bins_of(const Tensor& x) {
  constexpr std::int64_t too_large = std::int64_t{1} << 44;
  const Tensor data = device::on_cpu(packed(x)); // the shape of the result depends on the values
  const std::int64_t n = data.numel();
  if (n == 0) return 0;
  const std::int64_t* const value = data.data<std::int64_t>();
  std::vector<std::int64_t> largest(static_cast<std::size_t>(parallel::chunks(n, numbers_at_once)));
  parallel::for_each(n, numbers_at_once, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin; first < end; first += numbers_at_once) {
      std::uint64_t bits[4] = {}; // negative numbers are the largest ones here; four, so that none waits for the last
      std::int64_t i = first;
      const std::int64_t last = std::min(end, first + numbers_at_once);
      for (; i + 4 <= last; i += 4)
        for (std::int64_t k = 0; k < 4; ++k) bits[k] = std::max(bits[k], static_cast<std::uint64_t>(value[i + k]));
      for (; i < last; ++i) bits[0] = std::max(bits[0], static_cast<std::uint64_t>(value[i]));
      const std::uint64_t most = std::max(std::max(bits[0], bits[1]), std::max(bits[2], bits[3]));
      largest[static_cast<std::size_t>(first / numbers_at_once)] =
          most >= static_cast<std::uint64_t>(too_large) ? too_large : static_cast<std::int64_t>(most);
    }
  });
  const std::int64_t most = *std::max_element(largest.begin(), largest.end());
  if (most < too_large) return most + 1;
  const auto* const bad = std::find_if(value, value + n, [](std::int64_t v) { return v < 0 || v >= too_large; });
  throw IndexError(
      fmt::format("bincount: x is {} at position {}; it must be in [0, {})", *bad, bad - value, too_large));
}

/// y[b] += how often b is among n numbers. Equal neighbours go to different tables, so that none waits for the other.
void count(const std::int64_t* bin, std::int64_t n, std::span<std::int64_t> y, std::span<std::int64_t> second) {
  std::int64_t i = 0;
  for (; i + 2 <= n; i += 2) {
    ++y[static_cast<std::size_t>(bin[i])];
    ++second[static_cast<std::size_t>(bin[i + 1])];
  }
  if (i < n) ++y[static_cast<std::size_t>(bin[i])];
}

/// Whole numbers: any cut gives the same counts.
void count_in_pieces(const std::int64_t* bin, std::int64_t n, std::span<std::int64_t> y) {
  constexpr std::int64_t most_pieces = 16;
  const auto bins = static_cast<std::int64_t>(y.size());
  const std::int64_t pieces = std::min(most_pieces, n / std::max<std::int64_t>(numbers_at_once, 4 * bins));
  if (pieces < 1) {
    for (std::int64_t i = 0; i < n; ++i) ++y[static_cast<std::size_t>(bin[i])];
    return;
  }
  std::vector<std::int64_t> tables(static_cast<std::size_t>(2 * pieces * bins));
  const auto table = [&](std::int64_t i) {
    return std::span(tables).subspan(static_cast<std::size_t>(i * bins), y.size());
  };
  const std::int64_t size = parallel::chunks(n, pieces);
  parallel::for_each(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p)
      count(bin + p * size, std::min(size, n - p * size), table(2 * p), table(2 * p + 1));
  });
  for (std::int64_t i = 0; i < 2 * pieces; ++i) {
    const std::span<std::int64_t> from = table(i);
    for (std::size_t b = 0; b < y.size(); ++b) y[b] += from[b];
  }
}

std::vector<TensorSpec> bincount_infer(const OpArgs& args) {
  check_dtype(args, 0, DType::i64);
  if (args.in[0].rank() != 1)
    throw ShapeError(fmt::format("bincount: x must be [N], it is {}", args.in[0].shape().str()));
  const std::int64_t least = args.attrs.integer("minlength");
  if (least < 0) throw ValueError(fmt::format("bincount: minlength is {}; it must not be negative", least));
  if (args.given(1)) {
    check_floating(args, 1);
    check_shape(args, 1, args.in[0].shape());
  }
  return {{{std::max(least, bins_of(args.in[0]))}, args.given(1) ? args.in[1].dtype() : DType::i64}};
}

void bincount_cpu(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]);
  const std::int64_t* bin = x.numel() > 0 ? x.data<std::int64_t>() : nullptr;
  fill_zeros(out[0]);
  if (!args.given(1)) {
    if (x.numel() > 0)
      count_in_pieces(bin, x.numel(), {out[0].mutable_data<std::int64_t>(), static_cast<std::size_t>(out[0].numel())});
    return;
  }
  const Tensor weights = packed(args.in[1]);
  std::vector<double> total(static_cast<std::size_t>(out[0].numel()));
  visit_floating(weights.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < x.numel(); ++i)
      total[static_cast<std::size_t>(bin[i])] += static_cast<double>(weights.data<T>()[i]);
    std::transform(total.begin(), total.end(), out[0].mutable_data<T>(),
                   [](double sum) { return static_cast<T>(sum); });
  });
}

/// Whole numbers, and sums in f64, added as by scatter_add in the order of x.
void bincount_cuda(const OpArgs& args, std::span<Tensor> out) {
  const bool weighted = args.given(1);
  Tensor total = Tensor::zeros(out[0].shape(), weighted ? DType::f64 : DType::i64);
  const Tensor terms = weighted ? packed(cast(args.in[1], DType::f64)) : Tensor::ones(args.in[0].shape(), DType::i64);
  const Tensor x = packed(args.in[0]);
  RowMove m;
  m.extent = total.numel();
  m.count = x.numel();
  m.index = index_address(x);
  add_on_device("bincount", m, false, terms, total);
  out[0].copy_from(cast(total, out[0].dtype()));
}

void bincount_exact(const OpArgs& args, std::span<Tensor> out) {
  if (!args.given(1)) return bincount_cpu(args, out);
  const Tensor x = packed(args.in[0]);
  const Tensor weights = packed(args.in[1]);
  std::vector<std::vector<double>> terms(static_cast<std::size_t>(out[0].numel()));
  visit_floating(weights.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < x.numel(); ++i)
      terms[static_cast<std::size_t>(x.data<std::int64_t>()[i])].push_back(static_cast<double>(weights.data<T>()[i]));
    std::transform(terms.begin(), terms.end(), out[0].mutable_data<T>(),
                   [](const std::vector<double>& bin) { return static_cast<T>(exact::sum(bin)); });
  });
}

std::vector<Tensor> bincount_reference(const OpArgs& args) {
  const TensorSpec spec = bincount_infer(args)[0];
  return {tabulate(spec.shape, spec.dtype, [&](const Index& b) {
    double sum = 0;
    for (std::int64_t i = 0; i < args.in[0].numel(); ++i)
      if (static_cast<std::int64_t>(read(args.in[0], {i})) == b[0]) sum += args.given(1) ? read(args.in[1], {i}) : 1.0;
    return sum;
  })};
}

Tensor numbers(const Shape& shape, std::int64_t high, std::uint64_t seed) {
  return random_integers(shape, RandomKey{seed, 0x2d}, 0, high);
}

std::vector<Sample> bincount_samples(DType dtype) {
  const auto least = [](std::int64_t bins) { return Attrs{{"minlength", bins}}; };
  return {{{numbers({33}, 7, 1), sample_values({33}, dtype, 2)}, {}, "weighted"},
          {{numbers({65}, 5, 3)}, {}, "counted"},
          {{scattered(numbers({12}, 4, 4)), scattered(sample_values({12}, dtype, 5))}, least(9), "strided, empty bins"},
          {{numbers({1}, 3, 6), sample_values({1}, dtype, 7)}, least(1), "one number"},
          {{numbers({0}, 3, 8)}, least(4), "no numbers"}};
}

std::vector<Refusal> bincount_refuses() {
  const Tensor x = Tensor::from<std::int64_t>({1, 0, -2}, {3});
  const Tensor good = Tensor::from<std::int64_t>({1, 0, 2}, {3});
  return {{{x}, {}, "x is -2 at position 2"},
          {{Tensor::zeros({3})}, {}, "x must be i64, it is f32"},
          {{Tensor::zeros({2, 2}, DType::i64)}, {}, "x must be [N], it is [2, 2]"},
          {{good, Tensor::zeros({2})}, {}, "weights must be [3], it is [2]"},
          {{good, Tensor::zeros({3}, DType::i64)}, {}, "weights must be f32 or f64, it is i64"},
          {{good}, {{"minlength", std::int64_t{-1}}}, "minlength is -1"}};
}

// --- one_hot ---

DType named_type(const OpArgs& args) {
  try {
    return dtype_named(args.attrs.text("dtype"));
  } catch (const ValueError& e) {
    throw ValueError(fmt::format("one_hot: dtype: {}", e.what()));
  }
}

std::vector<TensorSpec> one_hot_infer(const OpArgs& args) {
  check_dtype(args, 0, DType::i64);
  const std::int64_t classes = args.attrs.integer("num_classes");
  if (classes < 1) throw ValueError(fmt::format("one_hot: num_classes is {}; it must be positive", classes));
  return {{with_new_axis(args, args.in[0].shape(), args.in[0].rank(), classes), named_type(args)}};
}

void one_hot_cpu(const OpArgs& args, std::span<Tensor> out) {
  const Tensor ids = packed(args.in[0]);
  const std::int64_t classes = args.attrs.integer("num_classes");
  if (ids.numel() == 0) return;
  for (std::int64_t i = 0; i < ids.numel(); ++i)
    if (const std::int64_t id = ids.data<std::int64_t>()[i]; id < 0 || id >= classes)
      throw IndexError(fmt::format("one_hot: x is {} at position {}; it must be in [0, {})", id, i, classes));
  fill_zeros(out[0]);
  visit_dtype(out[0].dtype(), [&]<class T>() {
    T* y = out[0].mutable_data<T>();
    for (std::int64_t i = 0; i < ids.numel(); ++i) y[i * classes + ids.data<std::int64_t>()[i]] = T(true);
  });
}

void one_hot_cuda(const OpArgs& args, std::span<Tensor> out) {
  const Tensor ids = packed(args.in[0]);
  if (ids.numel() == 0) return;
  device::OneHotJob job{
      args.op.name, out[0].mutable_device_bytes("one_hot"), index_address(ids), size_of(out[0].dtype()), 0,
      ids.numel(),  args.attrs.integer("num_classes")};
  visit_dtype(out[0].dtype(), [&]<class T>() {
    const T one(true);
    std::memcpy(&job.one, &one, sizeof one);
  });
  device::launch(ids.device(), "one_hot", &device::Table::one_hot, job);
}

std::vector<Tensor> one_hot_reference(const OpArgs& args) {
  return {tabulate(one_hot_infer(args)[0].shape, DType::f64, [&](const Index& i) {
    const auto id = static_cast<std::int64_t>(read(args.in[0], Index(i.begin(), i.end() - 1)));
    return id == i.back() ? 1.0 : 0.0;
  })};
}

std::vector<Sample> one_hot_samples(DType dtype) {
  const auto classes = [&](std::int64_t count) {
    return Attrs{{"num_classes", count}, {"dtype", std::string(name_of(dtype))}};
  };
  return {{{numbers({7}, 5, 1)}, classes(5), "a vector"},
          {{numbers({3, 33}, 4, 2).transpose()}, classes(6), "transposed"},
          {{numbers({}, 3, 3)}, classes(3), "a scalar"},
          {{numbers({2, 0}, 3, 4)}, classes(3), "no numbers"},
          {{numbers({5}, 3, 5)}, {{"num_classes", std::int64_t{3}}}, "as integers"}};
}

std::vector<Refusal> one_hot_refuses() {
  const Tensor x = Tensor::from<std::int64_t>({1, 3}, {2});
  const auto classes = [](std::int64_t count) { return Attrs{{"num_classes", count}}; };
  return {{{x}, classes(3), "x is 3 at position 1; it must be in [0, 3)"},
          {{Tensor::from<std::int64_t>({-1}, {1})}, classes(3), "x is -1 at position 0"},
          {{x}, classes(0), "num_classes is 0; it must be positive"},
          {{x}, {}, "attribute 'num_classes' must be given"},
          {{x}, {{"num_classes", std::int64_t{4}}, {"dtype", std::string("f16")}}, "f16"},
          {{Tensor::zeros({2})}, classes(3), "x must be i64, it is f32"}};
}

std::vector<Symmetry> one_hot_symmetries(const Sample& s) {
  std::vector<Symmetry> list;
  const int rank = s.in[0].rank();
  if (s.attrs.integer("num_classes") >= 2 && s.in[0].numel() > 0) list.push_back({"classes", {out_leg(0, rank)}, {0}});
  for (int axis = 0; axis < rank; ++axis)
    if (s.in[0].shape()[axis] >= 2) list.push_back({fmt::format("axis {}", axis), {in_leg(0, axis), out_leg(0, axis)}});
  return list;
}

} // namespace

constinit const OpDef bincount_op = row({
    .name = "bincount",
    .math = "y_b = sum of weights_i over the i with x_i = b; without weights their number",
    .inputs = {{"x"}, {"weights", true}},
    .attributes = {attr_int("minlength", 0, "least number of bins; the largest x needs x + 1")},
    .infer = bincount_infer,
    .cpu = bincount_cpu,
    .exact = bincount_exact,
    .cuda = bincount_cuda,
    .cuda_same_bits = true,
    .saves = saves::in(0),
    .vjp = [](const VjpArgs& args) -> Gradients {
      if (args.in.size() < 2 || !args.wants(1)) return {Tensor(), Tensor()};
      return {Tensor(), index_select(args.grad[0], 0, args.in[0])};
    },
    .reference = bincount_reference,
    .samples = bincount_samples,
    .refuses = bincount_refuses,
    .symmetries = [](const Sample& s) -> std::vector<Symmetry> {
      if (s.in[0].numel() < 2) return {};
      return {{"places", {in_leg(0, 0), in_leg(1, 0)}}};
    },
    .work = scatter_work<0>,
});

constinit const OpDef one_hot_op = row({
    .name = "one_hot",
    .math = "y[.., c] = 1 where x[..] = c, else 0",
    .inputs = {{"x"}},
    .attributes = {required_attr("num_classes", AttrKind::integer, "extent of the new last axis"),
                   attr_text("dtype", "i64", "type of y")},
    .infer = one_hot_infer,
    .cpu = one_hot_cpu,
    .cuda = one_hot_cuda,
    .cuda_same_bits = true,
    .no_gradient = "its input is an integer",
    .reference = one_hot_reference,
    .samples = one_hot_samples,
    .refuses = one_hot_refuses,
    .symmetries = one_hot_symmetries,
    .work = movement_work,
});

Tensor bincount(const Tensor& x, const Tensor& weights, std::int64_t minlength) {
  return call1(bincount_op, {x, weights}, {{"minlength", minlength}});
}

Tensor one_hot(const Tensor& x, std::int64_t num_classes, DType dtype) {
  return call1(one_hot_op, {x}, {{"num_classes", num_classes}, {"dtype", std::string(name_of(dtype))}});
}

} // namespace eg
