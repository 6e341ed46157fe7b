#pragma once
// JSON objects whose every field must be known: what is not read is refused, not left out.

#include "core/error.h"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace eg::data::tok {

/// A JSON object and what errors call it ("tokenizer.json: pre_tokenizer"). Every member throws FileError.
class Fields {
public:
  Fields(const nlohmann::json& object, std::string where) : object_(&object), where_(std::move(where)) {
    if (!object.is_object()) fail("is not a JSON object");
  }

  [[noreturn]] void fail(std::string_view why) const { throw FileError(fmt::format("{}: {}", where_, why)); }
  const std::string& where() const { return where_; }

  /// Refuses fields that are not in the list.
  void allow(std::initializer_list<std::string_view> known) const {
    for (const auto& [key, value] : object_->items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        fail(fmt::format("field '{}' is not supported", key));
  }

  /// The field, or null when it is not there or is null in the file.
  const nlohmann::json* find(const char* key) const {
    const auto found = object_->find(key);
    return found == object_->end() || found->is_null() ? nullptr : &*found;
  }
  const nlohmann::json& at(const char* key) const {
    const nlohmann::json* found = find(key);
    if (found == nullptr) fail(fmt::format("has no '{}'", key));
    return *found;
  }

  std::string text(const char* key) const { return as_text(at(key), key); }
  std::string text_or(const char* key, const char* otherwise) const {
    const nlohmann::json* found = find(key);
    return found == nullptr ? otherwise : as_text(*found, key);
  }
  bool flag_or(const char* key, bool otherwise) const {
    const nlohmann::json* found = find(key);
    if (found == nullptr) return otherwise;
    if (!found->is_boolean()) fail(fmt::format("'{}' is neither true nor false", key));
    return found->get<bool>();
  }
  /// A whole number that is not negative.
  std::uint64_t number(const char* key) const { return as_number(at(key), key); }
  std::uint64_t number_or(const char* key, std::uint64_t otherwise) const {
    const nlohmann::json* found = find(key);
    return found == nullptr ? otherwise : as_number(*found, key);
  }
  Fields object(const char* key) const { return {at(key), where_ + ": " + key}; }
  const nlohmann::json& array(const char* key) const {
    const nlohmann::json& found = at(key);
    if (!found.is_array()) fail(fmt::format("'{}' is not a list", key));
    return found;
  }

  const nlohmann::json& json() const { return *object_; }

private:
  std::string as_text(const nlohmann::json& value, const char* key) const {
    if (!value.is_string()) fail(fmt::format("'{}' is not a text", key));
    return value.get<std::string>();
  }
  std::uint64_t as_number(const nlohmann::json& value, const char* key) const {
    if (!value.is_number_unsigned()) fail(fmt::format("'{}' is not a whole number from 0 on", key));
    return value.get<std::uint64_t>();
  }

  const nlohmann::json* object_;
  std::string where_;
};

} // namespace eg::data::tok
