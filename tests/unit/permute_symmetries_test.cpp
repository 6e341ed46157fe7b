// The groups that theory knows, as the inference finds them from shapes alone, and what it says of what it cannot
// explain.

#include "autograd/tape.h"
#include "core/meta.h"
#include "core/reduction.h"
#include "nn/decoder.h"
#include "nn/init.h"
#include "nn/vit.h"
#include "optim/optimizer.h"
#include "permute/model_key.h"
#include "permute/symmetries.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <memory>

using namespace eg;
using namespace eg::permute;

namespace {

double log2_factorial(double n) { return std::lgamma(n + 1.0) / std::log(2.0); }

/// Parameters and inputs are shapes; f may be any model.
struct Shapes {
  MetaTensorScope tensors;
  MetaCallScope calls;
  nn::init::SkipScope skip;
};

template <class Model>
ModelSymmetries of(const Model& model, const nn::StateDict& inputs, const std::function<Tensor()>& run) {
  const MetaCallScope calls;
  nn::StateDict parameters;
  for (const nn::Parameter& p : model.named_parameters()) parameters.emplace_back(p.name, p.value);
  return ModelSymmetries({.parameters = parameters, .inputs = inputs, .run = [&] {
                            return nn::StateDict{{"y", run()}};
                          }});
}

const SymmetryGroup& group(const ModelSymmetries& s, const std::string& name) {
  const SymmetryGroup* g = s.find(name);
  std::string names;
  for (const SymmetryGroup& other : s.groups()) names += other.name + " ";
  REQUIRE_MESSAGE(g != nullptr, name, " is none of ", names);
  return *g;
}

/// f(x) of one named weight "w" and the input "x".
ModelSymmetries of_function(const Shape& x, const Shape& w,
                            const std::function<Tensor(const Tensor&, const Tensor&)>& f) {
  const MetaCallScope calls;
  const Tensor in = Tensor::meta(x, DType::f64), weight = Tensor::meta(w, DType::f64);
  return ModelSymmetries({.parameters = {{"w", weight}}, .inputs = {{"x", in}}, .run = [&] {
                            return nn::StateDict{{"y", f(in, weight)}};
                          }});
}

std::unique_ptr<nn::Vit> vit_base() {
  const Shapes shapes; // a ViT makes no constants
  nn::VitConfig c{.image = 224,
                  .channels = 3,
                  .patch = 16,
                  .classes = 1000,
                  .layers = 12,
                  .encoder = {.dim = 768, .heads = 12, .mlp = 3072}};
  return std::make_unique<nn::Vit>(c, RandomKey{});
}

std::unique_ptr<nn::Decoder> llama() {
  const Shapes shapes;
  nn::DecoderConfig c = nn::llama_config(4096, 32, 8, 11008, 32);
  return std::make_unique<nn::Decoder>(c, RandomKey{});
}

} // namespace

TEST_CASE("ViT-Base: 768! on the residual, a hidden permutation for each MLP, freedom within heads, one map of heads") {
  const auto model = vit_base();
  const Tensor images = Tensor::meta({1, 3, 224, 224}, DType::f32);
  const ModelSymmetries s = of(*model, {{"images", images}}, [&] { return (*model)(images); });
  CHECK(group(s, "residual").size == 768);
  CHECK(group(s, "residual").log2_count == doctest::Approx(6259.4).epsilon(1e-4));
  for (int layer = 0; layer < 12; ++layer) {
    const std::string block = "blocks." + std::to_string(layer);
    CHECK(group(s, block + ".mlp.fc1").size == 3072);
    const SymmetryGroup &heads = group(s, block + ".attention.qkv.heads"),
                        &qk = group(s, block + ".attention.qkv[0:1536]"),
                        &v = group(s, block + ".attention.qkv[1536:2304]");
    CHECK(heads.size == 12);
    for (const SymmetryGroup* within : {&qk, &v}) {
      CHECK(within->size == 64);
      CHECK(within->copies == 12);
      CHECK(within->kind == GroupKind::wreath);
      CHECK(within->over == std::vector<std::string>{heads.name});
      CHECK(within->log2_count == doctest::Approx(12 * log2_factorial(64)));
    }
  }
  CHECK(group(s, "classifier").log2_count == doctest::Approx(log2_factorial(1000)));
  // Patches may change places by rows and columns of the image alone, pixels within a patch likewise.
  double inner = 6259.4 + 12 * (log2_factorial(3072) + 24 * log2_factorial(64) + log2_factorial(12));
  inner += log2_factorial(1000) + log2_factorial(3) + 2 * log2_factorial(14) + 2 * log2_factorial(16);
  CHECK(s.log2_count() == doctest::Approx(inner).epsilon(1e-6));
}

