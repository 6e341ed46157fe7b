#include "data/text/table.h"

#include "core/base/error.h"
#include "core/base/words.h"
#include "core/random.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg::data {
namespace {

/// A TSV field that is wholly in quotes, with doubled quotes inside; any other is what it is.
std::string unquoted(std::string_view field) {
  if (field.size() < 2 || field.front() != '"' || field.back() != '"') return std::string(field);
  std::string inner;
  const std::string_view between = field.substr(1, field.size() - 2);
  for (std::size_t at = 0; at < between.size(); ++at) {
    if (between[at] == '"' && (at + 1 == between.size() || between[++at] != '"')) return std::string(field);
    inner += between[at];
  }
  return inner;
}

} // namespace

std::string_view TableReader::take_line() {
  const std::size_t end = std::min(rest_.find('\n'), rest_.size());
  std::string_view line = rest_.substr(0, end);
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  ++line_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

void TableReader::read_tsv(TableRow& row, std::string_view line) const {
  for (;;) {
    const std::size_t tab = line.find('\t');
    row.fields.push_back(unquoted(line.substr(0, tab)));
    if (tab == std::string_view::npos) return;
    line.remove_prefix(tab + 1);
  }
}

/// The field whose opening quote is at the front of the rest.
std::string TableReader::quoted_field(std::size_t line) {
  std::string field;
  for (std::size_t at = 1; at < rest_.size(); ++at) {
    if (rest_[at] == '\n') ++line_;
    if (rest_[at] == '"') {
      if (at + 1 >= rest_.size() || rest_[at + 1] != '"') {
        rest_.remove_prefix(at + 1);
        return field;
      }
      ++at;
    }
    field += rest_[at];
  }
  throw FileError(fmt::format("{}: line {}: a quote is not closed", source_, line));
}

void TableReader::read_csv(TableRow& row) {
  for (;;) {
    if (rest_.starts_with('"')) {
      row.fields.push_back(quoted_field(row.line));
    } else {
      const std::size_t end = std::min(rest_.find_first_of(",\r\n"), rest_.size());
      row.fields.emplace_back(rest_.substr(0, end));
      rest_.remove_prefix(end);
    }
    if (rest_.starts_with(',')) {
      rest_.remove_prefix(1);
      continue;
    }
    const bool quoted = !rest_.starts_with('\r');
    if (!take_line().empty())
      throw FileError(fmt::format("{}: line {}: {}", source_, line_,
                                  quoted ? "text follows a quoted field"
                                         : "a carriage return inside the line; lines end with LF or CR LF"));
    return;
  }
}

std::string separator_hint(const TableRow& row, bool csv) {
  if (row.fields.size() != 1) return {};
  const std::string& line = row.fields.front();
  const auto seen = [&](char mark) { return line.find(mark) != std::string::npos; };
  const char* found = seen(';') ? "';'" : csv && seen('\t') ? "tabs" : !csv && seen(',') ? "','" : nullptr;
  if (found == nullptr) return {};
  return fmt::format("; its fields seem to be separated by {}, and in a {} does that", found,
                     csv ? ".csv a comma" : ".tsv a tab");
}

std::string shown(std::string_view field) {
  constexpr std::size_t most = 40;
  if (field.size() <= most) return printable(field);
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(field[end]) & 0xC0U) == 0x80U) --end; // inside a character
  return printable(field.substr(0, end)) + "...";
}

std::string shown_list(const std::vector<std::string>& fields) {
  std::string list;
  for (const std::string& field : fields) list += (list.empty() ? "" : ", ") + shown(field);
  return list;
}

bool row_is_held_out(std::uint64_t number, double share) {
  constexpr RandomKey key{.seed = 0x6865'6c64'206f'7574, .stream = 0};
  return uniform_at(key, number) < share;
}

std::vector<bool> drawn_rows(std::size_t count, std::int64_t limit) {
  if (limit == 0 || static_cast<std::uint64_t>(limit) >= count) return std::vector<bool>(count, true);
  constexpr RandomKey key{.seed = 0x6c69'6d69'7465'6421, .stream = 0};
  std::vector<std::pair<double, std::size_t>> drawn;
  for (std::size_t i = 0; i < count; ++i) drawn.emplace_back(uniform_at(key, i), i);
  const auto end = drawn.begin() + static_cast<std::ptrdiff_t>(limit);
  std::nth_element(drawn.begin(), end, drawn.end());
  std::vector<bool> kept(count, false);
  for (auto at = drawn.begin(); at != end; ++at) kept[at->second] = true;
  return kept;
}

bool TableReader::next(TableRow& row) {
  row.fields.clear();
  while (!rest_.empty()) {
    row.line = line_ + 1;
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    if (rest_.substr(0, end).find_first_not_of(" \t\r") == std::string_view::npos) {
      take_line();
      continue;
    }
    if (kind_ == Kind::csv)
      read_csv(row);
    else
      read_tsv(row, take_line());
    return true;
  }
  return false;
}

} // namespace eg::data
