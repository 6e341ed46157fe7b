#pragma once
// Compares the group that the inference finds with what a black-box search finds, on functions of named tensors.

#include "nn/module.h"
#include "permute/finder.h"
#include "permute/inference/action.h"

#include <functional>
#include <string>

namespace eg::inferring {

using Function = std::function<nn::StateDict(const nn::StateDict& leaves)>;

/// A function of named tensors with general values.
struct Subject {
  nn::StateDict parameters, inputs;
  Function f;
  bool needs_values = false; ///< the operation's shape or course depends on them

  nn::StateDict leaves() const {
    nn::StateDict all = parameters;
    all.insert(all.end(), inputs.begin(), inputs.end());
    return all;
  }
};

constexpr double tolerance = 1e-9;

/// Largest relative difference; infinite for other shapes and for integers that differ.
double difference(const Tensor& a, const Tensor& b);
/// Asks f itself whether a permutation of the axis, with what goes along, commutes with it.
bool commutes(const Subject& s, const permute::SymmetryProbe& probe, const nn::StateDict& outputs,
              const permute::Permutation& p);
/// From shapes alone: the inference sees no value of a leaf.
permute::ModelSymmetries inferred(const Subject& s);
/// Elements of the inferred group, all parts of it moving, commute with f.
void check_elements(const std::string& what, const Subject& s, const permute::ModelSymmetries& symmetries,
                    const nn::StateDict& outputs);
/// Inference and finder on every axis of every leaf and on every axis of what is computed between; returns how many
/// were compared. `sound`: the inference may know less than the finder.
int compare(const std::string& what, const Subject& s, std::int64_t most = 24, bool between = true, bool sound = false);
/// The module's function of its parameters, which get general values, and of inputs.
Subject of_module(nn::Module& module, nn::StateDict inputs,
                  const std::function<nn::StateDict(const nn::StateDict&)>& run);

} // namespace eg::inferring
