#pragma once
// Reads typed fields of a model's config.json: a wrong type is an error that names file and field.

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace eg::hub {

/// The fields of one JSON object. A field that is absent or null has its default; those without a default must be
/// there. Every member throws FileError "SOURCE: field 'NAME' ..." for what does not fit. Which fields of a family are
/// read, and which are refused because nothing reads them, says nn/hub/field_rules.h.
class Fields {
public:
  /// `source` is what errors begin with. Throws FileError when `object` is not an object.
  Fields(const nlohmann::json& object, std::string source);

  bool has(const char* name) const;
  /// It is present and null: what its class sets in place of the default is empty.
  bool is_null(const char* name) const;
  const nlohmann::json& json() const { return object_; }
  /// The names that were read so far, here and in copies of this object.
  const std::set<std::string>& asked() const { return *asked_; }
  /// Refuses fields that are not in the list and not null.
  void allow(std::initializer_list<std::string_view> known) const;
  std::int64_t integer(const char* name) const;
  std::int64_t integer(const char* name, std::int64_t otherwise) const;
  double real(const char* name, double otherwise) const;
  /// null is false, as in Python; it is refused where false is not the default.
  bool flag(const char* name, bool otherwise) const;
  std::string text(const char* name, const std::string& otherwise) const;
  /// One number for both, or a list of two: {height, width}.
  std::pair<std::int64_t, std::int64_t> sizes(const char* name, std::int64_t otherwise) const;
  /// An object within; empty where it is absent.
  Fields object(const char* name) const;
  std::vector<std::string> texts(const char* name) const;
  /// The number of entries of id2label, or num_labels, or 2.
  std::int64_t labels() const;

  [[noreturn]] void refuse(const char* name, const std::string& why) const;

private:
  const nlohmann::json* find(const char* name) const;
  /// A whole number from -2^40 to 2^40; `wanted` is the error for anything else than a whole number.
  std::int64_t whole(const char* name, const nlohmann::json& value, const char* wanted) const;
  nlohmann::json object_;
  std::string source_;
  std::shared_ptr<std::set<std::string>> asked_;
};

} // namespace eg::hub
