#include "permute/catalogue/catalogue.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace eg::permute {
namespace {

using Json = nlohmann::ordered_json;

Json finite(double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); }

Json row(const VerifyResult& r) {
  Json sizes = Json::object();
  for (const auto& [name, value] : r.sizes) sizes[name] = value;
  return {{"id", r.id},
          {"title", r.title},
          {"paper", r.paper},
          {"equation", r.equation},
          {"kind", name_of(r.kind)},
          {"dtype", name_of(r.dtype)},
          {"device", r.device.str()},
          {"sizes", sizes},
          {"seed", r.seed},
          {"error", finite(r.error)},
          {"tolerance", r.tolerance},
          {"control",
           {{"what", r.control.what}, {"error", finite(r.control.error)}, {"must_exceed", r.control.must_exceed}}},
          {"bitwise", r.bitwise ? Json(*r.bitwise) : Json(nullptr)},
          {"compared", r.compared},
          {"differing", r.differing},
          {"differing_exact", r.differing_exact ? Json(*r.differing_exact) : Json(nullptr)},
          {"sharp", r.sharp},
          {"candidates", r.candidates},
          {"status", r.pass ? "pass" : "fail"},
          {"ms", r.ms},
          {"detail", r.detail}};
}

} // namespace

std::map<std::string, std::int64_t> entries_by_paper(const std::vector<VerifyResult>& results) {
  std::map<std::string, std::int64_t> count;
  std::set<std::string> seen; // a row that ran in both precisions is one entry
  for (const VerifyResult& r : results)
    if (seen.insert(r.id).second) ++count[r.paper.empty() ? "new" : r.paper];
  return count;
}

std::string to_json(const std::vector<VerifyResult>& results) {
  Json rows = Json::array();
  for (const VerifyResult& r : results) rows.push_back(row(r));
  const auto passed = std::count_if(results.begin(), results.end(), [](const VerifyResult& r) { return r.pass; });
  Json papers = Json::object();
  for (const auto& [paper, entries] : entries_by_paper(results)) papers[paper] = entries;
  const Json summary = {
      {"pass", passed}, {"fail", static_cast<std::ptrdiff_t>(results.size()) - passed}, {"papers", papers}};
  return Json{{"results", rows}, {"summary", summary}}.dump(2, ' ', false, Json::error_handler_t::replace);
}

} // namespace eg::permute
