// Tokenizers of texts.

#include "data/text/tokenizer.h"

#include "path.h"

#include <deque>
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
      .def_prop_ro(
          "byte_offsets", [](const Encoding& e) { return pairs_of(e.byte_offsets); }, "The same in bytes of UTF-8.")
      .def_ro("sequence_ids", &Encoding::sequence_ids, "0 and 1 for the two texts, -1 for what stands in neither.")
      .def_ro("type_ids", &Encoding::type_ids, "0 for the first text, 1 for the second.")
      .def_ro("attention_mask", &Encoding::attention_mask, "0 for padding.")
      .def_ro("special_tokens_mask", &Encoding::special_tokens_mask)
      .def_ro("truncated", &Encoding::truncated, "Tokens that truncation left out.")
      .def("__len__", &Encoding::size)
      .def("__repr__", [](const Encoding& e) { return fmt::format("<encoding of {} tokens>", e.size()); });
}

data::Side side_named(const std::string& name) {
  if (name == "left") return data::Side::left;
  if (name == "right") return data::Side::right;
  throw ValueError(fmt::format("encode: side '{}' is neither 'left' nor 'right'", name));
}

data::TruncationStrategy strategy_named(const std::string& name) {
  using Strategy = data::TruncationStrategy;
  for (const auto& [word, strategy] : {std::pair{"longest_first", Strategy::longest_first},
                                       {"only_first", Strategy::only_first},
                                       {"only_second", Strategy::only_second}})
    if (name == word) return strategy;
  throw ValueError(fmt::format("encode: truncation '{}' is none of longest_first, only_first and only_second", name));
}

/// Options of encode() and encode_batch(); none: those of the tokenizer's file.
struct Asked {
  std::optional<std::size_t> max_length;
  std::optional<std::string> truncation, truncation_side;
  std::optional<std::size_t> pad_to;
  std::optional<std::int64_t> pad_id;
  std::optional<std::string> pad_side;
};

void set_truncation(std::optional<data::Truncation>& truncation, const Asked& asked) {
  if (asked.max_length) {
    if (!truncation) truncation.emplace();
    truncation->max_length = *asked.max_length;
  }
  if (!asked.truncation && !asked.truncation_side) return;
  if (!truncation) throw ValueError("encode: truncation needs max_length");
  if (asked.truncation) truncation->strategy = strategy_named(*asked.truncation);
  if (asked.truncation_side) truncation->side = side_named(*asked.truncation_side);
}

void set_padding(std::optional<data::Padding>& padding, const Asked& asked) {
  if (asked.pad_to) {
    if (!padding) padding.emplace();
    padding->length = *asked.pad_to;
  }
  if (!asked.pad_id && !asked.pad_side) return;
  if (!padding) throw ValueError("encode: pad_id and pad_side need pad_to");
  if (asked.pad_id) padding->id = asked.pad_id;
  if (asked.pad_side) padding->side = side_named(*asked.pad_side);
}

data::EncodeOptions options_from(const Tokenizer& tokenizer, bool add_special_tokens, bool recognise_special,
                                 const Asked& asked) {
  data::EncodeOptions options = tokenizer.defaults();
  options.add_special_tokens = add_special_tokens;
  options.special_in_text = recognise_special ? data::SpecialInText::recognise : data::SpecialInText::ordinary;
  set_truncation(options.truncation, asked);
  set_padding(options.padding, asked);
  options.progress = [](std::size_t) { poll_interrupt(); };
  return options;
}

