#pragma once
// Makes rows that are wrong on purpose and asks a law to catch them.

#include "core/ops.h"
#include "core/registry.h"
#include "support/laws.h"

#include <cstdint>
#include <doctest/doctest.h>
#include <string>

namespace eg::laws {

/// A copy of a row of the registry with one thing changed.
template <class Change> OpDef spoiled(const char* name, Change change) {
  OpDef op = find_op(name);
  change(op);
  return op;
}

inline void must_catch(Law law, const char* what, const OpDef& wrong) {
  const Verdict verdict = law(wrong);
  CHECK_MESSAGE(!verdict.pass(), "not caught: ", std::string(what));
}

inline void must_accept(Law law, const char* name) {
  const Verdict verdict = law(find_op(name));
  CHECK_MESSAGE(verdict.pass(), std::string(name), verdict.text());
  CHECK(verdict.checked > 0);
}

inline std::int64_t axis_of(const OpArgs& a) { return a.attrs.integer("axis"); }

inline Tensor sum_along(const Tensor& x, std::int64_t axis) { return sum(x, {axis}, true); }

} // namespace eg::laws
