#pragma once
// Makes a small model of the same structure as a given one, for checks that need values.

#include "nn/hub/model.h"

#include <nlohmann/json.hpp>

namespace eg::hub {

/// The config of a model of the same family and architecture whose sizes are small: at most 2 layers, 2 query heads for
/// each of at most 3 key heads, 4 features a head, 7 hidden features of an MLP, 11 ids, 5 positions, 3 x 3 patches of 2
/// x 2 pixels, 5 classes. A size of one stays one, and what was different for height and width stays so.
nlohmann::json small_config(const Model& model);

/// The model of small_config with every parameter drawn from N(0, 1/4), f64, in evaluation: norms' gains are not 1 and
/// biases not 0. It has the optional parts (poolers) that the model has.
std::unique_ptr<Model> small_copy(const Model& model, RandomKey key);

/// Random inputs of one text or image for a model with values: images from N(0, 1), f64; ids below its vocabulary.
Tensors random_inputs(const Model& model, RandomKey key);

} // namespace eg::hub