/// Adds a member with the options of encoding behind its inputs In, which run(tokenizer, inputs..., options) takes.
template <class... In, class Run, class... Names>
void def_encoding(nb::class_<Tokenizer>& cls, const char* name, Run run, const char* doc, const Names&... inputs) {
  using MaybeText = std::optional<std::string>;
  cls.def(
      name,
      [run](const Tokenizer& self, const In&... in, bool add_special_tokens, bool recognise_special,
            std::optional<std::size_t> max_length, const MaybeText& truncation, const MaybeText& truncation_side,
            std::optional<std::size_t> pad_to, std::optional<std::int64_t> pad_id, const MaybeText& pad_side) {
        const Asked asked{max_length, truncation, truncation_side, pad_to, pad_id, pad_side};
        return run(self, in..., options_from(self, add_special_tokens, recognise_special, asked));
      },
      inputs..., nb::kw_only(), "add_special_tokens"_a = true, "recognise_special"_a = false,
      "max_length"_a = nb::none(), "truncation"_a = nb::none(), "truncation_side"_a = nb::none(),
      "pad_to"_a = nb::none(), "pad_id"_a = nb::none(), "pad_side"_a = nb::none(), doc);
}

/// Texts, or pairs of texts, whose characters live in `texts`.
std::vector<data::TextInput> inputs_from(nb::handle list, std::deque<std::string>& texts) {
  if (nb::isinstance<nb::str>(list) || PySequence_Check(list.ptr()) == 0)
    refuse_type("encode_batch: texts", "a sequence of texts", list);
  std::vector<data::TextInput> inputs;
  for (const nb::handle item : list) {
    const std::string what = fmt::format("encode_batch: texts[{}]", inputs.size());
    if (nb::isinstance<nb::str>(item)) {
      inputs.emplace_back(texts.emplace_back(text_from(item, what.c_str())));
      continue;
    }
    const bool pair = nb::isinstance<nb::tuple>(item) || nb::isinstance<nb::list>(item);
    if (!pair || nb::len(item) != 2) refuse_type(what, "a text or a pair of texts", item);
    const std::string_view first = texts.emplace_back(text_from(item[0], what.c_str()));
    inputs.emplace_back(first, std::string_view(texts.emplace_back(text_from(item[1], what.c_str()))));
  }
  return inputs;
}

void bind_encoding_functions(nb::class_<Tokenizer>& cls) {
  def_encoding<std::string, std::optional<std::string>>(
      cls, "encode",
      [](const Tokenizer& self, const std::string& text, const std::optional<std::string>& pair,
         const data::EncodeOptions& options) {
        const data::TextInput input =
            pair ? data::TextInput(std::string_view(text), std::string_view(*pair)) : data::TextInput(text);
        return released([&] { return self.encode(input, options); });
      },
      "The tokens of a text or of a pair of texts. recognise_special: special tokens may be spelt in the text. "
      "max_length truncates (truncation: longest_first, only_first or only_second; at the right or left side), pad_to "
      "pads (0: as the tokenizer's file says). What is not given is as that file says.",
      "text"_a, "pair"_a = nb::none());
  def_encoding<nb::object>(
      cls, "encode_batch",
      [](const Tokenizer& self, const nb::object& list, const data::EncodeOptions& options) {
        std::deque<std::string> texts; // whose addresses stay
        const std::vector<data::TextInput> inputs = inputs_from(list, texts);
        return released([&] { return self.encode_batch(inputs, options); });
      },
      "A sequence of texts or pairs of texts, on all threads; options as encode() has them. pad_to=0: as long as the "
      "longest.",
      "texts"_a);
}

void bind_tokenizer(nb::module_& m) {
  nb::class_<Tokenizer> cls(m, "Tokenizer", "WordPiece or byte-level BPE, as Hugging Face's tokenizers does it.");
  bind_encoding_functions(cls);
  cls.def_static(
         "open", [](const Path& path) { return Tokenizer::open(path.str()); }, "path"_a,
         "A folder or file: tokenizer.json, vocab.txt, or vocab.json with merges.txt.")
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
      .def("is_special", &Tokenizer::is_special, "id"_a, "True for the tokens that decode() leaves out.")
      .def(
          "__reduce_ex__",
          [](nb::handle, int) -> nb::object {
            throw nb::type_error("a Tokenizer cannot be copied or pickled; open its files where it is needed");
          },
          nb::sig("def __reduce_ex__(self, protocol: typing.SupportsIndex, /) -> typing.Any"))
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
