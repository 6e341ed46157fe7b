// The finder that calls a function and knows nothing else of it: what it finds is known from theory, and is never more
// than what is inferred from the tape.

#include "core/call.h"
#include "core/meta.h"
#include "core/ops.h"
#include "nn/hub/small_copy.h"
#include "nn/init.h"
#include "permute/hub_symmetries.h"
#include "permute/swap_finder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

using namespace eg;
using namespace eg::permute;
using nlohmann::json;

namespace {

Tensor general(const Shape& shape, std::uint64_t tag) { return random_normal(shape, {tag, 3}, 0.0, 1.0, DType::f64); }

std::string words_of(const JointSwap& swap) {
  std::string text;
  for (const AxisSwap& s : swap)
    text += fmt::format("{}{}.{}[{}<>{}{}]", text.empty() ? "" : " ", s.tensor, s.axis, s.first, s.second,
                        s.width > 1 ? fmt::format(" x{}", s.width) : "");
  return text;
}

std::set<std::string> words_of(const FoundSwaps& found) {
  std::set<std::string> all;
  for (const JointSwap& swap : found.swaps) all.insert(words_of(swap));
  return all;
}

/// The swap as moves of whole axes, for tensors of these shapes.
std::vector<AxisMove> moves_of(const JointSwap& swap, const nn::StateDict& tensors, const SwapFinderOptions& options) {
  std::map<std::pair<std::string, int>, std::vector<std::int64_t>> gathers;
  for (const AxisSwap& s : swap) {
    std::vector<std::int64_t>& gather = gathers[{s.tensor, s.axis}];
    if (gather.empty()) {
      const auto own = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.first == s.tensor; });
      REQUIRE(own != tensors.end());
      gather.resize(static_cast<std::size_t>(s.axis < 0 ? options.numbers.at(s.tensor) : own->second.size(s.axis)));
      std::iota(gather.begin(), gather.end(), std::int64_t{0});
    }
    for (std::int64_t k = 0; k < s.width; ++k)
      std::swap(gather[static_cast<std::size_t>(s.first + k)], gather[static_cast<std::size_t>(s.second + k)]);
  }
  std::vector<AxisMove> moves;
  for (const auto& [axis, gather] : gathers) moves.push_back({axis.first, axis.second, Permutation(gather)});
  return moves;
}

/// Read on shapes; every leaf is a parameter.
ModelSymmetries inferred(const nn::StateDict& leaves, const NamedFunction& f) {
  const MetaCallScope shapes_alone;
  nn::StateDict seen = leaves;
  for (auto& [name, tensor] : seen) tensor = Tensor::meta(tensor.shape(), tensor.dtype());
  return ModelSymmetries({.parameters = seen, .inputs = {}, .run = [&] { return f(seen); }});
}

/// How many swaps were found that are not inferred.
std::vector<std::string> missed(const ModelSymmetries& s, const FoundSwaps& found, const nn::StateDict& leaves,
                                const nn::StateDict& outputs, const SwapFinderOptions& options) {
  nn::StateDict all = leaves;
  all.insert(all.end(), outputs.begin(), outputs.end());
  std::vector<std::string> list;
  for (const JointSwap& swap : found.swaps)
    if (!s.contains(moves_of(swap, all, options))) list.push_back(words_of(swap));
  return list;
}

/// Biases of keys have no say in the outputs without rotary positions (docs/catalogue.md, grads-rest-bk), so any
/// permutation moves them for itself. The same swap with those biases moved along with their weights.
JointSwap with_key_biases(const JointSwap& swap, const nn::StateDict& leaves) {
  const std::string bias = "attention.qkv.bias";
  const auto keys = [&](const AxisSwap& s) {
    const auto own = std::find_if(leaves.begin(), leaves.end(), [&](const auto& t) { return t.first == s.tensor; });
    const std::int64_t n = own == leaves.end() ? 0 : own->second.size(0) / 3;
    return s.axis == 0 && s.first >= n && s.first < 2 * n;
  };
  JointSwap all;
  for (const AxisSwap& s : swap) {
    if (s.tensor.ends_with(bias) && keys(s)) continue;
    all.push_back(s);
    if (!s.tensor.ends_with("attention.qkv.weight") || !keys(s)) continue;
    AxisSwap along = s;
    along.tensor.replace(along.tensor.size() - 6, 6, "bias");
    if (std::any_of(leaves.begin(), leaves.end(), [&](const auto& t) { return t.first == along.tensor; }))
      all.push_back(along);
  }
  return all;
}

