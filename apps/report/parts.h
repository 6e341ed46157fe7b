#pragma once
// Declares the parts of pages (namespace pages) under the names of this folder.

#include "apps/report/chart.h"
#include "apps/report/page.h"
#include "apps/report/pictures.h"

namespace eg::permute::report {

using eg::pages::Chart;
using eg::pages::escape;
using eg::pages::heat_map;
using eg::pages::Page;
using eg::pages::picture;
using eg::pages::position_map;
using eg::pages::Series;
using eg::pages::signed_map;
using eg::pages::svg;

} // namespace eg::permute::report
