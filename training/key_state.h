#pragma once
// Records the fingerprint of a secret key in checkpoints. For the tasks of this folder.

#include "permute/key.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace eg::permute {

/// Adds the fingerprint of a key, if there is one, to a checkpoint's state.
void remember_key(nlohmann::ordered_json& state, const SecretKey* key);
/// Throws ValueError when a checkpoint was made with another key, or with one and none is given now, or the reverse.
void require_same_key(const nlohmann::json& state, const std::string& checkpoint, const SecretKey* key);

} // namespace eg::permute
