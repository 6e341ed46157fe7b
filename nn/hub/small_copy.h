#pragma once
// Makes a small model of a given architecture with random weights, for checks that need values.

#include "nn/hub/model.h"

#include <nlohmann/json.hpp>

namespace eg::hub {

/// The config of a small model of the same family and architecture. Its sizes are the model's, but at most: 2 layers, 3
/// key heads, 2 query heads for each of them, 4 features a head, 7 hidden features of an MLP, 11 token ids, 5
/// positions, 3 channels, 3 x 3 patches of 2 x 2 pixels (3 x 2 where the model has fewer or more columns of patches
/// than rows), 5 classes. Throws ValueError for a model that is neither a ViT, a BERT nor a decoder.
nlohmann::json small_config(const Model& model);

/// The model of small_config in f64, in evaluation mode, with every parameter drawn from N(0, 1/4) (standard deviation
/// 1/2), so gains of norms are not 1 and biases not 0. It has the optional parts (poolers) that the model has. Throws
/// as small_config does.
std::unique_ptr<Model> small_copy(const Model& model, RandomKey key);

/// Random values for the inputs that the model needs, for one text or image, with the shapes of model.input_shapes(1):
/// floating ones from N(0, 1) in f64, ids uniform in [0, vocabulary).
Tensors random_inputs(const Model& model, RandomKey key);

} // namespace eg::hub
