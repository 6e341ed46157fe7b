// BERT with its blocks elsewhere: padded texts, masks that go with the tokens.

#include "autograd/tape.h"
#include "core/ops.h"
#include "core/random.h"
#include "nn/bert.h"
#include "permute/blocks_key.h"
#include "split/split_channels.h"
#include "training/parameter_groups.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

using namespace eg;
using namespace eg::permute;
using namespace eg::split_learning;
using namespace eg::test;

namespace {

constexpr std::int64_t steps = 50, batch = 4, tokens = 6;

nn::BertConfig small_bert() {
  nn::BertConfig c;
  c.vocabulary = 40;
  c.positions = tokens;
  c.layers = 2;
  c.encoder = {.dim = 16, .heads = 4, .mlp = 24, .pre_norm = false, .norm_eps = 1e-12};
  c.head = nn::Head::sequence_classification;
  c.head_dropout = 0.0;
  c.labels = 3;
  return c;
}

training::RunOptions run_options() {
  training::RunOptions o;
  o.steps = steps;
  o.lr = 3e-3;
  o.warmup = 4;
  o.weight_decay = 0.01;
  o.decay_on = training::DecayOn::matrices;
  return o;
}

AxisMap axes_of(const nn::BertConfig& c) {
  AxisMap map;
  for (std::int64_t layer = 0; layer < c.layers; ++layer)
    for (ParameterAxes& axes : block_axes(layer, "blocks." + std::to_string(layer) + "."))
      map.push_back(std::move(axes));
  return map;
}

struct Texts {
  Tensor ids, mask, labels;
};

/// Texts of 3 to 6 tokens.
Texts texts_of(std::int64_t step) {
  const RandomKey key = RandomKey{11, 0}.fold(static_cast<std::uint64_t>(step));
  Texts t{random_integers({batch, tokens}, key.fold(0), 1, 40), Tensor::ones({batch, tokens}, DType::i64),
          random_integers({batch}, key.fold(1), 0, 3)};
  auto* mask = t.mask.mutable_data<std::int64_t>();
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t i = 3 + (b + step) % 4; i < tokens; ++i) mask[b * tokens + i] = 0;
  return t;
}

/// A model in training, permuted as it is told, its blocks here or elsewhere.
class Training {
public:
  Training(bool rows, bool columns, EncoderService* cloud, std::uint64_t key = 3)
      : rows_(rows), bert_(small_bert(), {7, 0}) {
    const nn::BertConfig& c = bert_.config;
    if (columns) {
      key_ = BlocksKey::random(c.encoder, c.layers, KeyForm::decoupled, {key, 0});
      transform_module(bert_, axes_of(c), key_->permutations(c.encoder));
    }
    for (const std::string& name : nn::parameter_names(bert_))
      if (cloud == nullptr || !name.starts_with("blocks.")) names_.push_back(name);
    parameters_ = nn::parameters_named(bert_, names_);
    optimizer_ = training::optimizer_for(options_, bert_, names_);
    if (cloud == nullptr) return;
    remote_ = std::make_unique<CloudEncoder>(connect_to(*cloud, "edge"), at_once());
    nn::StateDict blocks;
    for (const auto& [name, value] : bert_.state_dict())
      if (name.starts_with("blocks.")) blocks.emplace_back(name, value);
    training::EncoderRecipe recipe;
    recipe.layers = c.layers;
    recipe.block = c.encoder;
    recipe.run = options_;
    remote_->begin(recipe, blocks);
  }

  double step(std::int64_t s) {
    const Texts t = texts_of(s);
    Tape tape;
    Tensor z = bert_.embed({.ids = t.ids}), mask = t.mask, rows;
    if (rows_) {
      rows = row_permutations(batch, tokens, RandomKey{5, 0}.fold(static_cast<std::uint64_t>(s)));
      z = permute_rows(z, rows);
      mask = gather(mask, 1, rows);
    }
    if (key_) z = key_->apply_columns(z);
    z = remote_ ? remote_->encode(z, mask, s) : bert_.encode(z, mask);
    if (key_) z = key_->undo_columns(z);
    if (rows_) z = permute_rows(z, invert_permutation(rows));
    const Tensor loss = cross_entropy(bert_.classify(z), t.labels);
    const double value = loss.item();
    optimizer_->step(tape.gradient(loss, parameters_), training::schedule_of(options_, steps).at(s));
    return value;
  }

  nn::StateDict weights() {
    nn::StateDict all = bert_.state_dict();
    if (!remote_) return all;
    for (const auto& one : remote_->blocks())
      std::find_if(all.begin(), all.end(), [&](const auto& entry) { return entry.first == one.first; })->second =
          one.second;
    return all;
  }

private:
  bool rows_;
  training::RunOptions options_ = run_options();
  nn::Bert bert_;
  std::optional<BlocksKey> key_;
  std::vector<std::string> names_;
  std::vector<Tensor> parameters_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<CloudEncoder> remote_;
};

bool same(const nn::StateDict& a, const nn::StateDict& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].first != b[i].first || !same_bits(a[i].second, b[i].second)) return false;
  return a.size() == b.size();
}

} // namespace

TEST_CASE("split: 50 steps of a BERT on padded texts give the weights of one process, bit for bit") {
  for (const bool rows : {false, true})
    for (const bool columns : {false, true}) {
      CAPTURE(rows);
      CAPTURE(columns);
      EncoderService cloud{ServiceOptions{}};
      Training here(rows, columns, nullptr), there(rows, columns, &cloud);
      double first = 0.0, last = 0.0;
      for (std::int64_t s = 0; s < steps; ++s) {
        last = here.step(s);
        if (s == 0) first = last;
        CHECK(there.step(s) == last);
      }
      CHECK(last != first);
      CHECK(same(here.weights(), there.weights()));
    }
}

TEST_CASE("split: a BERT under another key ends with other weights (negative control)") {
  EncoderService cloud{ServiceOptions{}};
  Training one(true, true, &cloud), other(true, true, &cloud, 4);
  for (std::int64_t s = 0; s < 3; ++s) {
    one.step(s);
    other.step(s);
  }
  CHECK(!same(one.weights(), other.weights()));
}
