#pragma once
// Writes a reproduced table as an offline HTML page.

#include "apps/report/page.h"
#include "apps/reproduce/outcome.h"

#include <vector>

namespace eg::reproduce {

report::Page page_of(const std::vector<Outcome>& outcomes);

} // namespace eg::reproduce
