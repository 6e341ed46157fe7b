// Trained weights that others made: they load, and do what they were trained for.

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/gemm/matmul_precision.h"
#include "core/ops.h"
#include "data/dataset.h"
#include "data/safetensors.h"
#include "nn/bert.h"
#include "nn/decoder.h"
#include "nn/generate.h"
#include "nn/hub/folder.h"
#include "nn/hub/llama2c.h"
#include "nn/metrics.h"
#include "permute/permutation.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <sstream>

using namespace eg;

namespace {

/// A ViT of three blocks for MNIST whose names are its author's: two linear maps of a patch are added, each head has
/// its own projections, attention is scaled by 1/sqrt(dim), and token 0 is classified.
class ShallowVit {
public:
  explicit ShallowVit(const data::TensorFile& file)
      : file_(file), head_(32, 10, {}), norm_(nn::NormKind::layer, 32, 1e-5) {
    nn::BlockConfig config{.dim = 32,
                           .heads = 4,
                           .mlp = 128,
                           .activation = nn::Activation::relu,
                           .norm_eps = 1e-5,
                           .qkv_bias = false,
                           .attention_scale = 1.0 / std::sqrt(32.0)};
    for (int i = 0; i < 3; ++i) {
      blocks_.push_back(std::make_unique<nn::Block>(config, RandomKey{}));
      fill(*blocks_.back(), fmt::format("blocks.{}.", i));
    }
    norm_.weight = at("ln_f.weight");
    norm_.bias = at("ln_f.bias");
    head_.weight = at("vit_head.weight");
    head_.bias = at("vit_head.bias");
  }

  /// images [B, 1, 28, 28] -> logits of all 16 tokens [B, 16, 10]
  Tensor operator()(const Tensor& images) const {
    const Tensor z = linear(patchify(images, 7), at("encoder.weight") + at("pos_embedding.weight"),
                            at("encoder.bias") + at("pos_embedding.bias"));
    return head_(norm_(nn::run_blocks(blocks_, z, {}, {})));
  }

private:
  Tensor at(const std::string& name) const {
    const Tensor* t = file_.find(name);
    REQUIRE_MESSAGE(t != nullptr, name);
    return *t;
  }

  void fill(nn::Block& block, const std::string& prefix) const {
    std::vector<Tensor> qkv;
    for (const char* part : {"query", "key", "value"})
      for (int head = 0; head < 4; ++head)
        qkv.push_back(at(fmt::format("{}sa.heads.{}.{}.weight", prefix, head, part)));
    block.load_state_dict({{"norm1.weight", at(prefix + "ln1.weight")},
                           {"norm1.bias", at(prefix + "ln1.bias")},
                           {"attention.qkv.weight", concat(qkv, 0)},
                           {"attention.proj.weight", at(prefix + "sa.proj.weight")},
                           {"attention.proj.bias", at(prefix + "sa.proj.bias")},
                           {"norm2.weight", at(prefix + "ln2.weight")},
                           {"norm2.bias", at(prefix + "ln2.bias")},
                           {"mlp.fc1.weight", at(prefix + "ffwd.net.0.weight")},
                           {"mlp.fc1.bias", at(prefix + "ffwd.net.0.bias")},
                           {"mlp.fc2.weight", at(prefix + "ffwd.net.2.weight")},
                           {"mlp.fc2.bias", at(prefix + "ffwd.net.2.bias")}});
  }

