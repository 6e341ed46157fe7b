#pragma once
// Records the fingerprint of a secret key in checkpoints. For the tasks of this folder.

#include "permute/key.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace eg::training {

/// Adds the fingerprint of a key, if there is one, to a checkpoint's state.
void remember_key(nlohmann::ordered_json& state, const permute::SecretKey* key);
/// Throws ValueError when a checkpoint was made with another key, or with one and none is given now, or the reverse.
void require_same_key(const nlohmann::json& state, const std::string& checkpoint, const permute::SecretKey* key);

} // namespace eg::training
