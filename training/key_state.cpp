#include "training/key_state.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace eg::training {

void remember_key(nlohmann::ordered_json& state, const permute::SecretKey* key) {
  if (key != nullptr) state["key_fingerprint"] = key->fingerprint();
}

void require_same_key(const nlohmann::json& state, const std::string& checkpoint, const permute::SecretKey* key) {
  const std::string fingerprint = state.contains("key_fingerprint") ? state["key_fingerprint"].get<std::string>() : "";
  if (fingerprint != (key != nullptr ? key->fingerprint() : ""))
    throw ValueError(fmt::format("train: {} was made with {}", checkpoint,
                                 state.contains("key_fingerprint") ? "another secret key (or none is given now)"
                                                                   : "no secret key, but one is given now"));
}

} // namespace eg::training