TEST_CASE("STIP's 3 L + 2 permutations of a decoder, and the rest that it does not use") {
  const auto made = [] {
    const Shapes shapes;
    nn::DecoderConfig c = nn::gpt2_config(768, 12, 12);
    c.tied = false;
    auto decoder = std::make_unique<nn::Decoder>(c, RandomKey{});
    decoder->eval();
    return decoder;
  }();
  const nn::Decoder& model = *made;
  const Tensor ids = Tensor::meta({1, 1024}, DType::i64);
  const ModelSymmetries s = of(model, {{"input_ids", ids}}, [&] { return model.language_model(model({.ids = ids})); });
  int permutations = 0, heads = 0;
  for (const SymmetryGroup& g : s.groups()) {
    if (g.kind == GroupKind::trivial) continue;
    (g.name.ends_with(".heads") ? heads : permutations) += 1;
  }
  CHECK(permutations == 3 * 12 + 2 + 1); // and the ids that go in, which STIP leaves plain
  CHECK(heads == 12);
  CHECK(group(s, "vocabulary").size == 50257);
  CHECK(group(s, "lm_head").size == 50257);
}

TEST_CASE(
    "Llama: query heads move within the group that shares keys, rotary features stay, values are free for each group") {
  const auto model = llama();
  const Tensor ids = Tensor::meta({1, 16}, DType::i64);
  const ModelSymmetries s =
      of(*model, {{"input_ids", ids}}, [&] { return model->language_model((*model)({.ids = ids})); });
  CHECK(group(s, "residual").size == 4096);
  const std::string attention = "blocks.0.attention.qkv";
  int kv = 0, q = 0, v = 0, other = 0;
  for (const SymmetryGroup& g : s.groups()) {
    if (!g.name.starts_with(attention)) continue;
    if (g.size == 8 && g.copies == 1)
      ++kv; // groups of heads
    else if (g.size == 4 && g.copies == 8)
      ++q; // query heads of each
    else if (g.size == 128 && g.copies == 8)
      ++v; // features of each group's values
    else
      ++other;
  }
  CHECK(kv == 1);
  CHECK(q == 1);
  CHECK(v == 1);
  CHECK(other == 0);
  // A causal mask leaves no order of tokens but one, and the operation that says so is named.
  bool fixed = false;
  for (const SymmetryGroup& g : s.groups())
    if (g.kind == GroupKind::trivial && g.axes.front().tensor == "input_ids") {
      fixed = true;
      CHECK(g.because.find("causal scaled_dot_product_attention at blocks.0.attention") != std::string::npos);
    }
  CHECK(fixed);
}

TEST_CASE("one permutation tied over residual and inner axes is the wreath product of 3581 bits, not of 325") {
  const Shapes shapes;
  nn::VitConfig c{.image = 32,
                  .channels = 3,
                  .patch = 4,
                  .classes = 10,
                  .layers = 2,
                  .encoder = {.dim = 768, .heads = 12, .mlp = 768}};
  const nn::Vit model(c, {});
  const Tensor images = Tensor::meta({1, 3, 32, 32}, DType::f32);
  SymmetryQuery query;
  for (const nn::Parameter& p : model.named_parameters()) query.parameters.emplace_back(p.name, p.value);
  query.inputs = {{"images", images}};
  query.run = [&] { return nn::StateDict{{"y", model(images)}}; };
  query.shown = [&] { // queries, keys and values by themselves
    nn::StateDict shown = query.parameters;
    for (const auto& [name, w] : query.parameters)
      for (int part = 0; part < 3 && name.ends_with("qkv.weight"); ++part)
        shown.emplace_back(name + "qkv"[part], w.slice(0, part * 768, (part + 1) * 768));
    return shown;
  };
  for (int layer = 0; layer < 2; ++layer)
    for (const char part : {'q', 'k', 'v'})
      query.tied.push_back(
          {{"norm.weight", 0}, {"blocks." + std::to_string(layer) + ".attention.qkv.weight" + part, 0}});
  const ModelSymmetries s(query);
  const SymmetryGroup& residual = group(s, "residual");
  CHECK(residual.kind == GroupKind::wreath);
  CHECK(residual.size == 64);
  CHECK(residual.copies == 12);
  CHECK(residual.log2_count == doctest::Approx(3580.8).epsilon(1e-4));
  CHECK(log2_factorial(12) + log2_factorial(64) == doctest::Approx(325).epsilon(0.01)); // the same within every head
}

