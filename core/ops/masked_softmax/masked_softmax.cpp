// Softmax of masked scores. It shares the row kernel of attention, and its gradient is that of softmax: where y is 0,
// nothing flows.

#include "core/call.h"
#include "core/device/axes.h"
#include "core/device/module.h"
#include "core/ops.h"
#include "core/ops/attention/exact.h"
#include "core/ops/attention/parts.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace eg {
namespace {

using namespace attention_parts;
using attention_kernels::TileMask;

std::vector<TensorSpec> infer(const OpArgs& args) {
  check_floating(args, 0);
  check_rank_at_least(args, 0, 2);
  check_mask(args, 1, args.in[0].shape());
  return {{args.in[0].shape(), args.in[0].dtype()}};
}

/// Matrices of rows x keys, one for each leading index.
struct Matrices {
  std::int64_t count, rows, keys;
  bool causal;

  explicit Matrices(const OpArgs& args)
      : count(leading_axes(args.in[0].shape(), 2).numel()), rows(args.in[0].shape()[-2]), keys(args.in[0].shape()[-1]),
        causal(args.attrs.flag("causal")) {}
  /// Keys that row i sees.
  std::int64_t seen(std::int64_t i) const { return causal ? i + 1 + keys - rows : keys; }
};

template <class T> void forward_as(const OpArgs& args, Tensor& out) {
  const Matrices m(args);
  const Tensor x = packed(args.in[0]);
  if (x.numel() == 0) return;
  const Tensor added = mask_of(args, 1);
  const Masks<const T> masks = masks_of<T>(added, args.in[0].shape());
  const T* const from = x.data<T>();
  T* const to = out.mutable_data<T>("masked_softmax");
  const std::int64_t block = parallel::grain_for_bytes(m.keys * static_cast<std::int64_t>(sizeof(T)));
  const std::int64_t blocks = (m.rows + block - 1) / block;
  const std::int64_t grain = std::max<std::int64_t>(block / std::max<std::int64_t>(m.rows, 1), 1);
  parallel::for_each(m.count * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i % blocks * block, rows = std::min(block, m.rows - row);
      const std::int64_t offset = (i / blocks * m.rows + row) * m.keys;
      // A row is never taken for an unmasked one, so that rows of -infinity give 0 without a mask too.
      TileMask<T> hides{masks(i / blocks), true, m.causal ? m.seen(row) : m.keys};
      if (hides.mask.data != nullptr) hides.mask.data += row * hides.mask.row;
      std::copy_n(from + offset, rows * m.keys, to + offset);
      attention_kernels::softmax_tile<T>(to + offset, rows, m.keys, hides);
    }
  });
}

void forward(const OpArgs& args, std::span<Tensor> out) {
  visit_floating(out[0].dtype(), [&]<class T>() { forward_as<T>(args, out[0]); });
}

void run_on_device(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]);
  if (x.numel() == 0) return;
  const Matrices m(args);
  device::MaskedSoftmaxJob job{};
  job.type = x.dtype();
  job.x = x.device_bytes();
  job.y = out[0].mutable_device_bytes("masked_softmax");
  if (args.given(1)) {
    const Tensor mask = args.in[1].expand(x.shape());
    job.mask = mask.device_bytes();
    job.mask_is_boolean = mask.dtype() == DType::boolean;
    job.mask_rows = device::merged_axes<1>(leading_axes(x.shape(), 1), {leading_axes(mask.strides(), 1)});
    job.mask_step = mask.strides()[-1];
  }
  job.rows = m.count * m.rows;
  job.keys = m.keys;
  job.matrix_rows = m.rows;
  job.causal = m.causal;
  device::launch(x.device(), "masked_softmax", &device::Table::masked_softmax, job);
}

void exact_kernel(const OpArgs& args, std::span<Tensor> out) {
  const Matrices m(args);
  Tensor scores = args.in[0];
  if (args.given(1)) scores = scores + mask_of(args, 1);
  if (m.causal) scores = scores + causal_mask(m.rows, m.keys, scores.dtype());
  assign(out[0], exact_softmax(scores, true).y);
}

Gradients rule(const VjpArgs& args) {
  const bool mask = mask_is_floating(args, 1) && args.wants(1);
  if (!args.wants(0) && !mask) return {{}, {}};
  const Tensor g = call1(softmax_backward_op, {args.out[0], args.grad[0]}, {{"axis", std::int64_t{-1}}});
  return {args.wants(0) ? g : Tensor{}, mask ? g : Tensor{}};
}

