#pragma once
// Reads JSON objects whose every field must be known: an unread field is an error.

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace eg::data::tok {

/// A JSON object, which must outlive this, and what errors call it ("tokenizer.json: pre_tokenizer"). Every member
/// throws FileError when the object does not have the expected form.
class Fields {
public:
  Fields(const nlohmann::json& object, std::string where);

  [[noreturn]] void fail(std::string_view why) const;
  const std::string& where() const { return where_; }
  const nlohmann::json& json() const { return *object_; }

  /// Refuses fields that are not in the list.
  void allow(std::initializer_list<std::string_view> known) const;

  /// The field, or null when it is missing or null in the file.
  const nlohmann::json* find(const char* key) const;
  const nlohmann::json& at(const char* key) const;

  std::string text(const char* key) const;
  std::string text_or(const char* key, const char* otherwise) const;
  bool flag_or(const char* key, bool otherwise) const;
  /// A whole number that is not negative.
  std::uint64_t number(const char* key) const;
  std::uint64_t number_or(const char* key, std::uint64_t otherwise) const;
  Fields object(const char* key) const;
  const nlohmann::json& array(const char* key) const;

private:
  const nlohmann::json* object_;
  std::string where_;
};

} // namespace eg::data::tok
