// Model folders in Hugging Face's format: config.json and model.safetensors.
//
//   06_model_folder             makes a small BERT, writes its folder, reads it again and compares
//   06_model_folder IN OUT      reads the folder IN, says what is in it and writes it to OUT in shards of 1 GB

#include <equigrad/equigrad.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <string>

namespace {

int rewrite(const std::string& from, const std::string& to) {
  const eg::hub::LoadedModel loaded = eg::hub::load_model(from);
  std::printf("%s: %s, %lld parameters; %s\n", from.c_str(), loaded.model->architecture().c_str(),
              static_cast<long long>(loaded.model->module().parameter_count()), loaded.report.summary().c_str());
  eg::hub::save_model(*loaded.model, to, 1'000'000'000);
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  if (argc == 3) return rewrite(argv[1], argv[2]);

  const nlohmann::json config = {{"model_type", "bert"},    {"architectures", {"BertForMaskedLM"}},
                                 {"vocab_size", 40},        {"hidden_size", 24},
                                 {"num_hidden_layers", 2},  {"num_attention_heads", 3},
                                 {"intermediate_size", 32}, {"max_position_embeddings", 16}};
  const auto bert = eg::hub::make_model(config, {.seed = 1});
  bert->module().eval();

  const std::string folder = (std::filesystem::temp_directory_path() / "equigrad_model_folder").string();
  eg::hub::save_model(*bert, folder);
  const eg::hub::LoadedModel read = eg::hub::load_model(folder);
  for (const eg::hub::Binding& b : bert->bindings())
    if (b.file.find("layer.0.attention") != std::string::npos)
      std::printf("%-55s %-12s is rows %2lld to %2lld of %s\n", b.file.c_str(), b.shape.str().c_str(),
                  static_cast<long long>(b.begin), static_cast<long long>(b.end), b.parameter.c_str());

  const eg::hub::Tensors text = {{"input_ids", eg::random_integers({2, 7}, {.seed = 2}, 0, 40)}};
  const bool same = eg::same_bits(bert->forward(text)[0].second, read.model->forward(text)[0].second);
  std::printf("logits of the model that was read: %s\n", same ? "the same bits" : "different");
  std::filesystem::remove_all(folder);
  return same ? 0 : 1;
}
