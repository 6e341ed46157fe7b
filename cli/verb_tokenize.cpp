#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/verb.h"

#include "core/utf8.h"
#include "core/words.h"
#include "data/bytes.h"
#include "data/json.h"
#include "data/tokenizer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>

namespace eg::cli {
namespace {

using nlohmann::json;

struct Request {
  std::string tokenizer, text, file, pair, ids;
  bool lines = false;
  bool no_special_tokens = false, recognise_special = false;
  std::size_t max_length = 0, pad_to = 0;
  std::string pad_token; ///< empty: the tokenizer's own
  std::string truncation = "longest_first", truncation_side = "right", padding_side = "right";
};

data::Side side_of(const std::string& name) { return name == "left" ? data::Side::left : data::Side::right; }

data::EncodeOptions encode_options(const Request& request, const data::Tokenizer& tokenizer) {
  data::EncodeOptions options = tokenizer.defaults();
  options.add_special_tokens = !request.no_special_tokens;
  if (request.recognise_special) options.special_in_text = data::SpecialInText::recognise;
  if (request.max_length > 0) {
    using Strategy = data::TruncationStrategy;
    const Strategy strategy = request.truncation == "only_first"    ? Strategy::only_first
                              : request.truncation == "only_second" ? Strategy::only_second
                                                                    : Strategy::longest_first;
    options.truncation = {request.max_length, strategy, side_of(request.truncation_side)};
  }
  if (request.pad_to > 0) {
    options.padding.emplace();
    options.padding->length = request.pad_to;
    options.padding->side = side_of(request.padding_side);
    if (!request.pad_token.empty()) {
      options.padding->id = tokenizer.find(request.pad_token);
      if (!options.padding->id) throw UsageError(fmt::format("--pad-token: there is no token '{}'", request.pad_token));
    } else if (!tokenizer.role("pad")) {
      throw UsageError("--pad-to: the tokenizer's files name no padding token; --pad-token does");
    }
  }
  return options;
}

json spans_json(const std::vector<data::TextSpan>& spans) {
  json list = json::array();
  for (const data::TextSpan& span : spans) list.push_back({span.begin, span.end});
  return list;
}

json encoding_json(const data::Encoding& encoding) {
  return {{"ids", encoding.ids},
          {"tokens", encoding.tokens},
          {"offsets", spans_json(encoding.offsets)},
          {"byte_offsets", spans_json(encoding.byte_offsets)},
          {"type_ids", encoding.type_ids},
          {"attention_mask", encoding.attention_mask},
          {"special_tokens_mask", encoding.special_tokens_mask},
          {"truncated", encoding.truncated}};
}

/// A line a token: id, place in the text, spelling.
void print_tokens(const data::Encoding& encoding) {
  std::string out = fmt::format("{:>8}  {:<13}  {}\n", "id", "characters", "token");
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    const data::TextSpan& at = encoding.offsets[i];
    const std::string place = encoding.special_tokens_mask[i] == 0 ? fmt::format("{}-{}", at.begin, at.end) : "";
    out += fmt::format("{:>8}  {:<13}  {}\n", encoding.ids[i], place, printable(encoding.tokens[i]));
    if (out.size() < (1U << 16U)) continue;
    throw_if_stopped();
    say(out);
    out.clear();
  }
  if (encoding.truncated > 0) out += fmt::format("{} tokens cut off\n", encoding.truncated);
  say(out);
}

/// "101,7592,102", or with blanks.
std::vector<std::int64_t> ids_of(const std::string& list) {
  std::vector<std::int64_t> ids;
  for (std::size_t at = 0; at < list.size();) {
    if (list[at] == ',' || list[at] == ' ') {
      ++at;
      continue;
    }
    std::int64_t id = 0;
    const auto [end, error] = std::from_chars(list.data() + at, list.data() + list.size(), id);
    if (error != std::errc()) throw UsageError(fmt::format("--decode: '{}' is not a list of ids", list));
    ids.push_back(id);
    at = static_cast<std::size_t>(end - list.data());
  }
  return ids;
}

std::string read_text(const std::string& path) {
  const data::Bytes bytes = data::read_file(path);
  std::string text(bytes.begin(), bytes.end());
  if (const std::size_t at = find_invalid_utf8(text); at != std::string::npos)
    throw FileError(fmt::format("{}: is not UTF-8 at byte {} (0x{:02x})", path, at,
                                static_cast<unsigned>(static_cast<unsigned char>(text[at]))));
  return text;
}

/// What one line of a --lines file asks for: "text", ["text", "pair"], or {"ids": [1, 2]} to be decoded.
json answer_line(const json& line, const data::Tokenizer& tokenizer, const Request& request,
                 const data::EncodeOptions& options, const std::string& where) {
  if (line.is_string()) return encoding_json(tokenizer.encode(line.get_ref<const std::string&>(), options));
  if (line.is_array() && line.size() == 2 && line[0].is_string() && line[1].is_string())
    return encoding_json(
        tokenizer.encode({line[0].get_ref<const std::string&>(), line[1].get_ref<const std::string&>()}, options));
  const bool decodes =
      line.is_object() && line.size() == 1 && line.contains("ids") && line["ids"].is_array() &&
      std::all_of(line["ids"].begin(), line["ids"].end(), [](const json& id) { return id.is_number_integer(); });
  if (!decodes) throw FileError(where + R"(: is neither "text" nor ["text", "pair"] nor {"ids": [1, 2]})");
  const auto ids = line["ids"].get<std::vector<std::int64_t>>();
  return {{"text", tokenizer.decode(ids, {.skip_special_tokens = request.no_special_tokens, .clean_up_spaces = {}})}};
}

int run_lines(const data::Tokenizer& tokenizer, const Request& request, const CommonOptions& common) {
  const std::string text = read_text(request.file);
  const data::EncodeOptions options = encode_options(request, tokenizer);
  Progress progress(!common.quiet);
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    throw_if_stopped();
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string where = fmt::format("{}: line {}", request.file, ++number);
    const json line = data::parse_json(std::string_view(text).substr(begin, end - begin), where);
    const std::string answer = answer_line(line, tokenizer, request, options, where).dump() + "\n";
    if (std::fwrite(answer.data(), 1, answer.size(), stdout) != answer.size())
      throw FileError("standard output: cannot be written");
    begin = end + 1;
    progress.show(static_cast<double>(begin), static_cast<double>(text.size()), {{fmt::format("line {}", number), 1}});
  }
  return done;
}

