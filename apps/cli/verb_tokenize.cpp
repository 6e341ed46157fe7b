#include "apps/cli/model_files.h"
#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/shell/verb.h"

#include "core/base/bytes.h"
#include "core/base/json.h"
#include "core/base/utf8.h"
#include "core/base/words.h"
#include "core/base/write_all.h"
#include "data/text/tokenizer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>

namespace eg::cli {
namespace {

using nlohmann::json;

struct TokenizeRequest {
  std::string tokenizer, text, file, pair, ids;
  bool lines = false;
  bool no_special_tokens = false, recognise_special = false;
  // What is not given is as the tokenizer's files say.
  std::optional<std::size_t> max_length, pad_to;
  std::optional<std::string> pad_token, truncation, truncation_side, padding_side;
};

data::Side side_of(const std::string& name) { return name == "left" ? data::Side::left : data::Side::right; }

void change(std::optional<data::Truncation>& truncation, const TokenizeRequest& request) {
  if (request.max_length) {
    if (!truncation) truncation.emplace();
    truncation->max_length = *request.max_length;
  }
  for (const auto& [option, given] :
       {std::pair{"--truncation", &request.truncation}, {"--truncation-side", &request.truncation_side}})
    if (*given && !truncation)
      throw UsageError(
          fmt::format("{} has no effect: there is no --max-length, and the tokenizer cuts nothing", option));
  using Strategy = data::TruncationStrategy;
  if (request.truncation)
    truncation->strategy = *request.truncation == "only_first"    ? Strategy::only_first
                           : *request.truncation == "only_second" ? Strategy::only_second
                                                                  : Strategy::longest_first;
  if (request.truncation_side) truncation->side = side_of(*request.truncation_side);
}

void change(std::optional<data::Padding>& padding, const TokenizeRequest& request, const data::Tokenizer& tokenizer) {
  if (request.pad_to) {
    if (!padding) padding.emplace();
    padding->length = *request.pad_to;
    padding->multiple_of = 0;
  }
  for (const auto& [option, given] :
       {std::pair{"--pad-token", &request.pad_token}, {"--padding-side", &request.padding_side}})
    if (*given && !padding)
      throw UsageError(fmt::format("{} has no effect: there is no --pad-to, and the tokenizer fills nothing", option));
  if (request.padding_side) padding->side = side_of(*request.padding_side);
  if (request.pad_token) {
    padding->id = tokenizer.find(*request.pad_token);
    if (!padding->id) throw UsageError(fmt::format("--pad-token: there is no token '{}'", *request.pad_token));
  }
  if (request.pad_to && !padding->id && !tokenizer.role("pad"))
    throw UsageError("--pad-to: the tokenizer's files name no padding token; --pad-token does");
}

data::EncodeOptions encode_options(const TokenizeRequest& request, const data::Tokenizer& tokenizer) {
  data::EncodeOptions options = tokenizer.defaults();
  options.add_special_tokens = !request.no_special_tokens;
  if (request.recognise_special) options.special_in_text = data::SpecialInText::recognise;
  change(options.truncation, request);
  change(options.padding, request, tokenizer);
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
  LongOutput out;
  out.add(fmt::format("{:>8}  {:<13}  {}\n", "id", "characters", "token"));
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    const data::TextSpan& at = encoding.offsets[i];
    const std::string place = encoding.special_tokens_mask[i] == 0 ? fmt::format("{}-{}", at.begin, at.end) : "";
    out.add(fmt::format("{:>8}  {:<13}  {}\n", encoding.ids[i], place, printable(encoding.tokens[i])));
  }
  if (encoding.truncated > 0) out.add(fmt::format("{} tokens cut off\n", encoding.truncated));
  out.finish();
}

/// All that comes from standard input.
std::string read_stdin() {
  std::string text;
  std::array<char, 1U << 16U> part;
  const StopScope stopping;
  while (true) {
    wait_until_ready(STDIN_FILENO, POLLIN);
    const ssize_t got = ::read(STDIN_FILENO, part.data(), part.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) fail_errno("standard input", "cannot read");
    if (got == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
    if (text.size() > default_byte_limit)
      throw FileError(fmt::format("standard input: more than the {} bytes that are read", default_byte_limit));
  }
}

std::string read_file_text(const std::string& path) {
  const Bytes bytes = read_file(path);
  return {bytes.begin(), bytes.end()};
}

/// What errors call --file.
std::string name_of_file(const std::string& path) { return path == "-" ? "standard input" : path; }

std::string read_text(const std::string& path) {
  std::string text = path == "-" ? read_stdin() : read_file_text(path);
  if (const std::size_t at = find_invalid_utf8(text); at != std::string::npos)
    throw FileError(fmt::format("{}: is not UTF-8 at byte {} (0x{:02x})", name_of_file(path), at,
                                static_cast<unsigned>(static_cast<unsigned char>(text[at]))));
  return text;
}

/// The text, or text and pair, that a line asks to encode; none when it asks for something else.
std::optional<data::TextInput> text_of(const json& line) {
  const auto input = [](const json& text, const json* pair) -> std::optional<data::TextInput> {
    if (!text.is_string() || (pair != nullptr && !pair->is_string())) return {};
    if (pair == nullptr) return text.get_ref<const std::string&>();
    return data::TextInput(text.get_ref<const std::string&>(), pair->get_ref<const std::string&>());
  };
  if (line.is_string()) return input(line, nullptr);
  if (line.is_array() && line.size() == 2) return input(line[0], &line[1]);
  if (!line.is_object() || !line.contains("text") || line.contains("ids")) return {};
  return input(line["text"], line.contains("pair") ? &line["pair"] : nullptr);
}

/// What one line of a --lines file asks for: a text or {"ids": [1, 2]} to be decoded.
json answer_line(const json& line, const data::Tokenizer& tokenizer, const TokenizeRequest& request,
                 const data::EncodeOptions& options, const std::string& where) {
  if (const auto input = text_of(line)) return encoding_json(tokenizer.encode(*input, options));
  const bool decodes =
      line.is_object() && line.size() == 1 && line.contains("ids") && line["ids"].is_array() &&
      std::all_of(line["ids"].begin(), line["ids"].end(), [](const json& id) { return id.is_number_integer(); });
  if (!decodes)
    throw FileError(where + R"(: is neither "text" nor ["text", "pair"] nor {"text": "text"} nor {"ids": [1, 2]})");
  const auto ids = line["ids"].get<std::vector<std::int64_t>>();
  return {{"text", tokenizer.decode(ids, {.skip_special_tokens = request.no_special_tokens, .clean_up_spaces = {}})}};
}

/// One line's JSON. Its reader counts lines of its own, of which there is one.
json parse_line(std::string_view line, const std::string& where) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos)
    throw FileError(where + R"(: is empty; an empty text is "")");
  try {
    return parse_json(line, where);
  } catch (const FileError& error) {
    std::string message = error.what();
    if (const std::size_t at = message.find(" at line 1, column ", where.size()); at != std::string::npos)
      message.replace(at, std::string_view(" at line 1, column ").size(), " at column ");
    throw FileError(message);
  }
}

