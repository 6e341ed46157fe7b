// The rules as tables of docs/models.md.

#include "nn/hub/field_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace eg::hub {
namespace {

constexpr std::array<std::string_view, 6> all_families = {"bert", "gpt2", "llama", "vit", "deit", "timm"};

/// `names` in backticks, with commas.
std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += fmt::format("{}`{}`", text.empty() ? "" : ", ", name);
  return text;
}

void collect(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

} // namespace

std::string field_rules_markdown() {
  std::string text = "| family | fields that are looked at |\n|---|---|\n";
  std::map<std::string, std::vector<std::string>> harmless;                         // by what they are about
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> families; // by field and supported value
  for (const std::string_view family : all_families) {
    std::vector<std::string> read;
    for (const FieldRule& rule : field_rules(family)) {
      if (rule.use == FieldUse::read) read.emplace_back(rule.name);
      if (rule.use == FieldUse::harmless) collect(harmless[rule.words], rule.name);
      if (rule.use == FieldUse::fixed) families[{rule.name, rule.words}].emplace_back(family);
    }
    text += fmt::format("| {} | {} |\n", family, quoted(read));
  }
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> fixed; // fields by families and value
  for (const auto& [key, in] : families)
    fixed[{fmt::format("{}", fmt::join(in, ", ")), key.second}].push_back(key.first);
  text += "\n| refused | unless it is | in |\n|---|---|---|\n";
  for (const auto& [key, names] : fixed)
    text += fmt::format("| {} | {} | {} |\n", quoted(names), key.second, key.first);
  text += "\n| change nothing in a pass | they are about |\n|---|---|\n";
  for (const auto& [about, names] : harmless) text += fmt::format("| {} | {} |\n", quoted(names), about);
  return text;
}

} // namespace eg::hub