int run_decode(const data::Tokenizer& tokenizer, const Request& request, const CommonOptions& common) {
  const std::vector<std::int64_t> ids = ids_of(request.ids);
  const std::string text =
      tokenizer.decode(ids, {.skip_special_tokens = request.no_special_tokens, .clean_up_spaces = {}});
  if (common.talks()) say(text + "\n");
  write_json(common, {{"text", text}});
  return done;
}

int run_encode(const data::Tokenizer& tokenizer, const Request& request, const CommonOptions& common, bool has_pair) {
  const std::string text = request.file.empty() ? request.text : read_text(request.file);
  data::EncodeOptions options = encode_options(request, tokenizer);
  Progress progress(!common.quiet);
  options.progress = [&](std::size_t bytes) {
    throw_if_stopped();
    progress.show(static_cast<double>(bytes), static_cast<double>(text.size()),
                  {{fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6), 1}});
  };
  const data::Encoding encoding =
      tokenizer.encode(has_pair ? data::TextInput(text, request.pair) : data::TextInput(text), options);
  progress.clear();
  if (common.talks()) print_tokens(encoding);
  if (!common.json.empty()) write_json(common, encoding_json(encoding));
  return done;
}

/// Throws UsageError for what is missing, and for options that would change nothing.
void check(const CLI::App& app, const CommonOptions& common) {
  const auto given = [&](const char* name) { return app.count(name) > 0; };
  if (int{given("TEXT")} + int{given("--file")} + int{given("--decode")} != 1)
    throw UsageError("give one of TEXT, --file and --decode");
  const auto needs = [&](const char* option, bool there, const char* why) {
    if (given(option) && !there) throw UsageError(fmt::format("{} has no effect: {}", option, why));
  };
  const bool encodes = !given("--decode");
  needs("--lines", given("--file"), "there is no --file");
  for (const char* option : {"--recognise-special", "--max-length", "--pad-to"})
    needs(option, encodes, "ids are decoded");
  needs("--pair", encodes && !given("--lines"), encodes ? "each line brings its own" : "ids are decoded");
  needs("--truncation", given("--max-length"), "there is no --max-length");
  needs("--truncation-side", given("--max-length"), "there is no --max-length");
  needs("--pad-token", given("--pad-to"), "there is no --pad-to");
  needs("--padding-side", given("--pad-to"), "there is no --pad-to");
  if (given("--lines") && !common.json.empty())
    throw UsageError("--json has no effect: with --lines, a line of JSON for each goes to stdout");
}

} // namespace

