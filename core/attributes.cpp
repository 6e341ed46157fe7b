#include "core/attributes.h"

#include "core/base/error.h"

#include <fmt/format.h>

namespace eg {

std::string_view described(AttrKind kind) {
  switch (kind) {
  case AttrKind::boolean:
    return "true or false";
  case AttrKind::integer:
    return "an integer";
  case AttrKind::real:
    return "a real number";
  case AttrKind::integers:
    return "a list of integers";
  case AttrKind::text:
    return "a text";
  case AttrKind::reals:
    return "a list of real numbers";
  }
  return "";
}

Attrs::Attrs() = default;
Attrs::Attrs(const Attrs& other) = default;
Attrs::Attrs(Attrs&& other) noexcept = default;
Attrs& Attrs::operator=(const Attrs& other) = default;
Attrs& Attrs::operator=(Attrs&& other) noexcept = default;
Attrs::~Attrs() = default;

Attrs::Attrs(std::initializer_list<std::pair<std::string_view, AttrValue>> items) {
  items_.reserve(items.size());
  for (const auto& [name, value] : items) items_.emplace_back(name, value);
}

bool Attrs::has(std::string_view name) const {
  for (const auto& item : items_)
    if (item.first == name) return true;
  return false;
}

const AttrValue& Attrs::find(std::string_view name) const {
  for (const auto& item : items_)
    if (item.first == name) return item.second;
  throw ValueError(fmt::format("attribute '{}' was not given", name));
}

namespace {
template <class T> const T& value_of(const AttrValue& value, std::string_view name, const char* kind) {
  if (const T* held = std::get_if<T>(&value)) return *held;
  throw ValueError(fmt::format("attribute '{}' is not {}", name, kind));
}
} // namespace

bool Attrs::flag(std::string_view name) const { return value_of<bool>(find(name), name, "true or false"); }
std::int64_t Attrs::integer(std::string_view name) const {
  return value_of<std::int64_t>(find(name), name, "an integer");
}
double Attrs::real(std::string_view name) const {
  const AttrValue& value = find(name);
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole); // call() left it exact
  return value_of<double>(value, name, "a real number");
}
const std::vector<std::int64_t>& Attrs::integers(std::string_view name) const {
  return value_of<std::vector<std::int64_t>>(find(name), name, "a list of integers");
}
const std::string& Attrs::text(std::string_view name) const {
  return value_of<std::string>(find(name), name, "a text");
}
const std::vector<double>& Attrs::reals(std::string_view name) const {
  return value_of<std::vector<double>>(find(name), name, "a list of real numbers");
}

void Attrs::set(std::string_view name, AttrValue value) {
  for (auto& item : items_)
    if (item.first == name) {
      item.second = std::move(value);
      return;
    }
  items_.emplace_back(name, std::move(value));
}

} // namespace eg
