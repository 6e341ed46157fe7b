#pragma once
// A reproduced table as an offline HTML page.

#include "pages/page.h"
#include "reproduce/outcome.h"

#include <vector>

namespace eg::reproduce {

pages::Page page_of(const std::vector<Outcome>& outcomes);

} // namespace eg::reproduce
