#include "data/json.h"

#include "core/error.h"
#include "data/bytes.h"
#include "data/json_errors.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace eg::data {

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

template <class Json> Json parse(std::string_view text, const std::string& source) {
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, typename Json::parse_event_t event, Json& parsed) {
    using Event = typename Json::parse_event_t;
    if (depth > max_json_depth) refuse_depth(source);
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key) {
      const auto& key = parsed.template get_ref<const std::string&>();
      if (!keys.back().insert(key).second)
        throw FileError(fmt::format("{}: JSON key '{}' is given twice", source, key));
    }
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const nlohmann::json::parse_error& error) {
    refuse_malformed(text, source, error.byte, error.what());
  } catch (const nlohmann::json::exception& error) {
    throw FileError(fmt::format("{}: malformed JSON: {}", source, reason(error.what())));
  }
}

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
  return parse<nlohmann::json>(text, source);
}

nlohmann::ordered_json parse_json_ordered(std::string_view text, const std::string& source) {
  return parse<nlohmann::ordered_json>(text, source);
}

nlohmann::json read_json(const std::string& path) {
  const Bytes bytes = read_file(path);
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

void write_json(const std::string& path, const nlohmann::json& value, int indent) { write(path, value, indent); }
void write_json(const std::string& path, const nlohmann::ordered_json& value, int indent) {
  write(path, value, indent);
}

} // namespace eg::data
