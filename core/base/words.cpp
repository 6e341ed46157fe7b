#include "core/base/words.h"

#include "core/base/utf8.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg {
namespace {

/// Characters that a terminal interprets, or that make a text look like another one: controls, marks of direction, and
/// those without width.
bool is_unprintable(char32_t point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0xad || point == 0x61c ||
         (point >= 0x200b && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
         (point >= 0x2060 && point <= 0x206f) || point == 0xfeff;
}

} // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::vector<std::string> near_words(std::string_view word, std::span<const std::string> known, std::size_t most) {
  struct Near {
    std::size_t distance;
    std::string word;
  };
  std::vector<Near> found;
  constexpr std::size_t longest = 64; // no name is longer, and the distance takes the product of the lengths
  if (word.empty() || word.size() > longest) return {};
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    const std::size_t letters = std::max(word.size(), candidate.size());
    const std::string_view begin = std::string_view(candidate).substr(0, word.size());
    if (3 * distance <= letters || (begin == word && word.size() > 2)) found.push_back({distance, candidate});
  }
  std::stable_sort(found.begin(), found.end(), [](const Near& a, const Near& b) { return a.distance < b.distance; });
  std::vector<std::string> words;
  for (std::size_t i = 0; i < std::min(most, found.size()); ++i) words.push_back(found[i].word);
  return words;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  const std::vector<std::string> near = near_words(word, known, 1);
  return near.empty() ? std::string() : fmt::format("; did you mean {}?", near.front());
}

bool glob_match(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t]) && pattern[p] != '*') {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string count_of(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::vector<std::string> words_of_list(std::string_view list) {
  std::vector<std::string> words;
  for (;;) {
    const std::size_t end = std::min(list.find(','), list.size());
    std::string_view word = list.substr(0, end);
    word.remove_prefix(std::min(word.find_first_not_of(' '), word.size()));
    word = word.substr(0, word.find_last_not_of(' ') + 1);
    if (!word.empty()) words.emplace_back(word);
    if (end == list.size()) return words;
    list.remove_prefix(end + 1);
  }
}

std::string printable(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::string line;
  while (!text.empty()) {
    const std::size_t size = utf8_size(text);
    std::size_t front = 0;
    if (text.front() == '\n')
      line += ' ';
    else if (size == 0 || is_unprintable(next_utf8(text, front)))
      for (const char byte : text.substr(0, std::max<std::size_t>(size, 1)))
        line += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    else
      line += text.substr(0, size);
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return line;
}

} // namespace eg
