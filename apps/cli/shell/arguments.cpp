#include "apps/cli/shell/arguments.h"

#include "apps/cli/shell/verb.h"
#include "core/base/utf8.h"
#include "core/base/words.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <set>
#include <string_view>

namespace eg::cli {
namespace {

bool takes_value(const CLI::Option& option) { return option.get_items_expected_min() > 0; }

/// "-3" and "-.5", which are values, not options.
bool negative_number(std::string_view text) {
  return text.size() > 1 && text[0] == '-' && (text[1] == '.' || (text[1] >= '0' && text[1] <= '9'));
}

bool looks_like_option(std::string_view text) { return text.size() > 1 && text[0] == '-' && !negative_number(text); }

/// An option that says how a verb runs and answers, not what it does.
bool is_common(const std::string& name) {
  return name == "--json" || name == "--threads" || name == "--seed" || name == "--quiet" || name == "--profile";
}

std::vector<std::string> option_names(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// One pass over the arguments, from left to right.
class Scan {
public:
  Scan(const CLI::App& verb, std::span<const std::string> arguments) : verb_(verb), rest_(arguments) {}

  void run() {
    while (!rest_.empty()) {
      const std::string argument = take();
      if (argument == "--")
        options_ended_ = true;
      else if (!options_ended_ && looks_like_option(argument))
        see_option(argument);
      else
        see_word(argument);
    }
    for (const CLI::Option* option : verb_.get_options()) {
      if (!option->get_required()) continue;
      if (option->get_positional() && words_ == 0)
        throw UsageError(
            fmt::format("{}: {} is missing: {}", verb_.get_name(), option->get_name(true), option->get_description()));
      if (!option->get_positional() && !seen_.contains(option))
        throw UsageError(fmt::format("{}: {} is required", verb_.get_name(), option->get_name()));
    }
  }

private:
  std::string take() {
    const std::string next = rest_.front();
    rest_ = rest_.subspan(1);
    if (!is_utf8(next)) throw UsageError(fmt::format("'{}' is not UTF-8 text", next));
    return next;
  }

  void see_option(const std::string& argument) {
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const CLI::Option* option = verb_.get_option_no_throw(name);
    if (option == nullptr)
      throw UsageError(fmt::format("{}: there is no option '{}'{}", verb_.get_name(), name,
                                   did_you_mean(name, option_names(verb_))));
    const bool a_list = option->get_expected_max() > 1; // it takes a value each time
    if (!seen_.insert(option).second && !a_list) throw UsageError(fmt::format("{} is given twice", name));
    if (equals != std::string::npos) {
      if (equals + 1 == argument.size()) throw UsageError(fmt::format("{} needs a value after '='", name));
      if (!takes_value(*option)) see_flag_value(option, name, argument.substr(equals + 1));
      return;
    }
    if (!takes_value(*option)) return;
    if (rest_.empty()) throw UsageError(fmt::format("{} needs a value", name));
    const std::string value = take();
    if (value.empty()) throw UsageError(fmt::format("{} needs a value, not an empty text", name));
    if (looks_like_option(value))
      throw UsageError(
          fmt::format("{} needs a value before '{}' (if that is the value: {}={})", name, value, name, value));
    if (!option->get_allow_extra_args()) return;
    while (!options_ended_ && !rest_.empty() && !looks_like_option(rest_.front())) take();
  }

  /// A flag alone is true. The parser itself would take any number, and a negative one for false.
  void see_flag_value(const CLI::Option* option, const std::string& name, const std::string& value) const {
    if (option == verb_.get_help_ptr()) throw UsageError(fmt::format("{} takes no value", name));
    if (value != "true" && value != "false")
      throw UsageError(fmt::format("{}: '{}' is neither true nor false", name, value));
  }

  void see_word(const std::string& word) {
    std::size_t taken = 0;
    for (const CLI::Option* option : verb_.get_options())
      if (option->get_positional()) taken += static_cast<std::size_t>(option->get_expected_max());
    if (++words_ > taken) throw UsageError(fmt::format("{}: '{}' is a word too many", verb_.get_name(), word));
  }

  const CLI::App& verb_;
  std::span<const std::string> rest_;
  std::set<const CLI::Option*> seen_;
  std::size_t words_ = 0;
  bool options_ended_ = false;
};

} // namespace

bool asks_for_help(std::span<const std::string> arguments) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  return std::any_of(arguments.begin(), end, [](const std::string& a) { return a == "--help" || a == "-h"; });
}

void check_arguments(const CLI::App& verb, std::span<const std::string> arguments) { Scan(verb, arguments).run(); }

void require_alone(const CLI::App& verb, const std::string& flag) {
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || name == flag || is_common(name)) continue;
    if (option->get_positional())
      throw UsageError(fmt::format("'{}' has no effect beside {}", option->as<std::string>(), flag));
    throw UsageError(fmt::format("{} has no effect beside {}", name, flag));
  }
}

namespace {

/// Whether all of `text` is the number that `value` becomes.
template <class T> bool is_number(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

} // namespace

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return {[=](const std::string& text) {
            std::int64_t value = 0;
            if (is_number(text, value) && least <= value && value <= most) return std::string();
            return fmt::format("'{}' is not a whole number from {} to {}", text, least, most);
          },
          ""};
}

CLI::Validator number(double least, double most) {
  return {[=](const std::string& text) {
            double value = 0;
            if (is_number(text, value) && least <= value && value <= most) return std::string();
            return fmt::format("'{}' is not a number from {} to {}", text, least, most);
          },
          ""};
}

CLI::Validator positive_number(double most) {
  return {[=](const std::string& text) {
            double value = 0;
            if (is_number(text, value) && 0 < value && value <= most) return std::string();
            return fmt::format("'{}' is not a number above 0 and at most {}", text, most);
          },
          ""};
}

CLI::Validator one_of(std::vector<std::string> words) {
  std::string list = fmt::format("{}", fmt::join(words, ", "));
  return {[words = std::move(words), list](const std::string& text) {
            for (const std::string& word : words)
              if (word == text) return std::string();
            return fmt::format("'{}' is not one of {}{}", text, list, did_you_mean(text, words));
          },
          ""};
}

std::vector<std::int64_t> parsed_ids(const std::string& option, const std::string& text) {
  std::vector<std::int64_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto skip_blanks = [&] {
    while (at != end && *at == ' ') ++at;
  };
  while (true) {
    skip_blanks();
    std::int64_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0) break;
    ids.push_back(id);
    at = next;
    skip_blanks();
    if (at == end) return ids;
    if (*at == ',')
      ++at;
    else if (at == next) // neither a blank nor a comma
      break;
  }
  throw UsageError(fmt::format("{}: '{}' is not a list like 1,2,3 or '1 2 3'", option, text));
}

} // namespace eg::cli
