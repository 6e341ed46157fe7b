#pragma once
// Checks the command line as a whole: unknown options, options given twice or without a value, and the values that
// options take.

#include <CLI/CLI.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace eg::cli {

/// Whether --help or -h stands among what follows the verb.
bool asks_for_help(std::span<const std::string> arguments);

/// Looks at what follows the verb before it is parsed. Throws UsageError for an unknown option (with the nearest one
/// there is), an option that is given twice or without a value, a flag with a value other than true and false, a word
/// too many or too few, and bytes that are not UTF-8.
void check_arguments(const CLI::App& verb, std::span<const std::string> arguments);

/// Throws UsageError when a word, or an option that not every verb has, was given beside `flag` (--list), which would
/// ignore it.
void require_alone(const CLI::App& verb, const std::string& flag);

/// A whole number from `least` to `most`.
CLI::Validator whole_number(std::int64_t least, std::int64_t most);
/// A finite number from `least` to `most`.
CLI::Validator number(double least, double most);
/// A finite number above 0, at most `most`.
CLI::Validator positive_number(double most);
/// One of some words.
CLI::Validator one_of(std::vector<std::string> words);

/// Token ids with commas or blanks between them. Throws UsageError that names the option.
std::vector<std::int64_t> parsed_ids(const std::string& option, const std::string& text);

} // namespace eg::cli
