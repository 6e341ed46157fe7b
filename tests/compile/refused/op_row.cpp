// A complete row; each WITHOUT_... takes one part away.

#include "core/op.h"

namespace eg {

std::vector<TensorSpec> infer(const OpArgs& args) { return {{args.in[0].shape(), args.in[0].dtype()}}; }
void kernel(const OpArgs&, std::span<Tensor>) {}
Gradients rule(const VjpArgs& args) { return {args.grad[0]}; }
std::vector<Tensor> naive(const OpArgs& args) { return {args.in[0]}; }

extern const OpDef same_op;
constinit const OpDef same_op = row({
#ifndef WITHOUT_NAME
    .name = "same",
#endif
#ifndef WITHOUT_MATH
    .math = "y = x",
#endif
    .inputs = {{"x"}},
#ifndef WITHOUT_INFER
    .infer = infer,
#endif
#ifndef WITHOUT_CPU
    .cpu = kernel,
#endif
#ifdef KERNEL_AND_REASON
    .cuda = kernel,
#endif
#ifndef WITHOUT_CUDA
    .no_cuda = "its kernel is plain loops",
#endif
#ifndef WITHOUT_VJP
    .vjp = rule,
#endif
#ifdef RULE_AND_REASON
    .no_gradient = "its output is an index",
#endif
#ifndef WITHOUT_REFERENCE
    .reference = naive,
#endif
#ifndef WITHOUT_SAMPLES
    .samples = [](DType) { return std::vector<Sample>{}; },
#endif
#ifndef WITHOUT_REFUSES
    .refuses = [] { return std::vector<Refusal>{}; },
#endif
#ifndef WITHOUT_SYMMETRIES
    .symmetries = [](const Sample&) { return std::vector<Symmetry>{}; },
#endif
#ifndef WITHOUT_WORK
    .work = [](const OpArgs&, std::span<const TensorSpec>) { return Work{}; },
#endif
});

} // namespace eg
