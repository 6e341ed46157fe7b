#include "apps/reproduce/plan.h"

#include "apps/reproduce/plan_files.h"
#include "core/base/json.h"
#include "core/base/words.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace eg::reproduce {
namespace {

using Json = nlohmann::json;

const Json& member(const Json& object, const char* key, const std::string& source) {
  if (!object.is_object() || !object.contains(key)) throw FileError(fmt::format("{}: '{}' is missing", source, key));
  return object[key];
}

void require_known(const Json& object, const std::vector<std::string>& known, const std::string& source) {
  if (!object.is_object()) throw FileError(fmt::format("{}: must be a JSON object", source));
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw FileError(fmt::format("{}: unknown key '{}'{}", source, key, did_you_mean(key, known)));
}

/// Throws what a reader of values throws, with the file in front.
template <class F> void in_file(const std::string& source, F&& read) {
  try {
    read();
  } catch (const Json::exception&) {
    throw FileError(fmt::format("{}: a value has the wrong type", source));
  } catch (const ValueError& error) {
    throw FileError(error.what());
  }
}

const Json& scale_of(const Json& file, const std::string& scale, const std::string& source) {
  const Json& scales = member(file, "scales", source);
  if (scales.is_object() && scales.contains(scale)) return scales[scale];
  std::vector<std::string> names;
  if (scales.is_object())
    for (const auto& [name, value] : scales.items()) names.push_back(name);
  throw FileError(fmt::format("{}: there is no scale '{}'; there are {}", source, scale, fmt::join(names, ", ")));
}

} // namespace

double Plan::number(const std::string& name) const {
  const auto found = numbers.find(name);
  if (found == numbers.end()) throw FileError(fmt::format("{}: the number '{}' is missing", source, name));
  return found->second;
}

std::int64_t Plan::count(const std::string& name) const {
  const double value = number(name);
  if (value != std::floor(value) || std::abs(value) > 0x1p40)
    throw FileError(fmt::format("{}: '{}' must be a whole number, not {}", source, name, value));
  return static_cast<std::int64_t>(value);
}

const std::string& Plan::word(const std::string& name) const {
  const auto found = words.find(name);
  if (found == words.end()) throw FileError(fmt::format("{}: the word '{}' is missing", source, name));
  return found->second;
}

const std::string& Plan::text(const std::string& model) const {
  const auto found = texts.find(model);
  if (found == texts.end())
    throw FileError(fmt::format("{}: the options of '{}' are missing in 'texts'", source, model));
  return found->second;
}

std::vector<std::string> plan_ids() {
  std::vector<std::string> ids;
  for (const PlanFile& file : plan_files) ids.emplace_back(file.id);
  return ids;
}

std::string plan_text(const std::string& id) {
  for (const PlanFile& file : plan_files)
    if (id == file.id) return file.text;
  throw ValueError(fmt::format("there is no experiment '{}'{}; there are {}", id, did_you_mean(id, plan_ids()),
                               fmt::join(plan_ids(), ", ")));
}

Plan parse_plan(const std::string& text, const std::string& source, const std::string& scale,
                std::uint64_t first_seed) {
  const Json file = parse_json(text, source);
  require_known(file, {"id", "scales"}, source);
  const Json& chosen = scale_of(file, scale, source);
  const std::string place = fmt::format("{}: {}", source, scale);
  require_known(chosen, {"seeds", "train", "celeba", "numbers", "words", "texts"}, place);
  Plan plan{.scale = scale, .source = place};
  in_file(place, [&] {
    plan.id = member(file, "id", source).get<std::string>();
    const auto seeds = member(chosen, "seeds", place).get<std::uint64_t>();
    if (seeds < 1 || seeds > 1000) throw FileError(fmt::format("{}: seeds must be from 1 to 1000", place));
    for (std::uint64_t i = 0; i < seeds; ++i) plan.seeds.push_back(first_seed + i);
    if (chosen.contains("train")) apply_options(plan.train, chosen["train"], place);
    if (chosen.contains("celeba")) {
      plan.celeba = plan.train;
      plan.celeba->data = "celeba";
      apply_options(*plan.celeba, chosen["celeba"], place);
    }
    if (chosen.contains("numbers")) plan.numbers = chosen["numbers"].get<std::map<std::string, double>>();
    if (chosen.contains("texts"))
      for (const auto& [model, options] : chosen["texts"].items()) plan.texts[model] = options.dump();
    if (chosen.contains("words")) plan.words = chosen["words"].get<std::map<std::string, std::string>>();
  });
  return plan;
}

} // namespace eg::reproduce
