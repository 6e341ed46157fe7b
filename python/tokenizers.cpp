// Tokenizers of texts.

#include "data/tokenizer.h"

#include "bindings.h"

#include <fmt/format.h>

namespace eg::python {
namespace {

using data::Encoding;
using data::Tokenizer;

std::vector<std::pair<std::size_t, std::size_t>> pairs_of(const std::vector<data::TextSpan>& spans) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (const data::TextSpan& span : spans) pairs.emplace_back(span.begin, span.end);
  return pairs;
}

void bind_encoding(nb::module_& m) {
  nb::class_<Encoding>(m, "Encoding", "The tokens of a text or of a pair of texts; all lists have one length.")
      .def_ro("ids", &Encoding::ids)
      .def_ro("tokens", &Encoding::tokens, "As the vocabulary spells them.")
      .def_prop_ro(
          "offsets", [](const Encoding& e) { return pairs_of(e.offsets); }, "(begin, end) in characters of the text.")
      .def_ro("type_ids", &Encoding::type_ids, "0 for the first text, 1 for the second.")
      .def_ro("attention_mask", &Encoding::attention_mask, "0 for padding.")
      .def_ro("special_tokens_mask", &Encoding::special_tokens_mask)
      .def_ro("truncated", &Encoding::truncated, "Tokens that truncation left out.")
      .def("__len__", &Encoding::size)
      .def("__repr__", [](const Encoding& e) { return fmt::format("<encoding of {} tokens>", e.size()); });
}

data::EncodeOptions options_from(const Tokenizer& tokenizer, bool add_special_tokens, bool recognise_special,
                                 std::optional<std::size_t> max_length, std::optional<std::size_t> pad_to) {
  data::EncodeOptions options = tokenizer.defaults();
  options.add_special_tokens = add_special_tokens;
  options.special_in_text = recognise_special ? data::SpecialInText::recognise : data::SpecialInText::ordinary;
  if (max_length) {
    if (!options.truncation) options.truncation.emplace();
    options.truncation->max_length = *max_length;
  }
  if (pad_to) {
    if (!options.padding) options.padding.emplace();
    options.padding->length = *pad_to;
  }
  return options;
}

/// Texts, or pairs of texts, whose characters live in `texts`.
std::vector<data::TextInput> inputs_from(const nb::list& list, std::vector<std::string>& texts) {
  texts.reserve(2 * nb::len(list)); // so that views of them stay
  std::vector<data::TextInput> inputs;
  for (const nb::handle item : list) {
    if (nb::isinstance<nb::str>(item)) {
      inputs.emplace_back(texts.emplace_back(nb::cast<std::string>(item)));
      continue;
    }
    const auto [first, second] = nb::cast<std::pair<std::string, std::string>>(item);
    const std::string& text = texts.emplace_back(first);
    inputs.emplace_back(std::string_view(text), std::string_view(texts.emplace_back(second)));
  }
  return inputs;
}

void bind_tokenizer(nb::module_& m) {
  nb::class_<Tokenizer>(m, "Tokenizer", "WordPiece or byte-level BPE, as Hugging Face's tokenizers does it.")
      .def_static("open", &Tokenizer::open, "path"_a,
                  "A folder or file: tokenizer.json, vocab.txt, or vocab.json with merges.txt.")
      .def(
          "encode",
          [](const Tokenizer& self, const std::string& text, const std::optional<std::string>& pair,
             bool add_special_tokens, bool recognise_special, std::optional<std::size_t> max_length,
             std::optional<std::size_t> pad_to) {
            const auto options = options_from(self, add_special_tokens, recognise_special, max_length, pad_to);
            const nb::gil_scoped_release unlocked;
            return pair ? self.encode(data::TextInput(std::string_view(text), std::string_view(*pair)), options)
                        : self.encode(data::TextInput(text), options);
          },
          "text"_a, "pair"_a = nb::none(), "add_special_tokens"_a = true, "recognise_special"_a = false,
          "max_length"_a = nb::none(), "pad_to"_a = nb::none(),
          "recognise_special: special tokens may be spelt in the text. max_length truncates, pad_to pads (0: as the "
          "tokenizer says).")
      .def(
          "encode_batch",
          [](const Tokenizer& self, const nb::list& list, bool add_special_tokens, bool recognise_special,
             std::optional<std::size_t> max_length, std::optional<std::size_t> pad_to) {
            const auto options = options_from(self, add_special_tokens, recognise_special, max_length, pad_to);
            std::vector<std::string> texts;
            const std::vector<data::TextInput> inputs = inputs_from(list, texts);
            const nb::gil_scoped_release unlocked;
            return self.encode_batch(inputs, options);
          },
          "texts"_a, "add_special_tokens"_a = true, "recognise_special"_a = false, "max_length"_a = nb::none(),
          "pad_to"_a = nb::none(), "Texts, or pairs of texts, on all threads; pad_to=0: as long as the longest.")
      .def(
          "decode",
          [](const Tokenizer& self, const std::vector<std::int64_t>& ids, bool skip_special_tokens) {
            return self.decode(ids, {.skip_special_tokens = skip_special_tokens, .clean_up_spaces = {}});
          },
          "ids"_a, "skip_special_tokens"_a = true, "The text of the tokens.")
      .def_prop_ro("kind", &Tokenizer::kind)
      .def("__len__", &Tokenizer::size)
      .def(
          "find", [](const Tokenizer& self, const std::string& token) { return self.find(token); }, "token"_a,
          "Its id, or None.")
      .def("token", &Tokenizer::token, "id"_a, "The token of an id.")
      .def(
          "role", [](const Tokenizer& self, const std::string& name) { return self.role(name); }, "name"_a,
          "The id for pad, cls, sep, mask, unk, bos or eos, or None.")
      .def("__repr__",
           [](const Tokenizer& self) { return fmt::format("<{} of {} tokens>", self.kind(), self.size()); });
}

} // namespace

void bind_tokenizers(nb::module_& parent) {
  nb::module_ m = nb::borrow<nb::module_>(parent.attr("data"));
  bind_encoding(m);
  bind_tokenizer(m);
}

} // namespace eg::python
