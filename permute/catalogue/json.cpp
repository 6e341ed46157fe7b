#include "permute/catalogue/explain.h"

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
          {"draws", r.draws},
          {"sharp", r.sharp},
          {"candidates", r.candidates},
          {"status", r.pass       ? "pass"
                     : r.failed() ? "fail"
                                  : "skip"},
          {"ms", r.ms},
          {"detail", r.detail}};
}

/// Elements from `first` on along `axis` and those after it, as nested lists.
Json nested(const std::vector<double>& values, const Shape& shape, int axis, std::size_t& first) {
  if (axis == shape.rank()) return finite(values[first++]);
  Json list = Json::array();
  for (std::int64_t i = 0; i < shape[axis]; ++i) list.push_back(nested(values, shape, axis + 1, first));
  return list;
}

Json nested(const std::vector<double>& values, const Shape& shape) {
  std::size_t first = 0;
  return nested(values, shape, 0, first);
}

Json compared(const std::vector<Comparison>& comparisons) {
  Json list = Json::array();
  for (const Comparison& c : comparisons) {
    const Shape& shape = c.value.shape();
    const std::vector<double> left = elements_of(c.value), right = elements_of(c.expected);
    std::vector<double> difference(left.size());
    for (std::size_t i = 0; i < left.size(); ++i) difference[i] = left[i] - right[i];
    list.push_back({{"what", c.what},
                    {"shape", std::vector<std::int64_t>(shape.begin(), shape.end())},
                    {"left", nested(left, shape)},
                    {"right", nested(right, shape)},
                    {"difference", nested(difference, shape)},
                    {"scale", finite(scale_of(c))},
                    {"error", finite(c.error)},
                    {"same_bits", c.exact}});
  }
  return list;
}

Json papers_of(const std::vector<VerifyResult>& results) {
  Json papers = Json::object();
  for (const auto& [paper, entries] : entries_by_paper(results)) papers[paper] = entries;
  return papers;
}

std::string document(const Json& rows, const std::vector<VerifyResult>& results) {
  const auto passed = std::count_if(results.begin(), results.end(), [](const VerifyResult& r) { return r.pass; });
  const auto failed = std::count_if(results.begin(), results.end(), [](const VerifyResult& r) { return r.failed(); });
  const auto all = static_cast<std::ptrdiff_t>(results.size());
  const Json summary = {
      {"pass", passed}, {"fail", failed}, {"skip", all - passed - failed}, {"papers", papers_of(results)}};
  return Json{{"results", rows}, {"summary", summary}}.dump(2, ' ', false, Json::error_handler_t::replace);
}

} // namespace

std::map<std::string, std::int64_t> entries_by_paper(const std::vector<VerifyResult>& results) {
  std::map<std::string, std::int64_t> count;
  std::set<std::string> seen; // a row that ran in both precisions is one entry
  for (const VerifyResult& r : results)
    if (seen.insert(r.id).second) ++count[r.paper.empty() ? "new" : r.paper];
  return count;
}

std::vector<double> elements_of(const Tensor& x) {
  return x.to(Device::cpu()).to(DType::f64).contiguous().to_vector<double>();
}

double scale_of(const Comparison& c) {
  double largest = c.scale;
  for (const double x : elements_of(c.expected)) largest = std::max(largest, std::abs(x));
  return largest;
}

std::string to_json(const std::vector<VerifyResult>& results) {
  Json rows = Json::array();
  for (const VerifyResult& r : results) rows.push_back(row(r));
  return document(rows, results);
}

std::string to_json(const std::vector<Explanation>& explanations) {
  Json rows = Json::array();
  std::vector<VerifyResult> results;
  for (const Explanation& e : explanations) {
    Json json = row(e.result);
    json["statement"] = e.statement;
    json["formula"] = e.tex;
    json["comparisons"] = compared(e.holds);
    json["control"]["comparisons"] = compared(e.control);
    rows.push_back(std::move(json));
    results.push_back(e.result);
  }
  return document(rows, results);
}

} // namespace eg::permute
