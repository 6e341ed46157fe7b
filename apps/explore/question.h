#pragma once
// Reads one question of the explorer's page: a JSON object whose fields have ranges and defaults.

#include "core/tensor.h"
#include "permute/permutation.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace eg::explore {

/// Number types of a page: f64, f32, or f64 with exact sums.
struct Precision {
  DType dtype = DType::f64;
  bool exact = false;
};

/// Fields are read once each by name; finish() refuses those that were not read. Members throw ValueError that names
/// the field for a value of another kind or outside its range.
class Question {
public:
  /// Throws FileError for text that is not JSON, ValueError unless it is an object with a text field "ask".
  explicit Question(std::string_view text);
  const std::string& ask() const { return ask_; }

  std::int64_t whole(const char* name, std::int64_t fallback, std::int64_t least, std::int64_t most);
  double number(const char* name, double fallback, double least, double most);
  bool flag(const char* name, bool fallback = false);
  /// One of `allowed`; the first one is the default.
  std::string word(const char* name, std::initializer_list<std::string_view> allowed);
  /// Free text of at most `most` bytes.
  std::string text(const char* name, std::string_view fallback, std::size_t most);
  /// "precision": "f64", "f32" or "exact".
  Precision precision();
  /// A permutation of 0..size-1 as a list; the identity by default.
  permute::Permutation order(const char* name, std::int64_t size);
  /// A list of lists of numbers, f64 [rows, columns]; null stands for -infinity. Every extent is from 1 to `most`.
  Tensor matrix(const char* name, std::int64_t most);
  /// Whole numbers from 0 to `most`, at most `longest` of them; none by default.
  std::vector<std::int64_t> list(const char* name, std::int64_t most, std::size_t longest);
  void finish() const;

private:
  const nlohmann::json* find(const char* name);

  nlohmann::json fields_;
  std::string ask_;
  std::set<std::string, std::less<>> read_;
};

} // namespace eg::explore
