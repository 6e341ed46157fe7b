#pragma once
// Implements activation checkpointing, which trades time for memory (Chen et al., "Training deep nets with sublinear
// memory cost", 2016).

#include "autograd/functional.h"

namespace eg {

/// f(inputs), of which the tapes that listen keep the inputs alone. Intermediate values of f are freed, and computed
/// again in the backward pass. Without a tape it is f(inputs).
///
/// Tensors that f captures (a module's parameters, a mask) are found while it runs and get their gradients like inputs.
/// Gradients have the bits that they would have without, for any number of threads: random numbers depend on their keys
/// alone (hand f a RandomKey, not a stream that moves on), contributions are added in the same order, and the settings
/// of the forward pass (core/base/context.h) hold again. Checkpoints nest. Second derivatives work, equal to rounding;
/// the outer tape then holds what was recomputed.
///
/// f must do the same each time it runs; it is kept by value until the tape goes, and what it refers to must live that
/// long. Throws AutogradError when f computes with other tensors, or gives outputs of another number, shape or type,
/// the second time; when something it read was changed in place meanwhile; when it gives an undefined output.
std::vector<Tensor> checkpoint(const TensorFunction& f, const std::vector<Tensor>& inputs);
/// The same for one tensor to one.
Tensor checkpoint(const std::function<Tensor(const Tensor&)>& f, const Tensor& x);
/// The same for an f that is given whether its result will be read. When f runs again for the gradient it will not be,
/// and f may leave out the values of its last operation (core/meta.h, ShapeOnlyScope).
Tensor checkpoint(const std::function<Tensor(const Tensor&, bool read)>& f, const Tensor& x);

/// True while this thread runs the function of a checkpoint again for the gradient. What every pass updates (running
/// statistics) must not be updated then.
bool recomputing();

} // namespace eg