std::unique_ptr<hub::Model> small_copy_of(const json& config) {
  std::unique_ptr<hub::Model> model;
  {
    const MetaTensorScope tensors;
    const MetaCallScope calls;
    const nn::init::SkipScope skip;
    model = hub::make_model(config, {});
    model->module().eval();
  }
  return hub::small_copy(*model, {11, 1});
}

} // namespace

TEST_CASE("swap finder: a perceptron's hidden features move in both weights") {
  const nn::StateDict leaves{{"w1", general({5, 3}, 1)}, {"w2", general({2, 5}, 2)}, {"x", general({4, 3}, 3)}};
  const NamedFunction f = [](const nn::StateDict& v) {
    return nn::StateDict{{"y", linear(gelu(linear(v[2].second, v[0].second)), v[1].second)}};
  };
  const FoundSwaps found = find_joint_swaps(f, leaves);
  const std::set<std::string> words = words_of(found);
  CHECK(found.undecided == 0);
  CHECK(words.contains("w1.0[0<>1] w2.1[0<>1]"));
  CHECK(words.contains("w1.1[1<>2] x.1[1<>2]"));
  CHECK(words.contains("w2.0[0<>1] y.1[0<>1]"));
  CHECK(words.contains("x.0[2<>3] y.0[2<>3]"));
  CHECK_FALSE(words.contains("w1.0[0<>1]"));
  const ModelSymmetries s = inferred(leaves, f);
  CHECK(missed(s, found, leaves, f(leaves), {}).empty());
  // Control: what commutes is not contained in a smaller group, and what does not commute is not contained.
  CHECK_FALSE(s.contains({{"w1", 0, Permutation({1, 0, 2, 3, 4})}}));
  CHECK_FALSE(s.contains({{"w1", 0, Permutation({1, 0, 2, 3, 4})}, {"w2", 1, Permutation({0, 2, 1, 3, 4})}}));
  CHECK(s.contains({{"w1", 0, Permutation({1, 2, 0, 3, 4})}, {"w2", 1, Permutation({1, 2, 0, 3, 4})}}));
  const ModelSymmetries cumulated = inferred(leaves, [](const nn::StateDict& v) {
    return nn::StateDict{{"y", linear(cumsum(linear(v[2].second, v[0].second), 1), v[1].second)}};
  });
  CHECK_FALSE(missed(cumulated, found, leaves, f(leaves), {}).empty());
}

TEST_CASE("swap finder: neither large nor tiny outputs change what is found") {
  const nn::StateDict leaves{{"x", general({5}, 1)}, {"w", general({5}, 2)}};
  for (const double scale : {1e-17, 1.0, 1e12}) {
    const auto words = [&](const NamedFunction& f) { return words_of(find_joint_swaps(f, leaves)); };
    const std::set<std::string> product = words([&](const nn::StateDict& v) {
      return nn::StateDict{{"y", sum(v[0].second * v[1].second) * scale}};
    });
    CHECK(product.contains("w.0[1<>2] x.0[1<>2]"));
    CHECK_FALSE(product.contains("x.0[1<>2]"));
    const std::set<std::string> cumulated = words([&](const nn::StateDict& v) {
      return nn::StateDict{{"y", cumsum(v[0].second * v[1].second, 0) * scale}};
    });
    CHECK(cumulated.empty());
  }
}

