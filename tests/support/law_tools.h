#pragma once
// What the laws share: running rows on samples, gradients of calls, other layouts, larger samples.

#include "autograd/check.h"
#include "autograd/tape.h"
#include "core/op.h"
#include "core/random.h"
#include "support/law_device.h"
#include "support/laws.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace eg::laws {

using Tensors = std::vector<Tensor>;

Tensors floating(const Tensors& list);

/// "softmax [odd sizes, f32]"
std::string where(const OpDef& op, const Sample& sample, DType dtype = DType::f64);

/// The row's outputs on a sample, unrecorded.
Tensors outputs(const OpDef& op, const Sample& sample);
/// The row's plain loops on packed f64 copies of the inputs.
Tensors reference_outputs(const OpDef& op, const Sample& sample);
/// The row as a function of its tensors.
TensorFunction function_of(const OpDef& op, const Attrs& attrs);
/// The attributes with the row's defaults filled in, as kernels see them.
Attrs completed(const OpDef& op, const Sample& sample);
/// Normal cotangents for every output (undefined for integer ones), the same for the same shapes.
Tensors cotangents_for(const Tensors& out);
/// J^T cotangents for every input (undefined for integer ones) through a tape.
Tensors gradients(const OpDef& op, const Sample& sample, const Tensors& cotangents);
/// True when the row has a rule and the sample has something to differentiate.
bool differentiable(const OpDef& op, const Sample& sample);

/// The sample with packed copies of its inputs.
Sample packed_copy(const Sample& sample);
/// The sample with its floating inputs converted.
Sample converted(const Sample& sample, DType dtype);

/// The same elements in other layouts, each with its name.
std::vector<std::pair<std::string, Tensor>> layouts_of(const Tensor& x);

/// The sample repeated along the axes of its symmetries (with 10 % noise) until its largest tensor has `elements`;
/// empty inputs when none of its symmetries can grow.
Sample enlarged(const OpDef& op, const Sample& sample, std::int64_t elements);

/// Bits of two lists agree; on a difference the text says where.
std::string difference_in_bits(const Tensors& a, const Tensors& b);

/// Runs f for every sample of the dtype; an exception that escapes is a failure of the row.
void each_sample(const OpDef& op, DType dtype, Verdict& verdict, const std::function<void(const Sample&)>& f);

} // namespace eg::laws
