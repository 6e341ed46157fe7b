#include "permute/model_key.h"

#include "core/base/error.h"
#include "core/base/words.h"
#include "permute/digest.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace eg::permute {
namespace {

constexpr const char* label_format = "equigrad-model-key";

/// True when the word names the group; names may hold brackets and stars of their own, so equality comes first.
bool means(const std::string& word, const SymmetryGroup& g) {
  if (word == g.name) return true;
  if (word == "all") return g.is_secret();
  if (word == "inner") return g.is_secret() && !g.moves_outside;
  return glob_match(word, g.name);
}

[[noreturn]] void refuse(const std::string& word, const ModelSymmetries& symmetries) {
  std::vector<std::string> names;
  for (const SymmetryGroup& g : symmetries.groups()) {
    if (!means(word, g)) {
      names.push_back(g.name);
      continue;
    }
    if (g.kind == GroupKind::trivial)
      throw ValueError(fmt::format("groups: nothing may move \"{}\": fixed by {}", g.name, g.because));
    throw ValueError(fmt::format("groups: \"{}\" moves {}, which no key of a model does", g.name,
                                 g.moves_data ? "tokens or samples" : "inputs and outputs alone"));
  }
  constexpr std::size_t most = 80; // of a word that is shown
  const std::string shown = word.size() > most ? word.substr(0, most) + "..." : word;
  throw ValueError(fmt::format("groups: no group fits \"{}\"{}", shown, did_you_mean(shown, names)));
}

} // namespace

std::string structure_digest(const ModelSymmetries& symmetries) {
  std::string text;
  for (const SymmetryGroup& g : symmetries.groups()) {
    text += fmt::format("{}|{}|{}|{}|{}\n", g.name, name_of(g.kind), g.size, g.copies, fmt::join(g.over, ","));
    for (const AxisUse& use : g.axes)
      text += fmt::format("  {}|{}|{}|{}\n", use.tensor, use.axis, use.whole, fmt::join(use.places, ","));
  }
  return hexadecimal(digest_of({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, "key"));
}

std::set<std::string> choose_groups(const ModelSymmetries& symmetries, const std::string& words) {
  std::set<std::string> chosen;
  for (const std::string& word : words_of_list(words)) {
    const std::size_t before = chosen.size();
    bool again = false;
    for (const SymmetryGroup& g : symmetries.groups())
      if (means(word, g) && g.is_secret()) again = !chosen.insert(g.name).second || again;
    if (chosen.size() == before && !again) refuse(word, symmetries);
  }
  if (chosen.empty()) throw ValueError("groups: none is named");
  return chosen;
}

SecretKey make_model_key(const ModelSymmetries& symmetries, const std::set<std::string>& groups,
                         const std::string& architecture) {
  const nlohmann::json label{{"format", label_format},
                             {"structure", structure_digest(symmetries)},
                             {"architecture", architecture},
                             {"groups", groups}};
  return SecretKey::generate(label.dump());
}

std::set<std::string> groups_of(const SecretKey& key, const ModelSymmetries& symmetries,
                                const std::string& architecture) {
  const nlohmann::json label = nlohmann::json::parse(key.label(), nullptr, false);
  if (!label.is_object() || !label.contains("format") || label["format"] != label_format)
    throw ValueError(
        fmt::format("key {} was made for no model: make one with keygen --model or --config", key.fingerprint()));
  std::string structure, made_for;
  std::set<std::string> groups;
  try {
    structure = label.at("structure").get<std::string>();
    made_for = label.at("architecture").get<std::string>().substr(0, 80);
    groups = label.at("groups").get<std::set<std::string>>();
  } catch (const nlohmann::json::exception&) {
    throw ValueError(fmt::format("key {}: what it says of its model cannot be read", key.fingerprint()));
  }
  const std::string digest = structure_digest(symmetries);
  if (structure != digest)
    throw ValueError(
        fmt::format("key {} was made for another model: a {} of structure {:.12}, this is a {} of structure {:.12}",
                    key.fingerprint(), made_for, structure, architecture, digest));
  if (groups.empty()) throw ValueError(fmt::format("key {} moves no group", key.fingerprint()));
  return groups;
}

SymmetryElement element_of(const SecretKey& key, const ModelSymmetries& symmetries, const std::string& architecture) {
  const std::set<std::string> groups = groups_of(key, symmetries, architecture);
  return symmetries.element(groups, key.source(structure_digest(symmetries)));
}

} // namespace eg::permute
