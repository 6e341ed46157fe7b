#include "data/text/tokenizer.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/input_file.h"
#include "data/decode.h"
#include "data/text/tokenizer/parts.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <mutex>

namespace eg::data {
namespace {

using tok::none;

std::size_t rounded_up(std::size_t length, std::size_t multiple) {
  return multiple > 1 ? (length + multiple - 1) / multiple * multiple : length;
}

/// Everything but padding to a length that is not known yet.
Encoding encode_unpadded(const Tokenizer::Parts& parts, const TextInput& input, const EncodeOptions& options) {
  Encoding first = tok::encode_text(parts, input.text, options);
  std::optional<Encoding> second;
  if (input.pair) {
    second = tok::encode_text(parts, *input.pair, options);
    std::fill(second->type_ids.begin(), second->type_ids.end(), 1);
    std::fill(second->sequence_ids.begin(), second->sequence_ids.end(), 1);
  }
  if (options.truncation) {
    const std::size_t added = options.add_special_tokens ? parts.post_processor.added(second.has_value()) : 0;
    if (options.truncation->max_length < added)
      throw ValueError(fmt::format("truncation: max_length is {}, but the special tokens alone are {}",
                                   options.truncation->max_length, added));
    tok::truncate(first, second ? &*second : nullptr, *options.truncation, options.truncation->max_length - added);
  }
  tok::trim_offsets(first, input.text, parts.post_processor.trim);
  if (second) tok::trim_offsets(*second, *input.pair, parts.post_processor.trim);
  return tok::assemble(parts.post_processor, std::move(first), std::move(second), options.add_special_tokens);
}

void pad_all(const Tokenizer::Parts& parts, std::span<Encoding> encodings, const Padding& padding) {
  std::size_t length = padding.length;
  if (length == 0)
    for (const Encoding& encoding : encodings) length = std::max(length, encoding.size());
  length = rounded_up(length, padding.multiple_of);
  std::optional<std::int64_t> id = padding.id;
  if (const auto role = parts.roles.find("pad"); !id && role != parts.roles.end()) id = role->second;
  if (!id) throw ValueError("padding: the tokenizer has no padding token; give the id of one");
  const std::string* token = parts.token(*id);
  if (token == nullptr) throw ValueError(fmt::format("padding: there is no token of id {}", *id));
  for (Encoding& encoding : encodings) tok::pad(encoding, length, padding, *id, *token);
}

const std::string& token_or_throw(const Tokenizer::Parts& parts, std::int64_t id, const char* what) {
  const std::string* token = parts.token(id);
  if (token == nullptr) throw IndexError(fmt::format("{}: there is no token of id {}", what, id));
  return *token;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// What BERT's words lose of English when they are joined by blanks.
void clean_up(std::string& text) {
  static constexpr std::array<std::array<std::string_view, 2>, 11> changes{{{" .", "."},
                                                                            {" ?", "?"},
                                                                            {" !", "!"},
                                                                            {" ,", ","},
                                                                            {" ' ", "'"},
                                                                            {" n't", "n't"},
                                                                            {" 'm", "'m"},
                                                                            {" do not", " don't"},
                                                                            {" 's", "'s"},
                                                                            {" 've", "'ve"},
                                                                            {" 're", "'re"}}};
  for (const auto& [from, to] : changes) replace_all(text, from, to);
}

} // namespace

const std::string* Tokenizer::Parts::token(std::int64_t id) const {
  if (id < 0 || id >= none) return nullptr;
  const auto place = static_cast<std::uint32_t>(id);
  if (const tok::AddedToken* found = added.find(place)) return &found->content;
  return vocabulary.has(place) ? &vocabulary.token(place) : nullptr;
}

std::uint32_t Tokenizer::Parts::find(std::string_view token) const {
  for (const tok::AddedToken& one : added.all())
    if (one.content == token) return one.id;
  return vocabulary.find(token);
}

Tokenizer Tokenizer::parse_json(std::string_view text, const std::string& source) {
  return Tokenizer(tok::read_tokenizer_json(text, source));
}

Tokenizer Tokenizer::open(const std::string& path) {
  const bool is_folder = folder_exists(path);
  const std::size_t slash = path.rfind('/');
  const std::string folder = is_folder ? path : slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string name = is_folder ? "" : path.substr(slash == std::string::npos ? 0 : slash + 1);
  const auto wants = [&](const char* file) { return is_folder ? file_exists(join_path(folder, file)) : name == file; };
  if (!is_folder && !file_exists(path))
    throw FileError(path + (path_exists(path) ? ": is not a regular file" : ": no such file or folder"));
  if (!is_folder && (name == "vocab.txt" || name == "vocab.json" || name == "merges.txt")) {
    return Tokenizer(name == "vocab.txt" ? tok::read_word_piece_folder(folder) : tok::read_byte_pair_folder(folder));
  }
  if (!is_folder || wants("tokenizer.json")) {
    const std::string file = is_folder ? join_path(folder, "tokenizer.json") : path;
    if (file.ends_with(".model"))
      throw FileError(file + ": SentencePiece models are not supported; a tokenizer.json of the same tokenizer may be");
    if (file.ends_with(".bin"))
      throw FileError(file +
                      ": tokenizers of llama2.c (.bin) are not supported; a tokenizer.json of the same one may be");
    const Bytes bytes = read_file(file);
    const auto parts = tok::read_tokenizer_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file);
    tok::read_roles(folder, *parts);
    return Tokenizer(parts);
  }
  if (wants("vocab.txt")) return Tokenizer(tok::read_word_piece_folder(folder));
  if (wants("vocab.json") || wants("merges.txt")) return Tokenizer(tok::read_byte_pair_folder(folder));
  for (const char* file : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"})
    if (wants(file))
      throw FileError(
          fmt::format("{}: has {} alone, but SentencePiece models are not supported; a tokenizer.json of the "
                      "same tokenizer may be",
                      path, file));
  throw FileError(path + ": has no tokenizer.json, vocab.txt, or vocab.json with merges.txt");
}

Encoding Tokenizer::encode(const TextInput& input) const { return encode(input, parts_->defaults); }

Encoding Tokenizer::encode(const TextInput& input, const EncodeOptions& options) const {
  Encoding encoding = encode_unpadded(*parts_, input, options);
  if (options.padding) pad_all(*parts_, {&encoding, 1}, *options.padding);
  return encoding;
}

std::vector<Encoding> Tokenizer::encode_batch(std::span<const TextInput> inputs, const EncodeOptions& options) const {
  std::vector<Encoding> encodings(inputs.size());
  EncodeOptions each = options;
  each.progress = nullptr;
  std::mutex mutex;
  std::size_t done = 0;
  decode_each(inputs.size(), 8, nullptr, [&](std::size_t i) {
    try {
      encodings[i] = encode_unpadded(*parts_, inputs[i], each);
    } catch (const ValueError& error) {
      throw ValueError(fmt::format("input {}: {}", i, error.what()));
    }
    if (!options.progress) return;
    const std::lock_guard lock(mutex);
    done += inputs[i].text.size() + inputs[i].pair.value_or("").size();
    options.progress(done);
  });
  if (options.padding && !inputs.empty()) pad_all(*parts_, encodings, *options.padding);
  return encodings;
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids, const DecodeOptions& options) const {
  DecodeStream stream(*this, options);
  std::string text;
  for (const std::int64_t id : ids) text += stream.push(id);
  return text + stream.finish();
}

const EncodeOptions& Tokenizer::defaults() const { return parts_->defaults; }
std::string Tokenizer::kind() const { return parts_->model->kind(); }

std::size_t Tokenizer::size() const {
  std::size_t count = parts_->vocabulary.size();
  for (const tok::AddedToken& token : parts_->added.all()) count += parts_->vocabulary.has(token.id) ? 0U : 1U;
  return count;
}

std::size_t Tokenizer::id_end() const {
  std::size_t end = parts_->vocabulary.end();
  for (const tok::AddedToken& token : parts_->added.all()) end = std::max<std::size_t>(end, token.id + std::size_t{1});
  return end;
}

std::optional<std::int64_t> Tokenizer::find(std::string_view token) const {
  const std::uint32_t id = parts_->find(token);
  return id == none ? std::nullopt : std::optional<std::int64_t>(id);
}

const std::string& Tokenizer::token(std::int64_t id) const { return token_or_throw(*parts_, id, "token"); }

bool Tokenizer::is_special(std::int64_t id) const {
  return id >= 0 && id < none && parts_->added.is_special(static_cast<std::uint32_t>(id));
}

std::optional<std::int64_t> Tokenizer::role(std::string_view name) const {
  const auto found = parts_->roles.find(name);
  return found == parts_->roles.end() ? std::nullopt : std::optional(found->second);
}

DecodeStream::DecodeStream(Tokenizer tokenizer, DecodeOptions options)
    : tokenizer_(std::move(tokenizer)), options_(options) {}

std::string DecodeStream::push(std::int64_t id) {
  const Tokenizer::Parts& parts = *tokenizer_.parts_;
  std::string text = token_or_throw(parts, id, "decode");
  if (options_.skip_special_tokens && tokenizer_.is_special(id)) return {};
  const bool first = !begun_;
  begun_ = true;
  if (parts.decoder.kind == tok::Decoder::Kind::byte_level) {
    std::string bytes;
    return bytes_.push(parts.model->bytes_of(text, bytes) ? bytes : text);
  }
  if (parts.decoder.kind == tok::Decoder::Kind::blanks) return first ? text : " " + text;
  if (!first) {
    if (text.starts_with(parts.decoder.prefix))
      text.erase(0, parts.decoder.prefix.size());
    else
      text.insert(text.begin(), ' ');
  }
  if (options_.clean_up_spaces.value_or(parts.decoder.clean_up)) clean_up(text);
  return text;
}

std::string DecodeStream::finish() {
  begun_ = false;
  return bytes_.finish();
}

} // namespace eg::data
