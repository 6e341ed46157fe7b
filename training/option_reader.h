#pragma once
// Reads options from one flat JSON object.

#include "core/base/error.h"
#include "core/base/function_ref.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace eg::training {

/// Reads the options that it is asked for, where the object has them. Throws ValueError, beginning with `source`, for a
/// value of another kind or a word that no option knows.
class OptionReader {
public:
  /// Throws ValueError unless `in` is an object. Both must outlive the reader.
  OptionReader(const nlohmann::json& in, const std::string& source);

  void operator()(const char* key, std::string& value);
  void operator()(const char* key, bool& value);
  void operator()(const char* key, double& value);
  void operator()(const char* key, std::int64_t& value);
  void operator()(const char* key, std::uint64_t& value);
  void word(const char* key, FunctionRef<void(const std::string&)> assign);
  void words(const char* key, FunctionRef<void(const std::vector<std::string>&)> assign);
  /// The model that the options are for, where they say: the key "model". Throws ValueError when it is another one.
  void require_model(std::string_view model);
  /// Throws ValueError that names a key of no option, and the nearest key that is known.
  void require_all_known() const;

private:
  /// The value of that key, null where there is none. Throws ValueError "must be KIND" for another kind.
  const nlohmann::json* find(const char* key, bool (nlohmann::json::*is)() const, const char* kind);
  [[noreturn]] void refuse(const char* key, const char* kind) const;
  void with_source(FunctionRef<void()> f) const;

  const nlohmann::json& in_;
  const std::string& source_;
  std::vector<std::string> known_;
};

} // namespace eg::training
