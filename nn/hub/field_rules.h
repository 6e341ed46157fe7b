#pragma once
// Says which fields of a config.json are read, which change nothing, and which are refused.

#include "nn/hub/fields.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace eg::hub {

enum class FieldUse : std::uint8_t {
  read,     ///< the family's maker looks at it
  harmless, ///< no value of it changes the outputs or gradients of a pass in evaluation
  fixed,    ///< transformers looks at it, nothing here does: one value is supported, every other is refused
};

/// What becomes of one field of config.json.
struct FieldRule {
  const char* name;
  FieldUse use;
  const char* words; ///< fixed: the value that is supported; harmless: what the field is about; read: ""
  /// Whether a value, null too, is the supported one. `all` are the config's fields. Of fixed fields alone.
  bool (*fits)(const nlohmann::json& value, const Fields& all) = nullptr;
};

/// The rules of a family: "bert", "gpt2", "llama", "vit", "deit", "timm". Every field that a class of transformers 4.57
/// or 5 reads has one. Fields without a rule are known to no class and allowed: transformers ignores them too.
std::vector<FieldRule> field_rules(std::string_view family);

/// Throws FileError "SOURCE: field 'NAME' is VALUE; ..." for a fixed field with another value than the supported one.
void refuse_unread_fields(const Fields& fields, std::string_view family);

} // namespace eg::hub
