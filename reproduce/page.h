#pragma once
// A reproduced table as an offline HTML page.

#include "permute/report/page.h"
#include "reproduce/outcome.h"

#include <vector>

namespace eg::reproduce {

permute::report::Page page_of(const std::vector<Outcome>& outcomes);

} // namespace eg::reproduce
