// equigrad stip: secure transformer inference by permutation (paper 004), its three parties as programs.

#include "apps/cli/shell/arguments.h"
#include "apps/cli/stip/stip.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

namespace eg::cli {
namespace {

struct Part {
  const char* name;
  Declare declare;
};

constexpr std::array parts = {Part{"transform", declare_stip_transform}, Part{"serve", declare_stip_serve},
                              Part{"query", declare_stip_query}, Part{"demonstrate", declare_stip_demonstrate}};

/// The first word behind "stip" that is a part; nullptr when there is none.
const Part* part_in(const std::vector<std::string>& words) {
  const auto verb = std::find(words.begin(), words.end(), "stip");
  for (auto word = verb; word != words.end(); ++word)
    for (const Part& part : parts)
      if (*word == part.name) return &part;
  return nullptr;
}

} // namespace

const std::vector<std::string>& stip_parts() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    for (const Part& part : parts) found.emplace_back(part.name);
    return found;
  }();
  return names;
}

std::string stip_topic(const std::vector<std::string>& words) {
  const Part* part = part_in(words);
  return fmt::format("stip {}", part != nullptr ? part->name : "PART");
}

Job declare_stip(CLI::App& app, const CommonOptions& common) {
  app.add_option("part",
                 "Which party: transform (the owner), serve (the cloud), query (the user); demonstrate (what fails)")
      ->required()
      ->check(one_of(stip_parts()))
      ->type_name("PART");
  app.footer("The options of each: equigrad stip PART --help");
  const Part* const part = part_in(common.words);
  if (part == nullptr) return [] { return static_cast<int>(bad_input); }; // parsing has refused it
  return part->declare(app, common);
}

} // namespace eg::cli