TEST_CASE("convolution: channels may be permuted, places may not") {
  const ModelSymmetries s = of_function({2, 5, 8, 8}, {7, 5, 3, 3}, [](const Tensor& x, const Tensor& w) {
    return conv2d(x, w, {}, {.padding = {1, 1}});
  });
  int free = 0, fixed = 0;
  for (const SymmetryGroup& g : s.groups()) {
    const AxisUse& use = g.axes.front();
    if (g.kind == GroupKind::trivial)
      fixed += use.axis >= 2 ? 1 : 100;
    else
      free += use.axis < 2 ? 1 : 100;
  }
  CHECK(free == 3);  // images, input channels, output channels
  CHECK(fixed == 6); // two axes each of x, w and y
}

TEST_CASE("masks: automorphisms of a constant one, all tokens without, none of a causal one") {
  // Windows of 3 in 9 tokens.
  std::vector<double> values;
  for (int i = 0; i < 9; ++i)
    for (int j = 0; j < 9; ++j) values.push_back(i / 3 == j / 3 ? 0.0 : -1e9);
  const Tensor windows = Tensor::from(values, {9, 9});
  const auto attention = [](const AttentionOptions& options) {
    return of_function({9, 4}, {4, 4}, [&](const Tensor& x, const Tensor& w) {
      return scaled_dot_product_attention(linear(x, w), x, x, options);
    });
  };
  const auto tokens = [](const ModelSymmetries& s) {
    for (const SymmetryGroup& g : s.groups())
      for (const AxisUse& use : g.axes)
        if (use.tensor == "x" && use.axis == 0) return std::pair{g.kind, g.log2_count};
    return std::pair{GroupKind::trivial, -1.0};
  };
  CHECK(tokens(attention({})).second == doctest::Approx(log2_factorial(9)));
  const auto [kind, bits] = tokens(attention({.mask = windows}));
  CHECK(kind == GroupKind::automorphisms);
  CHECK(bits == doctest::Approx(3 * log2_factorial(3) + log2_factorial(3))); // S_3 wr S_3
  CHECK(tokens(attention({.causal = true})).first == GroupKind::trivial);
}

TEST_CASE("what a user's own operation hides is fixed, and it is named") {
  const auto twist = std::make_shared<CustomOp>(
      CustomOp{.name = "twist",
               .forward = [](std::span<const Tensor> in) { return std::vector<Tensor>{in[0] * 2.0}; },
               .vjp = {}});
  const PlaceScope place("head");
  const ModelSymmetries s = of_function({3, 5}, {5, 5}, [&](const Tensor& x, const Tensor& w) {
    return call(twist, std::vector<Tensor>{linear(x, w)}).front();
  });
  for (const SymmetryGroup& g : s.groups())
    if (g.axes.front().tensor == "w" && g.axes.front().axis == 0) {
      CHECK(g.kind == GroupKind::trivial);
      CHECK(g.because.find("twist at head") != std::string::npos);
    }
  CHECK_THROWS_WITH_AS(choose_groups(s, "w.axis0"), doctest::Contains("twist at head"), ValueError);
}

