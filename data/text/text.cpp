#include "data/text/text.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/out_of_memory.h"
#include "data/text/tokenizer/normalizer.h"
#include "data/unpack.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace eg::data {

std::string find_text(const std::string& name, const std::string& data_dir) {
  const std::string folder = data_dir.empty() ? default_data_dir() : data_dir;
  if (name == "tinyshakespeare") {
    std::string path = join_path(join_path(folder, name), "input.txt");
    if (folder.empty() || !file_exists(path))
      throw FileError(fmt::format("{}: the text {} is not here: looked for {}; give the folder that holds it with "
                                  "--data-dir or EQUIGRAD_DATA",
                                  folder.empty() ? "no data folder is given" : folder, name,
                                  join_path(name, "input.txt")));
    return path;
  }
  if (folder_exists(name)) throw FileError(name + ": is a folder; a text to learn from is one file");
  if (!file_exists(name)) throw FileError(name + ": no such text: give a file, or tinyshakespeare");
  return name;
}

std::string read_text(const std::string& path) {
  std::string text;
  {
    const Bytes bytes = read_unpacked(path);
    resize_for(path, text, bytes.size());
    std::copy(bytes.begin(), bytes.end(), text.begin());
  }
  if (const std::size_t wrong = find_invalid_utf8(text); wrong != std::string_view::npos)
    throw FileError(fmt::format("{}: is not UTF-8 text: line {}, byte {} of the file (0x{:02x})", path,
                                1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(wrong), '\n'),
                                wrong, static_cast<unsigned>(static_cast<unsigned char>(text[wrong]))));
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  return text;
}

std::pair<std::string_view, std::string_view> held_out(std::string_view text, double share) {
  auto cut = static_cast<std::size_t>(std::llround(static_cast<double>(text.size()) * (1.0 - share)));
  cut = std::min(cut, text.size());
  while (cut < text.size() && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) ++cut; // inside a character
  return {text.substr(0, cut), text.substr(cut)};
}

std::vector<std::int32_t> token_ids(const Tokenizer& tokenizer, std::string_view text, StopFlag stop) {
  constexpr std::size_t piece = std::size_t{1} << 18; // so that offsets and masks of a whole book need no memory
  EncodeOptions options;
  options.add_special_tokens = false;
  std::vector<std::int32_t> ids;
  while (!text.empty()) {
    if (stop != nullptr && stop->load()) throw Interrupted("interrupted while the text was cut into tokens");
    const std::size_t size = tok::cut_after(text, piece);
    for (const std::int64_t id : tokenizer.encode(text.substr(0, size), options).ids)
      ids.push_back(static_cast<std::int32_t>(id));
    text.remove_prefix(size);
  }
  return ids;
}

} // namespace eg::data
