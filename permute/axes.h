#pragma once
// Says which permutation acts on which axis of which parameter, and applies them. The same map moves weights, gradients
// (dL/dW_(P) = P_out^T dL/dW P_in) and optimiser state, because gradients have the
// parameter's shape, and each axis of an optimiser's state has the parameter's extent or 1.

#include "nn/module.h"
#include "optim/optimizer.h"
#include "permute/permutation.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace eg::permute {

/// The permutation group of each axis of one parameter, "" where none acts: for fc1.weight [hidden, dim],
/// {"blocks.0.mlp.hidden", "residual"}.
struct ParameterAxes {
  std::string parameter;
  std::vector<std::string> groups;
};

/// Parameters that some group permutes; a parameter that is not listed stays as it is.
using AxisMap = std::vector<ParameterAxes>;

/// One permutation for each group, by the group's name.
using PermutationSet = std::map<std::string, Permutation, std::less<>>;

/// x gathered along every axis that has a group: W'[i, j] = W[out[i], in[j]]. Throws ValueError for a group without
/// permutation, ShapeError (naming the parameter) when rank or extents do not fit.
Tensor transform(const Tensor& x, const ParameterAxes& axes, const PermutationSet& permutations);

/// The same for tensors by parameter name (weights, gradients, optimiser state). Undefined tensors stay undefined;
/// tensors that no axis moves keep their handle. Throws ValueError when the map names a parameter that `tensors` lacks.
nn::StateDict transform(const nn::StateDict& tensors, const AxisMap& axes, const PermutationSet& permutations);

/// The permutations that undo `permutations`.
PermutationSet inverse(const PermutationSet& permutations);

/// The permutations that lead from weights already moved by `from` to weights moved by `to`, without passing through
/// the plain ones. Throws ValueError when the groups differ.
PermutationSet between(const PermutationSet& from, const PermutationSet& to);

/// Moves every parameter of a module, in place.
void transform_module(nn::Module& module, const AxisMap& axes, const PermutationSet& permutations);

/// Moves every state tensor of an optimiser, in place, along the axes that it shares with its parameter; `names` are
/// the parameters' names in the optimiser's order.
void transform_optimizer(optim::Optimizer& optimizer, const std::vector<std::string>& names, const AxisMap& axes,
                         const PermutationSet& permutations);

/// Gives the permutation of `size` elements for a site of the model ("residual", "blocks.3.qk.head.1"): never the
/// identity unless size is 1. Public draws and draws from a secret key fit here alike.
using PermutationSource = std::function<Permutation(std::int64_t size, std::string_view site)>;

/// Draws from a counter-based key, not secret; every site has a stream of its own.
PermutationSource public_source(RandomKey key);

} // namespace eg::permute
