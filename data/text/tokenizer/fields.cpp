#include "data/text/tokenizer/fields.h"

#include "core/base/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace eg::data::tok {

Fields::Fields(const nlohmann::json& object, std::string where) : object_(&object), where_(std::move(where)) {
  if (!object.is_object()) fail("is not a JSON object");
}

void Fields::fail(std::string_view why) const { throw FileError(fmt::format("{}: {}", where_, why)); }

void Fields::allow(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : object_->items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      fail(fmt::format("field '{}' is not supported", key));
}

const nlohmann::json* Fields::find(const char* key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const nlohmann::json& Fields::at(const char* key) const {
  const nlohmann::json* found = find(key);
  if (found == nullptr) fail(fmt::format("has no '{}'", key));
  return *found;
}

std::string Fields::text(const char* key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_string()) fail(fmt::format("'{}' is not a text", key));
  return value.get<std::string>();
}

std::string Fields::text_or(const char* key, const char* otherwise) const {
  return find(key) == nullptr ? otherwise : text(key);
}

bool Fields::flag_or(const char* key, bool otherwise) const {
  const nlohmann::json* found = find(key);
  if (found == nullptr) return otherwise;
  if (!found->is_boolean()) fail(fmt::format("'{}' is neither true nor false", key));
  return found->get<bool>();
}

std::uint64_t Fields::number(const char* key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_number_unsigned()) fail(fmt::format("'{}' is not a whole number from 0 on", key));
  return value.get<std::uint64_t>();
}

std::uint64_t Fields::number_or(const char* key, std::uint64_t otherwise) const {
  return find(key) == nullptr ? otherwise : number(key);
}

Fields Fields::object(const char* key) const { return {at(key), where_ + ": " + key}; }

const nlohmann::json& Fields::array(const char* key) const {
  const nlohmann::json& found = at(key);
  if (!found.is_array()) fail(fmt::format("'{}' is not a list", key));
  return found;
}

} // namespace eg::data::tok
