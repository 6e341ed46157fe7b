#include "core/base/json.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json_errors.h"
#include "core/base/json_walk.h"
#include "core/base/words.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

namespace eg {

using nlohmann::json;

namespace {

/// "line 3, column 14" of a byte offset.
std::string position(std::string_view text, std::size_t byte) {
  std::size_t line = 1;
  std::size_t column = 1;
  for (std::size_t i = 0; i + 1 < byte && i < text.size(); ++i) {
    ++column;
    if (text[i] == '\n') {
      ++line;
      column = 1;
    }
  }
  return fmt::format("line {}, column {}", line, column);
}

/// nlohmann's text without its "[json.exception...] parse error at line 1, column 2: " front.
std::string_view reason(std::string_view what) {
  if (const auto bracket = what.find("] "); bracket != std::string_view::npos) what.remove_prefix(bracket + 2);
  if (!what.starts_with("parse error")) return what;
  const auto colon = what.find(": ");
  return colon == std::string_view::npos ? what : what.substr(colon + 2);
}

/// Puts values together. (nlohmann's own parser with a callback, which duplicate keys would need, walks an object or
/// list again for each object or list in it: minutes for a list of 100,000 pairs.)
class Builder final : public JsonVisitor {
public:
  explicit Builder(const std::string& source) : source_(source) {}

  void open(bool object) override {
    open_.push_back(&add(object ? json::object() : json::array()));
    keys_.emplace_back();
  }
  void close() override {
    open_.pop_back();
    keys_.pop_back();
  }
  void key(std::string& name) override {
    if (!keys_.back().insert(name).second)
      throw FileError(fmt::format("{}: JSON key '{}' is given twice", source_, printable(name)));
    key_ = std::move(name);
  }
  void scalar(const JsonScalar& value) override {
    using Kind = JsonScalar::Kind;
    switch (value.kind) {
    case Kind::null:
      add(nullptr);
      break;
    case Kind::boolean:
      add(value.whole != 0);
      break;
    case Kind::whole:
      add(value.whole);
      break;
    case Kind::negative:
      add(value.negative);
      break;
    case Kind::number:
      add(value.number);
      break;
    case Kind::text:
      add(std::move(*value.text));
      break;
    }
  }

  json take() { return std::move(root_); }

private:
  /// The value at the end of what is open; it stays where it is until that is closed.
  json& add(json value) {
    if (open_.empty()) return root_ = std::move(value);
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return parent.back();
    }
    auto& members = parent.get_ref<json::object_t&>();
    return members.emplace_hint(members.end(), std::move(key_), std::move(value))->second;
  }

  const std::string& source_;
  json root_;
  std::vector<json*> open_;
  std::vector<std::unordered_set<std::string>> keys_;
  std::string key_;
};

template <class Json> void write(const std::string& path, const Json& value, int indent) {
  std::string text;
  try {
    text = value.dump(indent) + "\n";
  } catch (const nlohmann::json::exception&) {
    throw ValueError(path + ": cannot write JSON: a text in it is not UTF-8");
  }
  write_file(path, std::string_view(text));
}

} // namespace

void refuse_depth(const std::string& source) {
  throw FileError(fmt::format("{}: JSON nested deeper than {} levels", source, max_json_depth));
}

void refuse_malformed(std::string_view text, const std::string& source, std::size_t byte, std::string_view what) {
  throw FileError(fmt::format("{}: malformed JSON at {}: {}", source, position(text, byte), reason(what)));
}

nlohmann::json parse_json(std::string_view text, const std::string& source) {
  Builder builder(source);
  walk_json(text, source, builder);
  return builder.take();
}

nlohmann::json read_json(const std::string& path) {
  const Bytes bytes = read_file(path);
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

void write_json(const std::string& path, const nlohmann::json& value, int indent) { write(path, value, indent); }
void write_json(const std::string& path, const nlohmann::ordered_json& value, int indent) {
  write(path, value, indent);
}

} // namespace eg
