#pragma once
// Declares the attributes of an operation (axis, eps, ...) and carries their values. The op definition lists them;
// call() checks values against it.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace eg {

/// Value of one attribute.
using AttrValue = std::variant<bool, std::int64_t, double, std::vector<std::int64_t>, std::string, std::vector<double>>;

/// In the order of AttrValue's alternatives.
enum class AttrKind : std::uint8_t { boolean, integer, real, integers, text, reals };

/// What a value of a kind is called in messages: "an integer".
std::string_view described(AttrKind kind);

/// Declaration of one attribute in an op row: name, kind, default, meaning. An attribute without default must be given.
struct AttrSpec {
  std::string_view name;
  AttrKind kind;
  bool required;
  double number;         // default of boolean, integer and real
  std::string_view text; // default of text
  std::string_view doc;
};

constexpr AttrSpec attr_bool(std::string_view name, bool value, std::string_view doc) {
  return {name, AttrKind::boolean, false, value ? 1.0 : 0.0, {}, doc};
}
constexpr AttrSpec attr_int(std::string_view name, std::int64_t value, std::string_view doc) {
  return {name, AttrKind::integer, false, static_cast<double>(value), {}, doc};
}
constexpr AttrSpec attr_real(std::string_view name, double value, std::string_view doc) {
  return {name, AttrKind::real, false, value, {}, doc};
}
constexpr AttrSpec attr_text(std::string_view name, std::string_view value, std::string_view doc) {
  return {name, AttrKind::text, false, 0.0, value, doc};
}
/// A list of integers; its default is the empty list.
constexpr AttrSpec attr_ints(std::string_view name, std::string_view doc) {
  return {name, AttrKind::integers, false, 0.0, {}, doc};
}
/// A list of real numbers; its default is the empty list.
constexpr AttrSpec attr_reals(std::string_view name, std::string_view doc) {
  return {name, AttrKind::reals, false, 0.0, {}, doc};
}
constexpr AttrSpec required_attr(std::string_view name, AttrKind kind, std::string_view doc) {
  return {name, kind, true, 0.0, {}, doc};
}

/// The attributes of one call, by name.
class Attrs {
public:
  // Out of line: samples and calls make and drop them in every operation's file.
  Attrs();
  Attrs(const Attrs& other);
  Attrs(Attrs&& other) noexcept;
  Attrs& operator=(const Attrs& other);
  Attrs& operator=(Attrs&& other) noexcept;
  ~Attrs();
  Attrs(std::initializer_list<std::pair<std::string_view, AttrValue>> items);

  bool has(std::string_view name) const;
  /// Value of a declared attribute. Throws ValueError when it is absent or of another kind.
  bool flag(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  const std::vector<std::int64_t>& integers(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<double>& reals(std::string_view name) const;

  void set(std::string_view name, AttrValue value);
  const std::vector<std::pair<std::string, AttrValue>>& items() const { return items_; }

private:
  const AttrValue& find(std::string_view name) const;
  std::vector<std::pair<std::string, AttrValue>> items_;
};

} // namespace eg
