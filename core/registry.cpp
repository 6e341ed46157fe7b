#include "core/registry.h"

#include "core/ops/list.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace eg {
namespace {

const OpDef* const rows[] = {
#define EG_ROW(NAME) &NAME##_op,
    EG_OP_LIST(EG_ROW)
#undef EG_ROW
};

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> line(b.size() + 1);
  std::iota(line.begin(), line.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = line[0];
    line[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = line[j];
      line[j] = std::min({line[j] + 1, line[j - 1] + 1, substituted});
    }
  }
  return line.back();
}

} // namespace

std::span<const OpDef* const> registry() { return rows; }

const OpDef& find_op(std::string_view name) {
  const OpDef* nearest = rows[0];
  for (const OpDef* candidate : rows) {
    if (candidate->name == name) return *candidate;
    if (edit_distance(candidate->name, name) < edit_distance(nearest->name, name)) nearest = candidate;
  }
  throw ValueError(fmt::format("registry: there is no op '{}'; did you mean '{}'?", name, nearest->name));
}

} // namespace eg