Job declare_tokenize(CLI::App& app, const CommonOptions& common) {
  auto request = std::make_shared<Request>();
  Request& r = *request;
  app.add_option("TEXT", r.text, "The text to tokenize");
  app.add_option("--tokenizer", r.tokenizer,
                 "Folder with tokenizer.json, vocab.txt, or vocab.json and merges.txt; or one of these files")
      ->required()
      ->type_name("PATH");
  app.add_option("--file", r.file, "Tokenize the text in this file")->type_name("FILE");
  app.add_option("--pair", r.pair, "A second text, tokenized with the first")->type_name("TEXT");
  app.add_option("--decode", r.ids, "The other way: the text of these ids, 1,2,3")->type_name("IDS");
  app.add_flag("--lines", r.lines,
               "Each line of --file is JSON: \"text\", [\"text\", \"pair\"], or {\"ids\": [1, 2]} to decode; prints a "
               "line of JSON for each");
  app.add_flag("--no-special-tokens", r.no_special_tokens, "Add none ([CLS], [SEP], ...); decoding: leave them out");
  app.add_flag("--recognise-special", r.recognise_special,
               "Special tokens that are spelt in the text count as such; else they are text like any other");
  app.add_option("--max-length", r.max_length, "Cut off what is more than this number of tokens")
      ->check(whole_number(1, 1 << 30))
      ->type_name("N");
  app.add_option("--truncation", r.truncation, "What is cut: longest_first, only_first, only_second")
      ->check(one_of({"longest_first", "only_first", "only_second"}))
      ->type_name("WHICH")
      ->capture_default_str();
  app.add_option("--truncation-side", r.truncation_side, "Where it is cut: left, right")
      ->check(one_of({"left", "right"}))
      ->type_name("SIDE")
      ->capture_default_str();
  app.add_option("--pad-to", r.pad_to, "Fill up to this number of tokens")
      ->check(whole_number(1, 1 << 24))
      ->type_name("N");
  app.add_option("--pad-token", r.pad_token, "With this token; without it, the one that the files name")
      ->type_name("TOKEN");
  app.add_option("--padding-side", r.padding_side, "Where it is filled: left, right")
      ->check(one_of({"left", "right"}))
      ->type_name("SIDE")
      ->capture_default_str();
  return [request, &common, &app]() -> int {
    check(app, common);
    const data::Tokenizer tokenizer = data::Tokenizer::open(request->tokenizer);
    if (app.count("--decode") > 0) return run_decode(tokenizer, *request, common);
    if (request->lines) return run_lines(tokenizer, *request, common);
    return run_encode(tokenizer, *request, common, app.count("--pair") > 0);
  };
}

} // namespace eg::cli
