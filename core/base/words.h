#pragma once
// Corrects mistyped words, and escapes control characters before text is printed.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eg {

/// Least number of letters to insert, remove, replace or swap with their neighbour to make `b` out of `a` (optimal
/// string alignment distance).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The known words nearest to `word`, nearest first, at most `most`: those with at most a third of the letters wrong,
/// and those that begin with the word.
std::vector<std::string> near_words(std::string_view word, std::span<const std::string> known, std::size_t most);

/// "; did you mean --dim?", or "" when nothing is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

/// "1 run", "2 runs": a count with a noun whose plural ends in s.
std::string count_of(std::uint64_t count, std::string_view noun);

/// True when `text` fits `pattern`, where * matches any characters and ? one.
bool glob_match(std::string_view pattern, std::string_view text);

/// The words of a list "a, b,c": cut at commas, without blanks around them, empty ones left out.
std::vector<std::string> words_of_list(std::string_view list);

/// One line that is safe to print: line ends become spaces; other control characters (those of C1 too), marks that
/// change the direction of writing, characters without width and bytes that are not UTF-8 become \xNN.
std::string printable(std::string_view text);

} // namespace eg
