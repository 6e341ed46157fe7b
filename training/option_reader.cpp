#include "training/option_reader.h"

#include "core/base/words.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace eg::training {

OptionReader::OptionReader(const nlohmann::json& in, const std::string& source) : in_(in), source_(source) {
  if (!in.is_object()) throw ValueError(source + ": options must be a JSON object");
}

const nlohmann::json* OptionReader::find(const char* key, bool (nlohmann::json::*is)() const, const char* kind) {
  known_.emplace_back(key);
  const auto found = in_.find(key);
  if (found == in_.end()) return nullptr;
  if (!((*found).*is)()) refuse(key, kind);
  return &*found;
}

void OptionReader::refuse(const char* key, const char* kind) const {
  throw ValueError(fmt::format("{}: '{}' must be {}, not {}", source_, key, kind, in_.at(key).dump()));
}

void OptionReader::with_source(FunctionRef<void()> f) const {
  try {
    f();
  } catch (const ValueError& e) {
    throw ValueError(source_ + ": " + e.what());
  }
}

void OptionReader::operator()(const char* key, std::string& value) {
  const nlohmann::json* found = find(key, &nlohmann::json::is_string, "a text");
  if (found == nullptr) return;
  if (found->get_ref<const std::string&>().find('\0') != std::string::npos) refuse(key, "a text without NUL");
  value = found->get<std::string>();
}

void OptionReader::operator()(const char* key, bool& value) {
  if (const nlohmann::json* found = find(key, &nlohmann::json::is_boolean, "true or false")) found->get_to(value);
}

void OptionReader::operator()(const char* key, double& value) {
  if (const nlohmann::json* found = find(key, &nlohmann::json::is_number, "a number")) found->get_to(value);
}

void OptionReader::operator()(const char* key, std::int64_t& value) {
  if (const nlohmann::json* found = find(key, &nlohmann::json::is_number_integer, "a whole number"))
    found->get_to(value);
}

void OptionReader::operator()(const char* key, std::uint64_t& value) {
  if (const nlohmann::json* found = find(key, &nlohmann::json::is_number_unsigned, "a whole number from 0"))
    found->get_to(value);
}

void OptionReader::word(const char* key, FunctionRef<void(const std::string&)> assign) {
  if (const nlohmann::json* found = find(key, &nlohmann::json::is_string, "a word"))
    with_source([&] { assign(found->get_ref<const std::string&>()); });
}

void OptionReader::words(const char* key, FunctionRef<void(const std::vector<std::string>&)> assign) {
  const nlohmann::json* found = find(key, &nlohmann::json::is_array, "a list");
  if (found == nullptr) return;
  for (const nlohmann::json& one : *found)
    if (!one.is_string()) refuse(key, "a list of texts");
  with_source([&] { assign(found->get<std::vector<std::string>>()); });
}

void OptionReader::require_model(std::string_view model) {
  const nlohmann::json* named = find("model", &nlohmann::json::is_string, "a word");
  if (named != nullptr && *named != model)
    throw ValueError(fmt::format("{}: the options are for a model of kind '{}', not '{}'", source_,
                                 named->get_ref<const std::string&>(), model));
}

void OptionReader::require_all_known() const {
  for (const auto& [key, value] : in_.items())
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
      const std::string hint = did_you_mean(key, known_);
      throw ValueError(fmt::format("{}: unknown option '{}'{}{}", source_, key, hint,
                                   hint.empty() ? fmt::format("; known are {}", fmt::join(known_, ", ")) : ""));
    }
}

} // namespace eg::training
