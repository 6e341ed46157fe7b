#include "apps/explore/question.h"

#include "core/base/json.h"
#include "core/base/words.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace eg::explore {

using nlohmann::json;

namespace {

std::int64_t whole_of(const json& value, const char* name, std::int64_t least, std::int64_t most) {
  if (!value.is_number_integer()) throw ValueError(fmt::format("{} is not a whole number", name));
  const auto number = value.get<double>(); // numbers beyond 2^63 wrap as integers
  if (number < static_cast<double>(least) || number > static_cast<double>(most))
    throw ValueError(fmt::format("{} = {} is not from {} to {}", name, value.dump(), least, most));
  return value.get<std::int64_t>();
}

} // namespace

Question::Question(std::string_view text) : fields_(parse_json(text, "question")) {
  if (!fields_.is_object()) throw ValueError("a question is a JSON object");
  const json* ask = find("ask");
  if (ask == nullptr || !ask->is_string()) throw ValueError("a question has a text field 'ask'");
  ask_ = ask->get<std::string>();
}

const json* Question::find(const char* name) {
  read_.insert(name);
  const auto found = fields_.find(name);
  return found == fields_.end() ? nullptr : &*found;
}

std::int64_t Question::whole(const char* name, std::int64_t fallback, std::int64_t least, std::int64_t most) {
  const json* value = find(name);
  return value == nullptr ? fallback : whole_of(*value, name, least, most);
}

double Question::number(const char* name, double fallback, double least, double most) {
  const json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_number()) throw ValueError(fmt::format("{} is not a number", name));
  const auto number = value->get<double>();
  if (!(number >= least && number <= most))
    throw ValueError(fmt::format("{} = {} is not from {} to {}", name, number, least, most));
  return number;
}

bool Question::flag(const char* name, bool fallback) {
  const json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) throw ValueError(fmt::format("{} is neither true nor false", name));
  return value->get<bool>();
}

std::string Question::word(const char* name, std::initializer_list<std::string_view> allowed) {
  const json* value = find(name);
  if (value == nullptr) return std::string(*allowed.begin());
  if (value->is_string())
    for (const std::string_view word : allowed)
      if (value->get_ref<const std::string&>() == word) return std::string(word);
  throw ValueError(fmt::format("{} = {} is none of: {}", name,
                               value->dump(-1, ' ', true, json::error_handler_t::replace), fmt::join(allowed, ", ")));
}

std::string Question::text(const char* name, std::string_view fallback, std::size_t most) {
  const json* value = find(name);
  if (value == nullptr) return std::string(fallback);
  if (!value->is_string()) throw ValueError(fmt::format("{} is not a text", name));
  auto text = value->get<std::string>();
  if (text.size() > most) throw ValueError(fmt::format("{} has {} bytes, and may have {}", name, text.size(), most));
  return text;
}

Precision Question::precision() {
  const std::string word = this->word("precision", {"f64", "f32", "exact"});
  return {word == "f32" ? DType::f32 : DType::f64, word == "exact"};
}

permute::Permutation Question::order(const char* name, std::int64_t size) {
  const json* value = find(name);
  if (value == nullptr) return permute::Permutation::identity(size);
  if (!value->is_array() || static_cast<std::int64_t>(value->size()) != size)
    throw ValueError(fmt::format("{} is not a list of {} numbers", name, size));
  std::vector<std::int64_t> gather;
  for (const json& entry : *value) gather.push_back(whole_of(entry, name, 0, size - 1));
  return permute::Permutation(std::move(gather));
}

Tensor Question::matrix(const char* name, std::int64_t most) {
  const json* value = find(name);
  const auto extent = [&](const json* list) {
    const std::size_t size = list != nullptr && list->is_array() ? list->size() : 0;
    if (size < 1 || size > static_cast<std::size_t>(most))
      throw ValueError(fmt::format("{} is not a matrix of 1 to {} rows and columns", name, most));
    return static_cast<std::int64_t>(size);
  };
  const std::int64_t rows = extent(value), columns = extent(&value->front());
  std::vector<double> entries;
  for (const json& row : *value) {
    if (extent(&row) != columns) throw ValueError(fmt::format("the rows of {} differ in length", name));
    for (const json& entry : row) {
      if (!entry.is_number() && !entry.is_null()) throw ValueError(fmt::format("{} holds what is no number", name));
      entries.push_back(entry.is_null() ? -std::numeric_limits<double>::infinity() : entry.get<double>());
    }
  }
  return Tensor::from<double>(entries, {rows, columns});
}

std::vector<std::int64_t> Question::list(const char* name, std::int64_t most, std::size_t longest) {
  const json* value = find(name);
  std::vector<std::int64_t> numbers;
  if (value == nullptr) return numbers;
  if (!value->is_array() || value->size() > longest)
    throw ValueError(fmt::format("{} is not a list of at most {} numbers", name, longest));
  for (const json& entry : *value) numbers.push_back(whole_of(entry, name, 0, most));
  return numbers;
}

void Question::finish() const {
  for (const auto& [name, value] : fields_.items())
    if (!read_.contains(name)) throw ValueError(fmt::format("{} has no field '{}'", ask_, printable(name)));
}

} // namespace eg::explore