TEST_CASE(
    "a model and its permuted twin: the same outputs, bit for bit with exact sums, and the same gradients moved") {
  nn::VitConfig c{
      .image = 8, .channels = 3, .patch = 4, .classes = 5, .layers = 2, .encoder = {.dim = 12, .heads = 3, .mlp = 20}};
  nn::Vit model(c, {3, 1});
  model.to(DType::f64);
  nn::StateDict parameters;
  std::uint64_t tag = 1;
  for (const nn::Parameter& p : model.named_parameters())
    parameters.emplace_back(p.name, random_normal(p.value.shape(), {tag++, 7}, 0.2, 0.4, DType::f64));
  const Tensor images = random_normal({2, 3, 8, 8}, {4, 1}, 0.0, 1.0, DType::f64);
  const ModelSymmetries s({.parameters = parameters, .inputs = {{"images", images}}, .run = [&] {
                             std::vector<Tensor> values;
                             for (const auto& [name, value] : parameters) values.push_back(value);
                             const nn::ParameterScope scope(model, values);
                             return nn::StateDict{{"logits", model(images)}};
                           }});
  const SecretKey key = make_model_key(s, choose_groups(s, "all"), "Vit");
  const SymmetryElement element = element_of(key, s, "Vit");
  const auto [axes, permutations] = s.axis_map(element);
  const nn::StateDict moved = transform(parameters, axes, permutations);
  const auto run = [&](const nn::StateDict& weights, const Tensor& x) {
    std::vector<Tensor> values;
    for (const auto& [name, value] : weights) values.push_back(value);
    const nn::ParameterScope scope(model, values);
    Tape tape;
    const Tensor y = model(x);
    const Tensor loss = sum(square(y)); // does not care for the order of classes
    return std::pair{y, tape.gradient(loss, values)};
  };
  for (const Reduction reduction : {Reduction::fast, Reduction::exact}) {
    const ReductionScope scope(reduction);
    const auto [plain, plain_gradients] = run(parameters, images);
    const auto [twin, twin_gradients] = run(moved, s.moved(element, "images", images));
    const Tensor expected = s.moved(element, "logits", plain);
    CHECK(relative_error(twin, expected) < 1e-12);
    if (reduction == Reduction::exact) CHECK(same_bits(twin.contiguous(), expected.contiguous()));
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Tensor g = s.moved(element, parameters[i].first, plain_gradients[i]);
      if (reduction == Reduction::exact)
        CHECK_MESSAGE(same_bits(g.contiguous(), twin_gradients[i].contiguous()), parameters[i].first);
    }
  }
  CHECK(relative_error(run(moved, images).first, run(parameters, images).first) > 1e-3); // plain images: useless
  const nn::StateDict back =
      transform(moved, s.axis_map(element.inverse()).first, s.axis_map(element.inverse()).second);
  for (std::size_t i = 0; i < back.size(); ++i)
    CHECK(same_bits(back[i].second.contiguous(), parameters[i].second.contiguous()));
}

TEST_CASE("keys are for one structure, and say so") {
  const auto function = [](std::int64_t n) {
    return of_function({3, n}, {n, n}, [](const Tensor& x, const Tensor& w) { return linear(x, w); });
  };
  const ModelSymmetries five = function(5), six = function(6);
  CHECK(structure_digest(five) == structure_digest(function(5)));
  CHECK(structure_digest(five) != structure_digest(six));
  const SecretKey key = make_model_key(five, choose_groups(five, "all"), "Five");
  CHECK_NOTHROW(groups_of(key, five, "Five"));
  CHECK_THROWS_WITH_AS(groups_of(key, six, "Six"), doctest::Contains("was made for another model: a Five"), ValueError);
  CHECK_THROWS_WITH_AS(groups_of(SecretKey::generate(), five, "Five"), doctest::Contains("was made for no model"),
                       ValueError);
  CHECK_THROWS_WITH_AS(choose_groups(five, "nonsense"), doctest::Contains("no group fits \"nonsense\""), ValueError);
  CHECK_THROWS_WITH_AS(choose_groups(five, ","), doctest::Contains("none is named"), ValueError);
}

namespace {

/// Images of 3 x 3 patches, whose brightest patch is their class.
std::pair<Tensor, Tensor> bright_patches(std::int64_t count, std::uint64_t seed) {
  const Tensor labels = random_integers({count}, {seed, 1}, 0, 9);
  Tensor images = random_normal({count, 1, 12, 12}, {seed, 2}, 0.0, 0.5);
  auto* pixels = images.mutable_data<float>();
  for (std::int64_t n = 0; n < count; ++n) {
    const auto label = static_cast<std::int64_t>(labels.at({n}));
    for (std::int64_t i = 0; i < 16; ++i)
      pixels[n * 144 + (label / 3 * 4 + i / 4) * 12 + label % 3 * 4 + i % 4] += 2.0F;
  }
  return {images, labels};
}

} // namespace