TEST_CASE("swap finder: features within a head, whole heads, and none under rotary positions") {
  const auto attention = [](bool turned) {
    return [turned](const nn::StateDict& v) {
      const auto split = [](const Tensor& t) { return transpose(reshape(t, {4, 2, 3}), 0, 1); };
      Tensor q = split(linear(v[0].second, v[1].second)), k = split(linear(v[0].second, v[2].second));
      if (turned) { // features are told apart, alike in both heads
        q = cumsum(q, -1);
        k = cumsum(k, -1);
      }
      const Tensor a = softmax(matmul(q, k, false, true), -1);
      const Tensor o = reshape(transpose(matmul(a, split(linear(v[0].second, v[3].second))), 0, 1), {4, 6});
      return nn::StateDict{{"y", linear(o, v[4].second)}};
    };
  };
  const nn::StateDict leaves{{"x", general({4, 5}, 1)},
                             {"wq", general({6, 5}, 2)},
                             {"wk", general({6, 5}, 3)},
                             {"wv", general({6, 5}, 4)},
                             {"wo", general({5, 6}, 5)}};
  for (const bool turned : {false, true}) {
    const NamedFunction f = attention(turned);
    const FoundSwaps found = find_joint_swaps(f, leaves);
    const std::set<std::string> words = words_of(found);
    CHECK(words.contains("wk.0[0<>1] wq.0[0<>1]") == !turned);
    CHECK(words.contains("wk.0[4<>5] wq.0[4<>5]") == !turned);
    CHECK(words.contains("wo.1[1<>2] wv.0[1<>2]"));
    CHECK(words.contains("wk.0[0<>3 x3] wo.1[0<>3 x3] wq.0[0<>3 x3] wv.0[0<>3 x3]"));
    CHECK(missed(inferred(leaves, f), found, leaves, f(leaves), {}).empty());
  }
}

TEST_CASE("swap finder: what it finds in the families is inferred") {
  const json small = {{"num_attention_heads", 2}, {"num_hidden_layers", 1}, {"hidden_size", 8}},
             gpt = {{"n_head", 2}, {"n_layer", 1}, {"n_embd", 8}},
             shared_keys = {
                 {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"num_hidden_layers", 1}, {"hidden_size", 16}};
  const auto config = [](const std::string& family, const std::string& architecture, const json& more = {}) {
    json c = {{"model_type", family}, {"architectures", {architecture}}};
    if (more.is_object()) c.update(more);
    return c;
  };
  json bert = small; // the row of the padding is fixed, though outputs do not say that it gets no gradient
  bert["pad_token_id"] = nullptr;
  for (const json& c : {config("vit", "ViTForImageClassification", small), config("bert", "BertForMaskedLM", bert),
                        config("gpt2", "GPT2LMHeadModel", gpt), config("llama", "LlamaForCausalLM", shared_keys)}) {
    const std::unique_ptr<hub::Model> model = small_copy_of(c);
    SwapFinderOptions options;
    nn::StateDict leaves = model->module().state_dict();
    for (const auto& [name, x] : hub::random_inputs(*model, {4, 5})) {
      leaves.emplace_back(name, x);
      if (name == "input_ids") options.numbers[name] = model->module().state_dict().front().second.size(0);
    }
    const NamedFunction f = function_of(*model, TensorNames::parameters);
    FoundSwaps found = find_joint_swaps(f, leaves, options);
    for (JointSwap& swap : found.swaps) swap = with_key_biases(swap, leaves);
    const std::vector<std::string> more =
        missed(symmetries_of(*model, TensorNames::parameters), found, leaves, f(leaves), options);
    MESSAGE(c["model_type"].get<std::string>(), ": ", found.swaps.size(), " swaps of ", found.families, " families, ",
            found.undecided, " undecided, ", found.calls, " calls");
    CHECK_MESSAGE(more.empty(), c.dump(), ": ", fmt::format("{}", more.empty() ? "" : more.front()));
    CHECK(found.swaps.size() > 10);
  }
}
