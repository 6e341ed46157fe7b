#pragma once
// Shares what layer_norm, rms_norm, batch_norm and group_norm have in common: checks, chunks of the backward kernels,
// samples and symmetries.

#include "core/ops/row_tools.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace eg::norm_tools {

/// Throws ValueError unless the attribute eps is at least 0.
void check_eps(const OpArgs& args);
/// Checks x (input 0) of at least one axis, its dtype, the given ones of `parameters` (inputs of the shape of its last
/// axis) and eps. Throws DTypeError, ShapeError or ValueError.
void check_rows(const OpArgs& args, std::initializer_list<std::size_t> parameters);

/// 1 / sqrt(mean(c^2) + eps) over the axes of c, which stay as 1: made of operations, so that it can be differentiated.
/// Groups whose squares would leave the type, upwards or downwards, are divided by a power of two near their largest
/// element first.
Tensor reciprocal_deviation(const Tensor& c, const std::vector<std::int64_t>& axes, double eps);

/// y = layer_norm or rms_norm of x (input 0) with the given parameters, on its device.
void forward_on_device(const OpArgs& args, bool centred, const Tensor& gamma, const Tensor& beta, Tensor& y);
/// The gradients from x (input 0), gamma (input 1) and g (input 2) on their device: out = {dx, dgamma} and, for
/// layer_norm, dbeta. The parameters' are empty unless the attribute `parameters` asks for them.
void backward_on_device(const OpArgs& args, bool centred, std::span<Tensor> out);

/// [C, 1, ...]: a vector of channels that broadcasts against x [N, C, ...].
Tensor beside(const Tensor& vector, const Tensor& x);
/// All axes of x but 1, that of the channels.
std::vector<std::int64_t> other_axes(const Tensor& x);

/// Rows of one chunk of a backward kernel. At most 64 chunks, so that the partial sums of parameters stay small beside
/// x.
std::int64_t rows_per_chunk(std::int64_t rows, std::int64_t row_bytes);
/// out[j] = sum over chunks, in order, of partial[chunk * stride + j], for j < n.
template <class T> void join(const T* partial, std::int64_t chunks, std::int64_t stride, std::int64_t n, T* out);

/// Samples {x, gamma, g} of a backward row from those of its forward row {x, gamma, ...}: g has tags from `tag`, that
/// of sample `strided` is strided, and sample `alone` comes once more with parameters = false.
std::vector<Sample> backward_samples(const std::vector<Sample>& forward, DType dtype, std::uint64_t tag,
                                     std::size_t strided, std::size_t alone);

/// The symmetries of a normalisation with one parameter for each index of `axis` (not negative) of x: every other axis
/// permutes the inputs `like_x` and output 0, under the name `others` and its number; `axis` moves the legs `along`,
/// under the name `name`. `mixes`: which of them the statistics are taken over.
enum class Mixed : std::uint8_t { nothing, along, others };
std::vector<Symmetry> symmetries(const Sample& sample, int axis, const std::string& others,
                                 std::initializer_list<int> like_x, std::string name, std::vector<Leg> along,
                                 Mixed mixed);
/// True where the sample of a backward row has gradients of parameters.
bool gives_parameters(const Sample& sample);

} // namespace eg::norm_tools