  const data::TensorFile& file_;
  nn::Blocks blocks_;
  nn::Linear head_;
  nn::Norm norm_;
};

/// The bytes of a llama2.c checkpoint that holds the weights of a LlamaForCausalLM.
std::string llama2c_bytes(const hub::Model& model, const std::array<std::int32_t, 7>& header) {
  const hub::Tensors state = model.state();
  std::string bytes(reinterpret_cast<const char*>(header.data()), sizeof header);
  const auto put = [&](const Tensor& t) {
    const Tensor packed = t.contiguous();
    bytes.append(reinterpret_cast<const char*>(packed.data<float>()), static_cast<std::size_t>(t.numel()) * 4);
  };
  const std::int64_t head_dim = header[0] / header[3];
  put(hub::find(state, "model.embed_tokens.weight"));
  for (const char* name :
       {"input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
        "post_attention_layernorm", "mlp.gate_proj", "mlp.down_proj", "mlp.up_proj"})
    for (int layer = 0; layer < header[2]; ++layer) {
      const Tensor w = hub::find(state, fmt::format("model.layers.{}.{}.weight", layer, name));
      const std::string_view kind = name;
      put(kind.ends_with("q_proj") || kind.ends_with("k_proj") ? hub::halves_to_neighbours(w, head_dim) : w);
    }
  put(hub::find(state, "model.norm.weight"));
  put(Tensor::ones({header[6] * head_dim})); // cosines and sines, which nobody reads
  if (header[5] < 0) put(hub::find(state, "lm_head.weight"));
  return bytes;
}

} // namespace

TEST_CASE("a trained ViT reads MNIST: its author's logits, 88.74 % of the test images") {
  const std::filesystem::path folder = test::data_or_skip("hub_weights: shallow ViT", "weights/vit-mnist-shallow");
  const std::filesystem::path mnist = test::data_or_skip("hub_weights: shallow ViT", "mnist");
  if (folder.empty() || mnist.empty()) return;
  const data::TensorFile file = data::load_safetensors(folder / "model.safetensors");
  const ShallowVit model(file);
  const data::ImageDataset images = data::open_dataset("mnist", mnist.parent_path(), data::Split::test);
  std::int64_t right = 0;
  constexpr std::int64_t step = 500;
  for (std::int64_t first = 0; first < images.size(); first += step) {
    std::vector<float> pixels;
    for (std::int64_t i = first; i < first + step; ++i)
      for (const std::uint8_t byte : images.pixels(i)) pixels.push_back(static_cast<float>(byte) / 127.5F - 1.0F);
    const Tensor logits = model(Tensor::from<float>(pixels, {step, 1, 28, 28}));
    const Tensor found = argmax(logits.select(1, 0), -1);
    const std::vector<std::int64_t> classes = found.to_vector<std::int64_t>();
    for (std::int64_t i = 0; i < step; ++i)
      right += classes[static_cast<std::size_t>(i)] == images.label(first + i) ? 1 : 0;
    if (first > 0) continue;
    const data::TensorFile wanted = data::load_safetensors(folder / "reference_logits_t10k_first64.safetensors");
    CHECK(relative_error(slice(logits, 0, 0, 64), *wanted.find("logits_all_tokens")) < 1e-5);
  }
  CHECK(right == 8874);
}

TEST_CASE("a llama2.c checkpoint generates its reference program's tokens, and is a Llama of transformers") {
  const std::filesystem::path folder = test::data_or_skip("hub_weights: llama2.c", "weights/llama2c-aidreams260K");
  if (folder.empty()) return;
  const auto model = hub::load_llama2c(folder / "aidreams260K.bin");
  std::istringstream text([&] {
    const Bytes bytes = read_file(folder / "greedy_token_ids_96.txt");
    return std::string(bytes.begin(), bytes.end());
  }());
  std::vector<std::int64_t> ids;
  for (std::int64_t id = 0; text >> id;) ids.push_back(id);
  REQUIRE(ids.size() > 90);
  const std::vector<std::int64_t> prompt = {ids.front()}, rest(ids.begin() + 1, ids.end());
  nn::GenerateOptions options{.max_new_tokens = static_cast<std::int64_t>(rest.size())};
  CHECK(nn::generate(*model->decoder(), prompt, options) == rest);

  const test::TemporaryFolder copy;
  hub::save_model(*model, copy.path());
  const hub::LoadedModel again = hub::load_model(copy.path());
  CHECK(nn::generate(*again.model->decoder(), prompt, options) == rest);

  // Control: pairs of neighbours read as halves are another model.
  Tensor qkv = again.model->module().state_dict()[2].second;
  REQUIRE(qkv.size(0) == 3 * 64);
  qkv.slice(0, 0, 64).copy_from(hub::halves_to_neighbours(qkv.slice(0, 0, 64).clone(), 16));
  CHECK(nn::generate(*again.model->decoder(), prompt, options) != rest);
}

