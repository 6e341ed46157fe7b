#include "apps/report/formulas.h"

#include "core/base/error.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace eg::report {
namespace {

struct Formula {
  std::string_view tex, mathml;
};

constexpr auto formulas = std::to_array<Formula>({
#include "formulas.inc"
});

} // namespace

std::string_view mathml(std::string_view tex) {
  const auto found = std::find_if(formulas.begin(), formulas.end(), [&](const Formula& f) { return f.tex == tex; });
  if (found == formulas.end())
    throw ValueError(fmt::format("formulas: \"{}\" is not rendered; run scripts/make_formulas.py", tex));
  return found->mathml;
}

std::vector<std::string_view> rendered_formulas() {
  std::vector<std::string_view> all;
  for (const Formula& formula : formulas) all.push_back(formula.tex);
  return all;
}

} // namespace eg::report
