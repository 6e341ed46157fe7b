// Text continued by a language model.
//
//   07_generate_text                   makes a small GPT-2 that was not trained and lets it babble
//   07_generate_text FOLDER "prompt"   a model folder with its tokenizer

#include <equigrad/equigrad.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

/// The words that WordPiece knows, and a model of as many ids.
void make_folder(const std::string& folder) {
  const nlohmann::json config = {{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
                                 {"vocab_size", 10},     {"n_embd", 24},
                                 {"n_head", 3},          {"n_layer", 2},
                                 {"n_positions", 32}};
  eg::hub::save_model(*eg::hub::make_model(config, {.seed = 3}), folder);
  std::ofstream(folder + "/vocab.txt") << "[UNK]\n[CLS]\n[SEP]\na\ncat\nsat\non\nthe\nmat\n##s\n";
}

std::string continued(const std::string& folder, const std::string& prompt) {
  const eg::hub::LoadedModel loaded = eg::hub::load_model(folder);
  const eg::data::Tokenizer tokenizer = eg::data::Tokenizer::open(folder);
  const eg::data::Encoding ids = tokenizer.encode(prompt, {.add_special_tokens = false});
  const eg::nn::GenerateOptions options = {.max_new_tokens = 20,
                                           .sampling = {.temperature = 0.8, .top_k = 40},
                                           .end_ids = eg::hub::end_ids(folder),
                                           .key = {.seed = 7}};
  std::string streamed;
  const eg::hub::GeneratedText result =
      eg::hub::generate_text(*loaded.model, &tokenizer, ids.ids, options, {"The end"}, [&](std::string_view piece) {
        streamed += piece; // whole UTF-8 characters, and nothing of a stop string
        std::printf("%.*s", static_cast<int>(piece.size()), piece.data());
        std::fflush(stdout);
      });
  std::printf("\n%zu tokens, ended by %s\n", result.ids.size(), result.ended.c_str());
  return streamed == result.text ? result.text : "";
}

} // namespace

int main(int argc, char** argv) {
  if (argc == 3) return continued(argv[1], argv[2]).empty() ? 1 : 0;
  const std::string folder = (std::filesystem::temp_directory_path() / "equigrad_generate_text").string();
  make_folder(folder);
  const bool same =
      !continued(folder, "the cat").empty() && continued(folder, "the cat") == continued(folder, "the cat");
  std::printf("the same words from the same seed: %s\n", same ? "yes" : "no");
  std::filesystem::remove_all(folder);
  return same ? 0 : 1;
}