std::vector<Tensor> reference(const OpArgs& args) {
  const Matrices m(args);
  Tensor result = reference_output(args.in[0].shape());
  const Tensor added = mask_of(args, 1);
  const Masks<const double> masks = masks_of<double>(added, args.in[0].shape());
  for (std::int64_t r = 0; r < m.count * m.rows; ++r) {
    const std::int64_t i = r % m.rows;
    const auto mask = masks(r / m.rows);
    const auto score = [&](std::int64_t j) {
      if (j >= m.seen(i)) return -std::numeric_limits<double>::infinity();
      return values(args.in[0])[r * m.keys + j] + (mask.data ? mask.data[i * mask.row + j * mask.column] : 0.0);
    };
    double largest = -std::numeric_limits<double>::infinity(), total = 0;
    for (std::int64_t j = 0; j < m.keys; ++j) largest = std::max(largest, score(j));
    if (largest == -std::numeric_limits<double>::infinity()) continue; // nothing is seen
    for (std::int64_t j = 0; j < m.keys; ++j) total += std::exp(score(j) - largest);
    for (std::int64_t j = 0; j < m.keys; ++j) values(result)[r * m.keys + j] = std::exp(score(j) - largest) / total;
  }
  return {result};
}

Tensor boolean_mask(const Shape& shape, std::uint64_t tag, bool blind) {
  Tensor mask = Tensor::empty(shape, DType::boolean);
  bool* const to = mask.mutable_data<bool>("sample");
  for (std::int64_t i = 0; i < mask.numel(); ++i)
    to[i] = !(blind && i < shape[-1]) && uniform_at(RandomKey{978, tag}, static_cast<std::uint64_t>(i)) < 0.7;
  return mask;
}

std::vector<Sample> samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, 1300 + tag, 1.5); };
  const Attrs causal{{"causal", true}};
  return {{{x({2, 5, 7}, 1), x({5, 7}, 2)}, {}, "a mask for all"},
          {{x({2, 3, 33}, 3), x({2, 1, 33}, 4)}, {}, "a mask of columns"},
          {{x({3, 65}, 5), boolean_mask({3, 1}, 6, true)}, {}, "a boolean mask of rows"},
          {{x({2, 4, 6}, 7), boolean_mask({2, 1, 6}, 8, false)}, {}, "a boolean mask of columns"},
          {{x({4, 5}, 9), boolean_mask({4, 5}, 10, true)}, {}, "a row that is hidden"},
          {{x({2, 5, 5}, 11)}, causal, "causal"},
          {{x({3, 8}, 12), x({8}, 13)}, causal, "causal beside a cache, a mask"},
          {{x({5, 3}, 14)}, causal, "causal, rows that see nothing"},
          {{x({2, 4, 4}, 15)}, {}, "no mask"},
          {{scattered(x({2, 6, 5}, 16)), scattered(x({2, 6, 5}, 17))}, {}, "strided views"},
          {{x({1, 1}, 18), x({1, 1}, 19)}, {}, "extents of 1"},
          {{x({0, 4}, 20), x({4}, 21)}, {}, "no rows"},
          {{x({3, 0}, 22)}, causal, "no columns"}};
}

std::vector<Refusal> refuses() {
  const Tensor x = Tensor::ones({4, 3});
  return {{{x, Tensor::ones({4})}, {}, "mask does not broadcast to the scores: mask is [4], the scores are [4, 3]"},
          {{x, Tensor::ones({1, 4, 3})}, {}, "mask does not broadcast"},
          {{x, Tensor::ones({3}, DType::i64)}, {}, "mask must be boolean"},
          {{Tensor::ones({3})}, {}, "at least 2 axes"},
          {{Tensor::ones({4, 3}, DType::i64)}, {}, "x must be f32 or f64"}};
}

std::vector<Symmetry> symmetries(const Sample& sample) {
  const bool causal = is_causal(sample);
  const Shape& shape = sample.in[0].shape();
  std::vector<Symmetry> all;
  for (int axis = 0; axis < shape.rank() - (causal ? 2 : 0); ++axis) {
    if (shape[axis] < 2) continue;
    const int back = axis - shape.rank();
    Symmetry symmetry{fmt::format("axis {}", back), {in_leg(0, back), out_leg(0, back)}, {}, back == -1};
    if (sample.in.size() > 1 && sample.in[1].defined() && sample.in[1].rank() >= -back &&
        sample.in[1].shape()[back] > 1)
      symmetry.legs.push_back(in_leg(1, back));
    all.push_back(std::move(symmetry));
  }
  return all;
}

} // namespace

constinit const OpDef masked_softmax_op = row({
    .name = "masked_softmax",
    .math = "y = softmax(x + mask) over the last axis, causal: of the columns j <= i + columns - rows; 0 where nothing "
            "is seen",
    .inputs = {{"x"}, {"mask", true}},
    .attributes = {attr_bool("causal", false, "row i sees the columns j <= i + columns - rows")},
    .infer = infer,
    .cpu = forward,
    .exact = exact_kernel,
    .cuda = run_on_device,
    .saves = saves::out(0),
    .vjp = rule,
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = elementwise_work<13>,
});

Tensor masked_softmax(const Tensor& x, const Tensor& mask, bool causal) {
  return call1(masked_softmax_op, {x, mask}, {{"causal", causal}});
}

} // namespace eg
