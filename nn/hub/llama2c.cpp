#include "nn/hub/llama2c.h"

#include "core/base/error.h"
#include "core/base/input_file.h"
#include "core/base/interrupt.h"
#include "core/ops.h"
#include "data/foreign_format.h"
#include "nn/init.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>

namespace eg::hub {
namespace {

struct Header {
  std::int64_t dim, hidden, layers, heads, kv_heads, vocabulary, positions;
  bool tied;

  std::int64_t head_dim() const { return dim / heads; }
};

/// Of a file of another format with a name, that name. Used only once the header fails: 640 features begin as a
/// pickle.
[[noreturn]] void fail(const InputFile& file, const std::string& why) {
  std::array<std::uint8_t, 8> front{};
  if (file.size() >= front.size()) file.read(0, front.data(), front.size());
  const std::string_view is = data::foreign_format(front);
  throw FileError(
      fmt::format("{}: {}", file.path(), is.empty() ? "is not a llama2.c checkpoint: " + why : std::string(is)));
}

Header read_header(const InputFile& file) {
  std::array<std::int32_t, 7> n{};
  if (file.size() < sizeof n) throw FileError(fmt::format("{}: is shorter than a llama2.c header", file.path()));
  file.read(0, n.data(), sizeof n);
  const Header h{n[0], n[1], n[2], n[3], n[4], n[5] < 0 ? -static_cast<std::int64_t>(n[5]) : n[5], n[6], n[5] > 0};
  constexpr std::array names = {"dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len"};
  const std::array values = {h.dim, h.hidden, h.layers, h.heads, h.kv_heads, h.vocabulary, h.positions};
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] <= 0 || values[i] > (i == 2 ? 1 << 12 : 1 << 20)) // products of them stay below 2^63
      fail(file, fmt::format("{} is {}", names[i], values[i]));
  if (h.dim % h.heads != 0 || h.head_dim() % 2 != 0 || h.heads % h.kv_heads != 0)
    fail(file, fmt::format("{} features do not make {} heads on {}", h.dim, h.heads, h.kv_heads));
  return h;
}

std::int64_t floats_of(const Header& h) {
  const std::int64_t kv = h.kv_heads * h.head_dim();
  const std::int64_t layer = 2 * h.dim + 2 * h.dim * h.dim + 2 * kv * h.dim + 3 * h.dim * h.hidden;
  return h.vocabulary * h.dim * (h.tied ? 1 : 2) + h.layers * layer + h.dim + h.positions * h.head_dim();
}

/// The header of a file that has the size which it states.
Header fitting_header(const InputFile& file) {
  const Header h = read_header(file);
  const std::uint64_t wanted = 28 + 4 * static_cast<std::uint64_t>(floats_of(h));
  if (file.size() != wanted) fail(file, fmt::format("its header asks for {} bytes, it has {}", wanted, file.size()));
  return h;
}

/// Takes the file's weights one after the other.
class Weights {
public:
  explicit Weights(const InputFile& file) : file_(file) {}

  void skip(std::int64_t floats) { at_ += 4 * static_cast<std::uint64_t>(floats); }
  Tensor next(const Shape& shape) {
    poll_interrupt();
    Tensor t = Tensor::empty(shape);
    file_.read(at_, t.mutable_data<float>("load_llama2c"), 4 * static_cast<std::size_t>(shape.numel()));
    skip(shape.numel());
    return t;
  }
  std::uint64_t end() const { return at_; }

private:
  const InputFile& file_;
  std::uint64_t at_ = 28;
};

nlohmann::json config_of(const Header& h) {
  return {{"model_type", "llama"},
          {"architectures", {"LlamaForCausalLM"}},
          {"hidden_size", h.dim},
          {"intermediate_size", h.hidden},
          {"num_hidden_layers", h.layers},
          {"num_attention_heads", h.heads},
          {"num_key_value_heads", h.kv_heads},
          {"vocab_size", h.vocabulary},
          {"max_position_embeddings", h.positions},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"hidden_act", "silu"},
          {"tie_word_embeddings", h.tied},
          {"bos_token_id", 1},
          {"eos_token_id", 2}};
}

/// Every tensor under transformers' name, in the order of the file.
std::map<std::string, Tensor> read_weights(const Header& h, const InputFile& file) {
  Weights weights(file);
  std::map<std::string, Tensor> all;
  const std::int64_t kv = h.kv_heads * h.head_dim();
  const auto layers = [&](const char* name, const Shape& shape, bool turns = false) {
    for (std::int64_t i = 0; i < h.layers; ++i) {
      const Tensor w = weights.next(shape);
      all[fmt::format("model.layers.{}.{}.weight", i, name)] = turns ? neighbours_to_halves(w, h.head_dim()) : w;
    }
  };
  all["model.embed_tokens.weight"] = weights.next({h.vocabulary, h.dim});
  layers("input_layernorm", {h.dim});
  layers("self_attn.q_proj", {h.dim, h.dim}, true);
  layers("self_attn.k_proj", {kv, h.dim}, true);
  layers("self_attn.v_proj", {kv, h.dim});
  layers("self_attn.o_proj", {h.dim, h.dim});
  layers("post_attention_layernorm", {h.dim});
  layers("mlp.gate_proj", {h.hidden, h.dim});
  layers("mlp.down_proj", {h.dim, h.hidden});
  layers("mlp.up_proj", {h.hidden, h.dim});
  all["model.norm.weight"] = weights.next({h.dim});
  weights.skip(h.positions * h.head_dim()); // cosines and sines, which follow from the positions
  if (!h.tied) all["lm_head.weight"] = weights.next({h.vocabulary, h.dim});
  return all;
}

/// Rows of each head as [inner, outer] read as [outer, inner].
Tensor reordered(const Tensor& weight, std::int64_t head_dim, std::int64_t outer, std::int64_t inner,
                 const char* name) {
  if (weight.rank() < 1 || head_dim <= 0 || head_dim % 2 != 0 || weight.size(0) % head_dim != 0)
    throw ShapeError(fmt::format("{}: {} are not whole heads of {} features", name, weight.shape().str(), head_dim));
  const std::int64_t heads = weight.size(0) / head_dim;
  return weight.reshape({heads, outer, inner, weight.numel() / std::max<std::int64_t>(weight.size(0), 1)})
      .transpose(1, 2)
      .reshape(weight.shape());
}

} // namespace

Tensor neighbours_to_halves(const Tensor& weight, std::int64_t head_dim) {
  return reordered(weight, head_dim, head_dim / 2, 2, "neighbours_to_halves");
}

Tensor halves_to_neighbours(const Tensor& weight, std::int64_t head_dim) {
  return reordered(weight, head_dim, 2, head_dim / 2, "halves_to_neighbours");
}

std::unique_ptr<Model> load_llama2c(const std::string& path) {
  const InputFile file(path);
  const Header h = fitting_header(file);
  const std::map<std::string, Tensor> weights = read_weights(h, file);
  std::unique_ptr<Model> model;
  {
    const nn::init::SkipScope skip; // every parameter is read
    model = make_model(config_of(h), {}, path);
  }
  nn::StateDict slots = model->module().state_dict();
  for (const Binding& b : model->bindings())
    for (auto& [name, slot] : slots)
      if (name == b.parameter) insert(slot, b, weights.at(b.file));
  model->module().eval();
  return model;
}

nlohmann::json llama2c_config(const std::string& path) { return config_of(fitting_header(InputFile(path))); }

} // namespace eg::hub