int run_lines(const data::Tokenizer& tokenizer, const TokenizeRequest& request, const CommonOptions& common) {
  const std::string text = read_text(request.file);
  const data::EncodeOptions options = encode_options(request, tokenizer);
  Progress progress(!common.quiet);
  std::size_t number = 0;
  LongOutput out;
  for (std::size_t begin = 0; begin < text.size();) {
    throw_if_stopped();
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string where = fmt::format("{}: line {}", name_of_file(request.file), ++number);
    const json line = parse_line(std::string_view(text).substr(begin, end - begin), where);
    out.add(answer_line(line, tokenizer, request, options, where).dump() + "\n");
    begin = end + 1;
    progress.show(static_cast<double>(begin), static_cast<double>(text.size()), {{fmt::format("line {}", number), 1}});
  }
  out.finish();
  return done;
}

int run_decode(const data::Tokenizer& tokenizer, const TokenizeRequest& request, const CommonOptions& common) {
  const std::vector<std::int64_t> ids = parsed_ids("--decode", request.ids);
  const std::string text =
      tokenizer.decode(ids, {.skip_special_tokens = request.no_special_tokens, .clean_up_spaces = {}});
  if (common.talks()) say_text(text + "\n");
  write_json(common, {{"text", text}});
  return done;
}

