// fft_low_pass without a Fourier transform: dropping frequencies is a projection, and a real one where f and -f are
// dropped together, so one matrix for each axis does it.

#include "core/call.h"
#include "core/device/device.h"
#include "core/device/transfer.h"
#include "core/exact/elementary.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/ops/row_tools.h"

#include <cmath>
#include <complex>
#include <fmt/format.h>
#include <numbers>

namespace eg {
namespace {

std::vector<TensorSpec> infer(const OpArgs& args) {
  check_floating(args, 0);
  check_rank_at_least(args, 0, 2);
  if (args.attrs.integer("cutoff") < 0)
    throw ValueError(
        fmt::format("{}: cutoff is {}; it must not be negative", args.op.name, args.attrs.integer("cutoff")));
  return {{args.in[0].shape(), args.in[0].dtype()}};
}

/// Every frequency of n places is at most n / 2.
bool keeps_all(std::int64_t n, std::int64_t cutoff) { return cutoff >= n - n / 2 || 2 * cutoff >= n; }

/// L[i, j] = 1/n (1 + 2 sum_{f = 1}^{cutoff} cos(2 pi f (i - j) / n)), for 2 cutoff < n.
Tensor projection(std::int64_t n, std::int64_t cutoff, DType dtype) {
  std::vector<double> cosine; // of 2 pi k / n
  for (std::int64_t k = 0; k < n; ++k)
    cosine.push_back(elementary::cos(2.0 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n)));
  std::vector<double> circulant;
  for (std::int64_t d = 0; d < n; ++d) {
    double sum = 1.0;
    for (std::int64_t f = 1; f <= cutoff; ++f) sum += 2.0 * cosine[static_cast<std::size_t>(f * d % n)];
    circulant.push_back(sum / static_cast<double>(n));
  }
  Tensor l = Tensor::empty({n, n}, dtype, Device::cpu());
  visit_floating(dtype, [&]<class T>() {
    T* to = l.mutable_data<T>("fft_low_pass");
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) *to++ = static_cast<T>(circulant[static_cast<std::size_t>((i - j + n) % n)]);
  });
  return current_device().is_cpu() ? l : device::transferred(l, current_device());
}

std::vector<Tensor> body(const OpArgs& args) {
  const std::int64_t cutoff = args.attrs.integer("cutoff");
  const Tensor& x = args.in[0];
  Tensor y = expand(x, x.shape());
  if (x.numel() == 0) return {y};
  if (!keeps_all(x.size(-2), cutoff)) y = matmul(projection(x.size(-2), cutoff, x.dtype()), y);
  if (!keeps_all(x.size(-1), cutoff)) y = matmul(y, projection(x.size(-1), cutoff, x.dtype()));
  return {y};
}

/// Transform, drop, transform back, along one axis of stride `stride`.
void filter_line(double* line, std::int64_t n, std::int64_t stride, std::int64_t cutoff) {
  const auto wave = [n](std::int64_t f, std::int64_t i) {
    return std::polar(1.0, 2.0 * std::numbers::pi * static_cast<double>(f * i % n) / static_cast<double>(n));
  };
  std::vector<std::complex<double>> spectrum;
  for (std::int64_t f = 0; f < n; ++f) {
    std::complex<double> sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += line[i * stride] * std::conj(wave(f, i));
    spectrum.push_back(std::min(f, n - f) <= cutoff ? sum : 0.0);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    std::complex<double> sum = 0;
    for (std::int64_t f = 0; f < n; ++f) sum += spectrum[static_cast<std::size_t>(f)] * wave(f, i);
    line[i * stride] = sum.real() / static_cast<double>(n);
  }
}

std::vector<Tensor> reference(const OpArgs& args) {
  Tensor y = args.in[0].clone();
  const std::int64_t rows = y.size(-2);
  const std::int64_t columns = y.size(-1);
  const std::int64_t cutoff = args.attrs.integer("cutoff");
  for (double* plane = values(y); plane < values(y) + y.numel(); plane += rows * columns) {
    for (std::int64_t r = 0; r < rows; ++r) filter_line(plane + r * columns, columns, 1, cutoff);
    for (std::int64_t q = 0; q < columns; ++q) filter_line(plane + q, rows, columns, cutoff);
  }
  return {y};
}

Attrs with(std::int64_t cutoff) { return {{"cutoff", cutoff}}; }

std::vector<Sample> samples(DType dtype) {
  const auto x = [&](const Shape& shape, std::uint64_t tag) { return sample_normal(shape, dtype, 2700 + tag); };
  return {{{x({2, 3, 8, 6}, 1)}, with(2), "even sides"}, {{x({2, 7, 9}, 2)}, with(3), "odd sides"},
          {{x({2, 5, 6}, 3)}, with(0), "the mean"},      {{x({2, 4, 33}, 4)}, with(2), "every frequency of one axis"},
          {{x({3, 4}, 5)}, with(7), "every frequency"},  {{scattered(x({2, 6, 5}, 6))}, with(1), "strided"},
          {{x({2, 1, 1}, 7)}, with(0), "one pixel"},     {{x({0, 4, 4}, 8)}, with(1), "no images"}};
}

std::vector<Refusal> refuses() {
  return {{{Tensor::zeros({4})}, with(1), "images must have at least 2 axes, it is [4]"},
          {{Tensor::zeros({4, 4})}, with(-1), "cutoff is -1; it must not be negative"},
          {{Tensor::zeros({4, 4}, DType::u8)}, with(1), "images must be f32 or f64, it is u8"}};
}

std::vector<Symmetry> symmetries(const Sample& s) {
  std::vector<Symmetry> all;
  for (int axis = 0; axis + 2 < s.in[0].rank(); ++axis)
    all.push_back({fmt::format("images, axis {} of {}", axis, s.in[0].rank()), {in_leg(0, axis), out_leg(0, axis)}});
  return all;
}

Work work(const OpArgs& args, std::span<const TensorSpec> out) {
  const Tensor& x = args.in[0];
  const auto sides = static_cast<double>(x.size(-2)) + static_cast<double>(x.size(-1));
  return {2 * static_cast<double>(x.numel()) * sides, bytes_moved(args, out)};
}

} // namespace

constinit const OpDef fft_low_pass_op = row({
    .name = "fft_low_pass",
    .math = "y = L_H x L_W, L_n[i, j] = 1/n sum over |f| <= cutoff of cos(2 pi f (i - j) / n)",
    .inputs = {{"images"}},
    .attributes = {required_attr("cutoff", AttrKind::integer, "highest frequency kept, in cycles per image")},
    .infer = infer,
    .body = body,
    .rounding = {.by_layout = true},
    .reference = reference,
    .samples = samples,
    .refuses = refuses,
    .symmetries = symmetries,
    .work = work,
});

Tensor fft_low_pass(const Tensor& images, std::int64_t cutoff) {
  return call1(fft_low_pass_op, {images}, with(cutoff));
}

} // namespace eg
