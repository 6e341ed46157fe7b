// Texts that language models continue.

#include "nn/hub/generation/text.h"

#include "path.h"

namespace eg::python {

void bind_text(nb::module_& m);

namespace {

using hub::GeneratedText;

/// A callback gets whole characters alone, and only where there are some.
void tell(nb::handle on_text, std::string_view text) {
  if (on_text.is_none() || text.empty()) return;
  const nb::gil_scoped_acquire locked;
  on_text(text);
}

GeneratedText generated(const hub::Model& model, const data::Tokenizer* tokenizer,
                        const std::vector<std::int64_t>& prompt, std::int64_t max_new_tokens, double temperature,
                        std::int64_t top_k, double top_p, const std::vector<std::int64_t>& end_ids,
                        const std::vector<std::string>& stops, RandomKey key, nb::handle on_text) {
  const nn::GenerateOptions options{max_new_tokens, {temperature, top_k, top_p}, end_ids, key};
  return released([&] {
    return hub::generate_text(model, tokenizer, prompt, options, stops,
                              [&](std::string_view text) { tell(on_text, text); });
  });
}

} // namespace

void bind_text(nb::module_& m) {
  nb::class_<GeneratedText>(m, "GeneratedText", "How a language model went on.")
      .def_ro("prompt_ids", &GeneratedText::prompt_ids)
      .def_ro("ids", &GeneratedText::ids, "The new ones, the ending one included.")
      .def_ro("text", &GeneratedText::text, "New text alone, without special tokens and before a stop string.")
      .def_ro("ended", &GeneratedText::ended, "'length', 'end token' or 'stop string'.")
      .def_ro("prompt_seconds", &GeneratedText::prompt_seconds, "Until the first token.")
      .def_ro("seconds", &GeneratedText::seconds, "For the others.")
      .def("__repr__", [](nb::handle self) { return nb::repr(self.attr("text")); });
  m.def("_generate_text", &generated, "model"_a, "tokenizer"_a.none(), "prompt"_a, "max_new_tokens"_a, "temperature"_a,
        "top_k"_a, "top_p"_a, "end_ids"_a, "stops"_a, "key"_a, "on_text"_a.none());
  m.def(
      "end_ids", [](const Path& folder) { return hub::end_ids(folder.str()); }, "folder"_a,
      "Ids that end a text: eos_token_id of generation_config.json, else of config.json.");
}

} // namespace eg::python