int run_encode(const data::Tokenizer& tokenizer, const TokenizeRequest& request, const CommonOptions& common,
               bool has_pair) {
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
  for (const char* option : {"--recognise-special", "--max-length", "--truncation", "--truncation-side", "--pad-to",
                             "--pad-token", "--padding-side"})
    needs(option, encodes, "ids are decoded");
  needs("--pair", encodes && !given("--lines"), encodes ? "each line brings its own" : "ids are decoded");
  if (given("--lines") && !common.json.empty())
    throw UsageError("--json has no effect: with --lines, a line of JSON for each goes to stdout");
}

} // namespace

Job declare_tokenize(CLI::App& app, const CommonOptions& common) {
  auto request = std::make_shared<TokenizeRequest>();
  TokenizeRequest& r = *request;
  app.add_option("TEXT", r.text, "The text to tokenize");
  common.files
      ->input(
          app.add_option("--tokenizer", r.tokenizer,
                         "Folder with tokenizer.json, vocab.txt, or vocab.json and merges.txt; or one of these files"))
      ->required()
      ->type_name("PATH");
  common.files->input(app.add_option("--file", r.file, "Tokenize the text in this file; - is standard input"))
      ->type_name("FILE");
  app.add_option("--pair", r.pair, "A second text, tokenized with the first")->type_name("TEXT");
  app.add_option("--decode", r.ids, "The other way: the text of these ids, 1,2,3 or '1 2 3'")->type_name("IDS");
  app.add_flag("--lines", r.lines,
               "Each line of --file is JSON: \"text\", [\"text\", \"pair\"], {\"text\": \"text\"} (with \"pair\", and "
               "fields that are not looked at), or {\"ids\": [1, 2]} to decode; prints a line of JSON for each");
  app.add_flag("--no-special-tokens", r.no_special_tokens, "Add none ([CLS], [SEP], ...); decoding: leave them out");
  app.add_flag("--recognise-special", r.recognise_special,
               "Special tokens that are spelt in the text count as such; else they are text like any other");
  app.add_option("--max-length", r.max_length, "Cut off what is more than this number of tokens")
      ->check(whole_number(1, 1 << 30))
      ->type_name("N");
  app.add_option("--truncation", r.truncation,
                 "What is cut: longest_first, only_first, only_second (default: what the tokenizer's files say, else "
                 "longest_first)")
      ->check(one_of({"longest_first", "only_first", "only_second"}))
      ->type_name("WHICH");
  app.add_option("--truncation-side", r.truncation_side,
                 "Where it is cut: left, right (default: what the tokenizer's files say, else right)")
      ->check(one_of({"left", "right"}))
      ->type_name("SIDE");
  app.add_option("--pad-to", r.pad_to, "Fill up to this number of tokens")
      ->check(whole_number(1, 1 << 24))
      ->type_name("N");
  app.add_option("--pad-token", r.pad_token, "With this token; without it, the one that the files name")
      ->type_name("TOKEN");
  app.add_option("--padding-side", r.padding_side,
                 "Where it is filled: left, right (default: what the tokenizer's files say, else right)")
      ->check(one_of({"left", "right"}))
      ->type_name("SIDE");
  return [request, &common, &app]() -> int {
    check(app, common);
    add_model(*common.files, request->tokenizer);
    common.files->check();
    require_own_ids(request->tokenizer);
    const data::Tokenizer tokenizer = data::Tokenizer::open(request->tokenizer);
    if (app.count("--decode") > 0) return run_decode(tokenizer, *request, common);
    if (request->lines) return run_lines(tokenizer, *request, common);
    return run_encode(tokenizer, *request, common, app.count("--pair") > 0);
  };
}

} // namespace eg::cli
