#pragma once
// Reads rows of text separated by tabs or commas.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace eg::data {

/// Whether row `number` (from 0) of a file is kept to test on, for about `share` of them: drawn by the number alone, so
/// that rows added later move none. Rules like "every tenth" hit one class where labels take turns.
bool row_is_held_out(std::uint64_t number, double share);

/// Which of `count` rows a limit leaves (0: all): drawn by their numbers alone, so that of rows that are sorted by
/// class all classes stay.
std::vector<bool> drawn_rows(std::size_t count, std::int64_t limit);

/// A field as messages show it: one line, what cannot be printed as \xNN, cut when it is long.
std::string shown(std::string_view field);

/// The same for several, with commas between them.
std::string shown_list(const std::vector<std::string>& fields);

struct TableRow {
  std::vector<std::string> fields;
  std::size_t line = 0; ///< where it begins, from 1
};

/// The hint for a row of one field where several were expected: "; its fields seem to be separated by ';', and in a
/// .csv a comma does that", or "".
std::string separator_hint(const TableRow& row, bool csv);

/// Reads rows one after another. Blank lines are left out.
class TableReader {
public:
  enum class Kind : std::uint8_t { tsv, csv };
  /// `text` must live as long; `source` is what errors begin with.
  TableReader(std::string_view text, Kind kind, std::string source)
      : rest_(text), kind_(kind), source_(std::move(source)) {}
  /// False at the end. Throws FileError that names the line for a quote that is not closed, or is followed by more.
  bool next(TableRow& row);

private:
  std::string_view take_line();
  std::string quoted_field(std::size_t line);
  void read_csv(TableRow& row);
  void read_tsv(TableRow& row, std::string_view line) const;

  std::string_view rest_;
  Kind kind_;
  std::string source_;
  std::size_t line_ = 0;
};

} // namespace eg::data
