#include "core/base/json_walk.h"

#include "core/base/json_errors.h"

#include <nlohmann/json.hpp>

namespace eg {
namespace {

/// nlohmann's events, with the depth watched.
class Events {
public:
  using Kind = JsonScalar::Kind;

  Events(std::string_view text, const std::string& source, JsonVisitor& visitor)
      : text_(text), source_(source), visitor_(visitor) {}

  bool null() { return pass({}); }
  bool boolean(bool value) { return pass({.kind = Kind::boolean, .whole = value ? 1U : 0U}); }
  bool number_integer(std::int64_t value) {
    return pass({.kind = Kind::negative, .negative = value, .number = static_cast<double>(value)});
  }
  bool number_unsigned(std::uint64_t value) {
    return pass({.kind = Kind::whole, .whole = value, .number = static_cast<double>(value)});
  }
  bool number_float(double value, const std::string&) { return pass({.kind = Kind::number, .number = value}); }
  bool string(std::string& value) { return pass({.kind = Kind::text, .text = &value}); }
  bool binary(nlohmann::json::binary_t&) { return false; } // not in text
  bool start_object(std::size_t) { return open(true); }
  bool start_array(std::size_t) { return open(false); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    visitor_.key(name);
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::json::exception& error) {
    refuse_malformed(text_, source_, byte, error.what());
  }

private:
  bool pass(const JsonScalar& value) {
    visitor_.scalar(value);
    return true;
  }
  bool open(bool object) {
    if (++depth_ > max_json_depth) refuse_depth(source_);
    visitor_.open(object);
    return true;
  }
  bool close() {
    --depth_;
    visitor_.close();
    return true;
  }

  std::string_view text_;
  const std::string& source_;
  JsonVisitor& visitor_;
  int depth_ = 0;
};

} // namespace

void walk_json(std::string_view text, const std::string& source, JsonVisitor& visitor) {
  Events events(text, source, visitor);
  nlohmann::json::sax_parse(text.begin(), text.end(), &events);
}

} // namespace eg
