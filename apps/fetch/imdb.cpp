#include "apps/fetch/imdb.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "data/unpack.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <optional>
#include <utility>

namespace eg::fetch {
namespace {

/// Of one review: its part, number and label.
struct Place {
  bool test = false;
  std::int64_t number = 0;
  int label = 0;
};

/// Of "aclImdb/train/pos/12_9.txt"; nothing for another name.
std::optional<Place> place_of(std::string_view name) {
  const auto take = [&](std::string_view word) {
    const bool there = name.starts_with(word);
    if (there) name.remove_prefix(word.size());
    return there;
  };
  Place place;
  if (!take("aclImdb/")) return std::nullopt;
  place.test = take("test/");
  if (!place.test && !take("train/")) return std::nullopt;
  place.label = take("pos/") ? 1 : 0;
  if (place.label == 0 && !take("neg/")) return std::nullopt;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), place.number);
  if (error != std::errc{} || *end != '_' || !name.ends_with(".txt")) return std::nullopt;
  return place;
}

/// With a blank for every control character (C0, DEL, C1), so that a text stays on its line.
std::string on_one_line(std::string_view text) {
  std::string line;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1 = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    line += byte < 0x20 || byte == 0x7F || c1 ? ' ' : text[i];
    if (c1) ++i;
  }
  return line;
}

} // namespace

void unpack_imdb(const std::string& archive, const std::string& folder) {
  std::map<std::pair<std::int64_t, int>, std::string> parts[2];
  data::read_tar(archive, [&](const data::ArchiveMember& member) {
    if (const std::optional<Place> place = place_of(member.name))
      parts[place->test ? 1 : 0][{place->number, place->label}] =
          on_one_line({reinterpret_cast<const char*>(member.bytes.data()), member.bytes.size()});
  });
  for (const bool test : {false, true}) {
    const char* name = test ? "test" : "train";
    if (parts[test].empty()) throw FileError(fmt::format("{}: has no reviews in aclImdb/{}", archive, name));
    std::string table;
    for (const auto& [place, text] : parts[test]) table += fmt::format("{}\t{}\n", place.second, text);
    write_file(join_path(folder, fmt::format("imdb_{}.tsv", name)), std::string_view(table));
  }
}

} // namespace eg::fetch
