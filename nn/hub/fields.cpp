#include "nn/hub/fields.h"

#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace eg::hub {

Fields::Fields(const nlohmann::json& object, std::string source)
    : object_(object), source_(std::move(source)), asked_(std::make_shared<std::set<std::string>>()) {
  if (!object_.is_object()) throw FileError(fmt::format("{}: is not a JSON object", source_));
}

void Fields::refuse(const char* name, const std::string& why) const {
  throw FileError(fmt::format("{}: field '{}' {}", source_, name, why));
}

const nlohmann::json* Fields::find(const char* name) const {
  asked_->insert(name);
  const auto at = object_.find(name);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

void Fields::allow(std::initializer_list<std::string_view> known) const {
  for (const auto& [name, value] : object_.items())
    if (!value.is_null() && std::find(known.begin(), known.end(), name) == known.end())
      refuse(name.c_str(), "is not supported");
}

bool Fields::has(const char* name) const { return find(name) != nullptr; }

bool Fields::is_null(const char* name) const { return !has(name) && object_.contains(name); }

std::int64_t Fields::whole(const char* name, const nlohmann::json& value, const char* wanted) const {
  // Sizes are multiplied by small numbers before their meaning is known.
  constexpr std::int64_t most = std::int64_t{1} << 40;
  if (!value.is_number_integer()) refuse(name, wanted);
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= most
                        : value.get<std::int64_t>() >= -most && value.get<std::int64_t>() <= most;
  if (!fits) refuse(name, fmt::format("is {}; numbers beyond 2^40 are no sizes", value.dump()));
  return value.get<std::int64_t>();
}

std::int64_t Fields::integer(const char* name) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) refuse(name, "is missing");
  return whole(name, *value, "must be a whole number");
}

std::int64_t Fields::integer(const char* name, std::int64_t otherwise) const {
  return has(name) ? integer(name) : otherwise;
}

double Fields::real(const char* name, double otherwise) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) refuse(name, "must be a number");
  return value->get<double>();
}

bool Fields::flag(const char* name, bool otherwise) const {
  const nlohmann::json* value = find(name);
  if (otherwise && is_null(name)) refuse(name, "is null, neither true nor false");
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) refuse(name, "must be true or false");
  return value->get<bool>();
}

std::string Fields::text(const char* name, const std::string& otherwise) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) refuse(name, "must be a text");
  return value->get<std::string>();
}

std::pair<std::int64_t, std::int64_t> Fields::sizes(const char* name, std::int64_t otherwise) const {
  const nlohmann::json* value = find(name);
  if (value == nullptr) return {otherwise, otherwise};
  if (!value->is_array()) return {integer(name), integer(name)};
  constexpr const char* wanted = "must be a whole number or a list of two";
  if (value->size() != 2) refuse(name, wanted);
  return {whole(name, (*value)[0], wanted), whole(name, (*value)[1], wanted)};
}

Fields Fields::object(const char* name) const {
  const nlohmann::json* value = find(name);
  return {value == nullptr ? nlohmann::json::object() : *value, fmt::format("{}: {}", source_, name)};
}

std::vector<std::string> Fields::texts(const char* name) const {
  const nlohmann::json* value = find(name);
  std::vector<std::string> all;
  if (value == nullptr) return all;
  if (!value->is_array()) refuse(name, "must be a list of texts");
  for (const nlohmann::json& item : *value) {
    if (!item.is_string()) refuse(name, "must be a list of texts");
    all.push_back(item.get<std::string>());
  }
  return all;
}

std::int64_t Fields::labels() const {
  const nlohmann::json* names = find("id2label");
  if (names == nullptr) return integer("num_labels", 2);
  if (!names->is_object()) refuse("id2label", "must be an object of names by class number");
  return static_cast<std::int64_t>(names->size());
}

} // namespace eg::hub
