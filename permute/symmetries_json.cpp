#include "permute/symmetries_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace eg::permute {

nlohmann::json json_of(const AxisUse& use) {
  nlohmann::json axis{{"tensor", use.tensor}};
  if (use.axis < 0)
    axis["values"] = true;
  else
    axis["axis"] = use.axis;
  if (use.whole || use.places.empty()) return axis;
  const std::int64_t begin = use.places.front(), end = use.places.back() + 1;
  if (end - begin == static_cast<std::int64_t>(use.places.size()))
    axis["range"] = {begin, end};
  else
    axis["places"] = use.places;
  return axis;
}

nlohmann::json json_of(const SymmetryGroup& g) {
  nlohmann::json json{{"name", g.name}, {"size", g.size}, {"kind", name_of(g.kind)}, {"log2_size", g.log2_count}};
  if (g.copies > 1) json["copies"] = g.copies;
  if (!g.over.empty()) json["over"] = g.over;
  if (!g.because.empty()) json["because"] = g.because;
  json["in_key"] = g.is_secret();
  json["moves_inputs_or_outputs"] = g.moves_outside;
  nlohmann::json& axes = json["axes"] = nlohmann::json::array();
  for (const AxisUse& use : g.axes) axes.push_back(json_of(use));
  return json;
}

std::string described(const SymmetryGroup& g) {
  if (g.kind == GroupKind::trivial) return "fixed";
  if (g.kind == GroupKind::automorphisms) return fmt::format("automorphisms of {} places", g.size);
  if (g.copies == 1) return fmt::format("S_{}", g.size);
  return g.over.empty() ? fmt::format("S_{} wr S_{}", g.size, g.copies) : fmt::format("S_{} ^ {}", g.size, g.copies);
}

nlohmann::json json_of(const std::optional<Certificate>& c) {
  if (!c) return nullptr;
  return {{"groups", c->groups},
          {"generators", c->generators},
          {"forward_error", c->forward_error},
          {"gradient_error", c->gradient_error}};
}

} // namespace eg::permute