TEST_CASE("a trained model under a key: as good with its inputs permuted, at chance with plain ones or the wrong key") {
  nn::Vit model({.image = 12,
                 .channels = 1,
                 .patch = 4,
                 .classes = 9,
                 .layers = 2,
                 .encoder = {.dim = 16, .heads = 2, .mlp = 32}},
                {1, 1});
  const auto adam = optim::adam(model.parameters());
  for (std::uint64_t step = 0; step < 250; ++step) {
    const auto [images, labels] = bright_patches(64, 100 + step);
    Tape tape;
    const Tensor loss = cross_entropy(model(images), labels);
    adam->step(tape.gradient(loss, model.parameters()), 3e-3);
  }
  const std::pair<Tensor, Tensor> test = bright_patches(1000, 7);
  const Tensor &images = test.first, &labels = test.second;
  nn::StateDict parameters;
  for (const nn::Parameter& p : model.named_parameters()) parameters.emplace_back(p.name, p.value);
  const ModelSymmetries s(
      {.parameters = parameters, .inputs = {{"images", images}}, .data_axes = {{"images", 0}}, .run = [&] {
         return nn::StateDict{{"logits", model(images)}};
       }});
  const std::set<std::string> groups = choose_groups(s, "all");
  const SymmetryElement element = s.element(groups, public_source({1, 0})),
                        other = s.element(groups, public_source({2, 0}));
  /// Accuracy of the model moved by one element on images moved by another, its logits moved back by that.
  const auto accuracy = [&](const SymmetryElement* weights, const SymmetryElement* data) {
    nn::StateDict moved = parameters;
    if (weights != nullptr)
      for (auto& [name, value] : moved) value = s.moved(*weights, name, value);
    std::vector<Tensor> values;
    for (const auto& [name, value] : moved) values.push_back(value);
    const nn::ParameterScope scope(model, values);
    Tensor logits = model(data != nullptr ? s.moved(*data, "images", images) : images);
    if (data != nullptr) logits = s.moved(data->inverse(), "logits", logits);
    const Tensor right = eq(argmax(logits, -1), labels);
    return count_nonzero(right).item() / 1000.0;
  };
  const double plain = accuracy(nullptr, nullptr);
  CHECK(plain > 0.9);
  CHECK(accuracy(&element, &element) == doctest::Approx(plain).epsilon(0.003)); // a tie may fall otherwise
  const SymmetryElement undone = element.then(other.inverse());
  for (const double useless : {accuracy(&element, nullptr), accuracy(&element, &other), accuracy(&undone, nullptr)}) {
    CHECK(useless < 0.4); // chance: 0.11
    MESSAGE("accuracy ", useless, " of ", plain);
  }
}

TEST_CASE("an element that moves an axis in another way at each index of another one is no axis map") {
  const MetaCallScope shapes_alone;
  const Tensor w = Tensor::meta({2, 3}, DType::f64);
  const ModelSymmetries s({.parameters = {{"w", w}}, .inputs = {}, .run = [&] {
                             return nn::StateDict{{"y", tanh(w)}};
                           }});
  std::string within;
  for (const SymmetryGroup& g : s.groups())
    if (g.kind == GroupKind::wreath) within = g.name;
  REQUIRE_FALSE(within.empty());
  // Exchanges two columns of the first row alone.
  const SymmetryElement element = std::move(s.generators(within).front());
  CHECK_THROWS_WITH_AS(s.axis_map(element), doctest::Contains("ModelSymmetries::moved applies it"), ValueError);
  CHECK_NOTHROW(s.moved(element, "w", Tensor::zeros({2, 3}, DType::f64)));
}

TEST_CASE("an element of another model is refused, though it has as many points") {
  const auto symmetries_of = [](const std::string& name, const std::function<Tensor(const Tensor&)>& f) {
    const MetaCallScope shapes_alone;
    const Tensor w = Tensor::meta({2, 3}, DType::f64);
    return ModelSymmetries({.parameters = {{name, w}}, .inputs = {}, .run = [&] {
                              return nn::StateDict{{"y", f(w)}};
                            }});
  };
  const auto doubled = [](const Tensor& w) { return 2.0 * sum(w, {1}); };
  const ModelSymmetries s = symmetries_of("w", doubled), same = symmetries_of("w", doubled),
                        other = symmetries_of("v", doubled);
  const std::string name = s.groups().front().name;
  const SymmetryElement own = std::move(s.generators(name).front()), again = std::move(same.generators(name).front()),
                        foreign = std::move(other.generators(other.groups().front().name).front());
  const Tensor x = Tensor::zeros({2, 3}, DType::f64);
  CHECK_NOTHROW(s.moved(own.then(again), "w", x)); // of the same model, inferred twice
  CHECK_THROWS_WITH_AS(own.then(foreign), doctest::Contains("two models"), ValueError);
  CHECK_THROWS_WITH_AS(s.moved(foreign, "w", x), doctest::Contains("another model"), ValueError);
  CHECK_THROWS_WITH_AS(s.axis_map(foreign), doctest::Contains("another model"), ValueError);
}