TEST_CASE("the encoder of a trained BERT commutes with permutations of its tokens") {
  const std::filesystem::path folder = test::data_or_skip("hub_weights: BERT-tiny", "weights/bert-tiny-sst2-encoder");
  if (folder.empty()) return;
  // Its embeddings are not in the file, so it cannot be a whole model.
  CHECK_THROWS_WITH_AS(hub::load_model(folder), doctest::Contains("5 tensors are missing: bert.embeddings.word"),
                       FileError);
  const auto model = hub::make_model(read_json(folder / "config.json"), {});
  const data::TensorReader file = data::open_tensors(folder);
  model->module().to(DType::f64);
  nn::StateDict slots = model->module().state_dict();
  std::size_t found = 0;
  for (const hub::Binding& b : model->bindings())
    for (auto& [name, slot] : slots)
      if (name == b.parameter && file.find(b.file) != nullptr) {
        hub::insert(slot, b, file.read(b.file));
        ++found;
      }
  CHECK(found == file.tensors().size());
  model->module().eval();
  const auto& bert = dynamic_cast<const nn::Bert&>(model->module());
  const Tensor z = random_normal({2, 9, 128}, {3, 0}, 0.0, 1.0, DType::f64);
  const Tensor p = permute::Permutation::random_nonidentity(9, {4, 0}).tensor();
  CHECK(relative_error(bert.encode(permute_rows(z, p)), permute_rows(bert.encode(z), p)) < 1e-13);
  CHECK(relative_error(bert.encode(permute_rows(z, p)), bert.encode(z)) > 1e-2); // control
}

TEST_CASE("orders of rotary pairs") {
  const Tensor w = Tensor::arange(8).to(DType::f32);
  CHECK(hub::neighbours_to_halves(w, 4).to_vector<float>() == std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7});
  const Tensor m = random_normal({12, 5}, {1, 0});
  CHECK(same_bits(hub::halves_to_neighbours(hub::neighbours_to_halves(m, 6), 6), m));
  CHECK_THROWS_AS(hub::neighbours_to_halves(m, 5), ShapeError);
}

TEST_CASE("files that are no llama2.c checkpoints are refused") {
  const test::TemporaryFolder folder;
  const auto says = [&](std::vector<std::int32_t> header, std::size_t more, const char* words) {
    std::string bytes(reinterpret_cast<const char*>(header.data()), 4 * header.size());
    bytes.resize(bytes.size() + more);
    write_file(folder.path("model.bin"), bytes);
    CHECK_THROWS_WITH_AS(hub::load_llama2c(folder.path("model.bin")), doctest::Contains(words), FileError);
  };
  says({1, 2}, 0, "shorter than a llama2.c header");
  says({8, 8, 1, 2, 0, 9, 4}, 0, "n_kv_heads is 0");
  says({8, 8, 1, 3, 1, 9, 4}, 0, "8 features do not make 3 heads on 1");
  says({8, 8, 1, 2, 2, 9, 4}, 10, "its header asks for");
  says({8, 8, 1 << 20, 2, 2, 9, 4}, 10, "n_layers is 1048576");
  says({1 << 20, 1 << 20, 1 << 12, 1 << 19, 1 << 19, 1 << 20, 1 << 20}, 10, "its header asks for");
}

