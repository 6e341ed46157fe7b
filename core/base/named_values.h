#pragma once
// Translates the values of an enum into their names and back.

#include "core/base/error.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace eg {

/// Names and what they stand for, in the order in which errors list them.
template <class E, std::size_t n> using NamedValues = std::array<std::pair<std::string_view, E>, n>;

/// The value called `name`. Throws ValueError "WHAT: 'NAME' is not one of A, B".
template <class E, std::size_t n>
E value_named(const NamedValues<E, n>& values, std::string_view what, std::string_view name) {
  std::string known;
  for (const auto& [word, value] : values) {
    if (word == name) return value;
    known.append(known.empty() ? "" : ", ").append(word);
  }
  throw ValueError(std::string(what).append(": '").append(name).append("' is not one of ") + known);
}

/// The name of `value`, "?" where it has none.
template <class E, std::size_t n> std::string_view name_in(const NamedValues<E, n>& values, E value) {
  const auto at = std::find_if(values.begin(), values.end(), [&](const auto& named) { return named.second == value; });
  return at == values.end() ? "?" : at->first;
}

} // namespace eg
