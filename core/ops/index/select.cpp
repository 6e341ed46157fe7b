// Rows of nonzero and masked_select: as many results as the values say.

#include "core/device/device.h"
#include "core/device/transfer.h"
#include "core/ops/list.h"
#include "core/ops/views/movement.h"

#include <fmt/format.h>

namespace eg {
namespace {

// --- nonzero ---

std::int64_t count_of(const Tensor& x) {
  const Tensor there = device::on_cpu(packed(x));
  std::int64_t count = 0;
  if (there.numel() > 0)
    visit_dtype(there.dtype(), [&]<class T>() {
      const T* v = there.data<T>();
      for (std::int64_t i = 0; i < there.numel(); ++i) count += v[i] != T{} ? 1 : 0;
    });
  return count;
}

std::vector<TensorSpec> nonzero_infer(const OpArgs& args) {
  return {{{count_of(args.in[0]), args.in[0].rank()}, DType::i64}};
}

void nonzero_cpu(const OpArgs& args, std::span<Tensor> out) {
  const Tensor x = packed(args.in[0]);
  if (out[0].numel() == 0) return;
  std::int64_t* to = out[0].mutable_data<std::int64_t>();
  const int rank = x.rank();
  visit_dtype(x.dtype(), [&]<class T>() {
    const T* v = x.data<T>();
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      if (!(v[i] != T{})) continue;
      std::int64_t rest = i;
      for (int axis = rank - 1; axis >= 0; --axis) {
        to[axis] = rest % x.shape()[axis];
        rest /= x.shape()[axis];
      }
      to += rank;
    }
  });
}

std::vector<Tensor> nonzero_reference(const OpArgs& args) {
  std::vector<std::int64_t> found;
  const Tensor& x = args.in[0];
  for_each_index(x.shape(), [&](const Index& i) {
    if (read(x, i) != 0.0) found.insert(found.end(), i.begin(), i.end());
  });
  return {Tensor::from(found, nonzero_infer(args)[0].shape)};
}

Tensor sparse(const Shape& shape, DType dtype, std::uint64_t tag) {
  return relu(sample_whole(shape, tag, -6, 5)).to(dtype);
}

std::vector<Sample> nonzero_samples(DType dtype) {
  return {{{sparse({33}, dtype, 1)}, {}, "a vector"},
          {{scattered(sparse({5, 6}, dtype, 2))}, {}, "a strided matrix"},
          {{sparse({2, 3, 4}, DType::i64, 3)}, {}, "whole numbers"},
          {{sparse({4, 7}, DType::boolean, 4)}, {}, "truth values"},
          {{Tensor::ones({}, dtype)}, {}, "a scalar: one place without a number"},
          {{Tensor::zeros({3}, dtype)}, {}, "none"},
          {{sparse({0, 3}, dtype, 5)}, {}, "empty"}};
}

// --- masked_select ---

/// The places in row-major order where the mask, broadcast to x's shape, is true, on x's device. No tape sees them.
Tensor places_of(const OpArgs& args) {
  const PauseRecording pause;
  const Tensor& x = args.in[0];
  const DeviceScope host(Device::cpu());
  const Tensor mask = expand(device::on_cpu(args.in[1]), x.shape());
  const Tensor places = reshape(nonzero(reshape(mask, {x.numel()})), {-1});
  return x.device().is_cpu() ? places : device::transferred(places, x.device());
}

/// Shapes are asked for before anything is computed, and nothing but shapes is handed on: so the mask is counted here
/// and by nonzero again.
std::vector<TensorSpec> select_infer(const OpArgs& args) {
  check_dtype(args, 1, DType::boolean);
  const Shape& x = args.in[0].shape();
  const Shape& mask = args.in[1].shape();
  if (broadcast_shapes("masked_select", x, mask) != x)
    throw ShapeError(fmt::format("masked_select: mask must broadcast to x: x is {}, mask is {}", x.str(), mask.str()));
  const PauseRecording pause;
  return {{{count_of(expand(device::on_cpu(args.in[1]), x))}, args.in[0].dtype()}};
}

std::vector<Tensor> select_body(const OpArgs& args) {
  const Tensor places = places_of(args);
  return {index_select(reshape(args.in[0], {args.in[0].numel()}), 0, places)};
}

std::vector<Tensor> select_reference(const OpArgs& args) {
  const Tensor& x = args.in[0];
  const Tensor mask = args.in[1].expand(x.shape());
  std::vector<double> found;
  for_each_index(x.shape(), [&](const Index& i) {
    if (read(mask, i) != 0.0) found.push_back(read(x, i));
  });
  return {Tensor::from(found, {static_cast<std::int64_t>(found.size())}).to(x.dtype())};
}

std::vector<Sample> select_samples(DType dtype) {
  const auto mask = [](const Shape& shape, std::uint64_t tag) {
    return sample_whole(shape, tag, 0, 2).to(DType::boolean);
  };
  return {{{sample_values({3, 7}, dtype, 1), mask({3, 7}, 2)}, {}, "a matrix"},
          {{sample_transposed({4, 9}, dtype, 3), mask({9}, 4)}, {}, "one mask for transposed rows"},
          {{sample_values({2, 3, 5}, dtype, 5), mask({3, 1}, 6)}, {}, "whole lines"},
          {{sample_whole({4, 5}, 7, -9, 10), mask({4, 5}, 8)}, {}, "whole numbers"},
          {{sample_values({}, dtype, 9), Tensor::ones({}, DType::boolean)}, {}, "scalar"},
          {{sample_values({2, 3}, dtype, 10), Tensor::zeros({3}, DType::boolean)}, {}, "none"},
          {{sample_values({0, 3}, dtype, 11), mask({3}, 12)}, {}, "empty"}};
}

std::vector<Refusal> select_refuses() {
  const Tensor x = Tensor::zeros({2, 3});
  return {{{x, Tensor::zeros({2, 3})}, {}, "mask must be bool, it is f32"},
          {{x, Tensor::zeros({2}, DType::boolean)}, {}, "shapes do not broadcast"},
          {{x, Tensor::zeros({4, 2, 3}, DType::boolean)}, {}, "x is [2, 3], mask is [4, 2, 3]"}};
}

} // namespace

constinit const OpDef nonzero_op = row({
    .name = "nonzero",
    .math = "y[n] = the index of the n-th element, in row-major order, that differs from 0",
    .inputs = {{"x"}},
    .infer = nonzero_infer,
    .cpu = nonzero_cpu,
    .no_cuda = "how many results there are depends on the values, which the host must see",
    .no_gradient = "a place is an integer: it does not change when x changes a little",
    .reference = nonzero_reference,
    .samples = nonzero_samples,
    .refuses = []() -> std::vector<Refusal> {
      return {{{Tensor()}, {}, "must be given"}};
    },
    .no_symmetry = "the results have the order of the places",
    .work = movement_work,
});

constinit const OpDef masked_select_op = row({
    .name = "masked_select",
    .math = "y[n] = the n-th element of x, in row-major order, where mask is true",
    .inputs = {{"x"}, {"mask"}},
    .infer = select_infer,
    .body = select_body,
    .reference = select_reference,
    .samples = select_samples,
    .refuses = select_refuses,
    .no_symmetry = "the results have the order of the places",
    .work = movement_work,
});

Tensor nonzero(const Tensor& x) { return call1(nonzero_op, {x}); }
Tensor masked_select(const Tensor& x, const Tensor& mask) { return call1(masked_select_op, {x, mask}); }

} // namespace eg