TEST_CASE("llama2.c: a checkpoint with and without a head of its own, with shared key heads") {
  const test::TemporaryFolder folder;
  for (const bool tied : {true, false}) {
    CAPTURE(tied);
    const nlohmann::json config = {{"model_type", "llama"},
                                   {"architectures", {"LlamaForCausalLM"}},
                                   {"hidden_size", 24},
                                   {"intermediate_size", 10},
                                   {"num_hidden_layers", 2},
                                   {"num_attention_heads", 6},
                                   {"num_key_value_heads", 2},
                                   {"vocab_size", 13},
                                   {"max_position_embeddings", 16},
                                   {"rms_norm_eps", 1e-5},
                                   {"tie_word_embeddings", tied}};
    const auto model = hub::make_model(config, {4, 0});
    model->module().eval();
    const std::string path = folder.path("a.bin");
    const std::string bytes = llama2c_bytes(*model, {24, 10, 2, 6, 2, tied ? 13 : -13, 16});
    write_file(path, std::string_view(bytes));
    const auto loaded = hub::load_llama2c(path);
    const hub::Tensors ours = model->state(), theirs = loaded->state();
    REQUIRE(ours.size() == theirs.size());
    for (const auto& entry : ours) CHECK_MESSAGE(same_bits(entry.second, hub::find(theirs, entry.first)), entry.first);
    const hub::Tensors ids = {{"input_ids", Tensor::from<std::int64_t>({1, 7, 12, 3}, {1, 4})}};
    CHECK(same_bits(model->forward(ids)[0].second, loaded->forward(ids)[0].second));
    write_file(path, std::string_view(bytes).substr(0, bytes.size() - 4));
    CHECK_THROWS_WITH_AS(hub::load_llama2c(path), doctest::Contains("its header asks for"), FileError);
  }
}

TEST_CASE("prompts in 8 bits cost a trained Llama little on texts of its own") {
  const std::filesystem::path folder = test::data_or_skip("hub_weights: int8", "weights/llama2c-aidreams260K");
  if (folder.empty()) return;
  constexpr std::int64_t texts = 16, length = 120;
  const auto logits = [&](const nn::Decoder& model, const Tensor& ids) {
    return log_softmax(model.language_model(model({ids})).to(DType::f64));
  };
  const auto model = hub::load_llama2c(folder / "aidreams260K.bin");
  std::vector<std::int64_t> all;
  for (std::uint64_t i = 0; i < texts; ++i) {
    nn::GenerateOptions options{.max_new_tokens = length - 1, .sampling = {.temperature = 1.0}, .key = {76, i}};
    const std::vector<std::int64_t> prompt = {1}, rest = nn::generate(*model->decoder(), prompt, options);
    all.push_back(1);
    all.insert(all.end(), rest.begin(), rest.end());
  }
  const Tensor ids = Tensor::from<std::int64_t>(all, {texts, length});
  const Tensor full = logits(*model->decoder(), ids), likeliest = argmax(full, -1);
  const auto cost = [&](const Tensor& found) { // divergence in nats a token, and how often the likeliest token stays
    const double divergence = sum(exp(full) * (full - found)).item() / static_cast<double>(texts * length);
    const std::vector<std::int64_t> a = likeliest.to_vector<std::int64_t>(),
                                    b = argmax(found, -1).to_vector<std::int64_t>();
    double same = 0;
    for (std::size_t i = 0; i < a.size(); ++i) same += a[i] == b[i] ? 1.0 : 0.0;
    const double share = same / static_cast<double>(a.size());
    MESSAGE(fmt::format("divergence {:.2e}, the same likeliest token {:.2f} %", divergence, 100.0 * share));
    return std::pair(divergence, share);
  };
  model->decoder()->narrow_weights(nn::WeightStorage::int8);
  const auto [weights, weights_same] = cost(logits(*model->decoder(), ids));
  const MatmulPrecisionScope scope(MatmulPrecision::int8);
  const auto [both, both_same] = cost(logits(*model->decoder(), ids));
  CHECK(weights < 5e-4);
  CHECK(both > weights); // rounding is seen
  CHECK(both < 5e-3);
  CHECK(weights_same > 0.98);
  CHECK(both_same > 0.95);
}
