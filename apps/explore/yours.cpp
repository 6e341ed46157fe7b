// The page "yours": a model folder of the reader's: its symmetries, the theorems on its weights, its attention, and the
// folder permuted.

#include "apps/explore/pages.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/words.h"
#include "core/ops.h"
#include "data/preprocess.h"
#include "data/text/tokenizer.h"
#include "nn/hub/folder.h"
#include "nn/hub/timm.h"
#include "permute/catalogue/given_blocks.h"
#include "permute/folder.h"
#include "permute/hub_symmetries.h"
#include "permute/symmetries_json.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>

namespace eg::explore {

using nlohmann::json;

/// The model that was opened last.
class OpenModel {
public:
  explicit OpenModel(const std::string& path)
      : folder(path), loaded(hub::load_model(path)),
        symmetries(permute::symmetries_of(*loaded.model, permute::TensorNames::files)) {}

  const hub::Model& model() const { return *loaded.model; }

  std::string folder;
  hub::LoadedModel loaded;
  permute::ModelSymmetries symmetries;
};

namespace {

OpenModel& opened(Session& session) {
  if (session.model == nullptr) throw ValueError("no model is open: ask \"yours.open\" first");
  return *session.model;
}

std::string permuted_folder(const Session& session) { return session.folder + "-permuted"; }

json files_in(const std::string& folder) {
  json files = json::array();
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) names.push_back(std::filesystem::relative(entry.path(), folder).string());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) files.push_back(name);
  return files;
}

/// Draws queries and keys that give visibly different scores. Freshly initialised weights make all scores nearly equal;
/// here each key head and its query heads have one matrix, drawn with deviation 0.3, under noise of its own of a third
/// of that. Scores then say how alike two tokens are, and tokens attend to their like.
void attend_to_the_like(const hub::Model& model, RandomKey key) {
  constexpr double deviation = 0.3;
  std::uint64_t draw = 0;
  for (const auto& block : model.blocks()) {
    const nn::MultiHeadAttention& attention = block->attention;
    Tensor weight = attention.qkv.weight;
    const std::int64_t width = attention.head_dim, keys = (weight.size(0) / width - attention.heads) / 2,
                       shared = attention.heads / keys;
    const auto matrix = [&](double size) {
      return random_normal({width, weight.size(1)}, key.fold(draw++), 0.0, size, weight.dtype());
    };
    std::vector<Tensor> queries, kept;
    for (std::int64_t k = 0; k < keys; ++k) {
      const Tensor like = matrix(deviation);
      for (std::int64_t q = 0; q < shared; ++q) queries.push_back(like + matrix(deviation / 3.0));
      kept.push_back(like + matrix(deviation / 3.0));
    }
    queries.insert(queries.end(), kept.begin(), kept.end());
    queries.push_back(weight.slice(0, (attention.heads + keys) * width, weight.size(0)));
    weight.copy_from(concat(queries, 0));
  }
}

/// A disc under noise, brighter than its background: what a model sees where no picture was chosen [1, C, H, W].
Tensor disc(const Shape& shape, std::uint64_t seed) {
  const std::int64_t height = shape[2], width = shape[3];
  std::vector<double> pixels;
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      const double across = (static_cast<double>(x) + 0.5) / static_cast<double>(width) - 0.6,
                   down = (static_cast<double>(y) + 0.5) / static_cast<double>(height) - 0.45;
      pixels.push_back(across * across + down * down < 0.09 ? 1.0 : -1.0);
    }
  return Tensor::from<double>(pixels, {1, 1, height, width}).to(DType::f32) +
         random_normal(shape, {.seed = seed}, 0.0, 0.3, DType::f32);
}

/// Ids of which half come a second time, in the same order: what a model reads where no text was given.
Tensor repeated_ids(std::int64_t count, std::int64_t vocabulary, std::uint64_t seed) {
  const Tensor first = random_integers({1, count - count / 2}, {.seed = seed}, 0, vocabulary);
  return concat({first, first.slice(1, 0, count / 2)}, 1);
}

/// Inputs of one pass: the picture or the text if there is one, else a disc or repeated ids.
struct Inputs {
  hub::Tensors tensors;
  std::vector<std::string> tokens; ///< how they are spelt; empty for pictures
};

Inputs inputs_of(const OpenModel& open, const std::string& picture, const std::string& text, std::uint64_t seed) {
  Inputs inputs;
  const hub::Model& model = open.model();
  for (auto& [name, like] : model.input_shapes(1)) {
    if (name == "pixel_values") {
      if (picture.empty()) {
        inputs.tensors.emplace_back(name, disc(like.shape(), seed));
        continue;
      }
      const int channels = hub::image_channels(model.config()) == 1 ? 1 : 3;
      const data::Image image = data::read_image(open.folder + "/" + picture, channels);
      inputs.tensors.emplace_back(name, data::preprocess(image, hub::preprocessing_of(open.folder)).unsqueeze(0));
    } else if (!text.empty()) {
      data::EncodeOptions options;
      options.truncation =
          data::Truncation{.max_length = static_cast<std::size_t>(std::min<std::int64_t>(model.positions(), 32))};
      const data::Encoding encoding = data::Tokenizer::open(open.folder).encode(text, options);
      if (encoding.ids.empty()) throw ValueError("the text has no tokens");
      inputs.tokens = encoding.tokens;
      inputs.tensors.emplace_back(
          name, Tensor::from<std::int64_t>(encoding.ids, {1, static_cast<std::int64_t>(encoding.size())}));
    } else {
      constexpr std::int64_t shown = 12;
      const std::int64_t count = std::min(shown, model.positions());
      inputs.tensors.emplace_back(name, repeated_ids(count, permute::vocabulary_of(model), seed));
      for (const std::int64_t id : inputs.tensors.back().second.to_vector<std::int64_t>())
        inputs.tokens.push_back(fmt::format("{}", id));
    }
  }
  return inputs;
}

Tensor first_output(const hub::Model& model, const Inputs& inputs) {
  return model.forward(inputs.tensors).front().second;
}

} // namespace

Session::Session(std::string where) : folder(std::move(where)) {}
Session::~Session() = default;

void sample_yours(Question& question, Reply& reply, Session& session) {
  const std::string family = question.word("family", {"vit", "bert", "gpt2", "llama"});
  const RandomKey key{.seed = static_cast<std::uint64_t>(question.whole("seed", 1, 0, 1'000'000))};
  question.finish();
  static const std::pair<std::string_view, const char*> configs[] = {
      {"vit", R"({"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 24,
                  "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 48, "image_size": 24,
                  "patch_size": 4, "num_channels": 3, "qkv_bias": true, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
                  "id2label": {"0": "circle", "1": "square", "2": "star"}})"},
      {"bert", R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 24,
                   "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 48, "vocab_size": 60,
                   "max_position_embeddings": 32, "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12})"},
      {"gpt2", R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 24, "n_layer": 2, "n_head": 3,
                   "n_inner": 48, "n_positions": 32, "vocab_size": 60})"},
      {"llama", R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 24,
                    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                    "intermediate_size": 48, "vocab_size": 60, "max_position_embeddings": 32, "rms_norm_eps": 1e-6,
                    "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": false})"}};
  const auto chosen =
      std::find_if(std::begin(configs), std::end(configs), [&](const auto& c) { return c.first == family; });
  const std::unique_ptr<hub::Model> model = hub::make_model(json::parse(chosen->second), key);
  attend_to_the_like(*model, key.fold(1));
  hub::save_model(*model, session.folder);
  reply.body["files"] = files_in(session.folder);
}

void open_yours(Question& question, Reply& reply, Session& session) {
  question.finish();
  session.model.reset();
  auto open = std::make_unique<OpenModel>(session.folder);
  const hub::Model& model = open->model();
  json& body = reply.body;
  body["family"] = model.family();
  body["architecture"] = model.architecture();
  body["parameters"] = model.module().parameter_count();
  body["layers"] = model.blocks().size();
  body["files"] = files_in(session.folder);
  body["inputs"] = model.input_names();
  body["groups"] = json::array();
  for (const permute::SymmetryGroup& group : open->symmetries.groups()) {
    json one = permute::json_of(group);
    one["elements"] = permute::described(group);
    body["groups"].push_back(std::move(one));
  }
  body["log2_key_space"] = open->symmetries.log2_count();
  const permute::Certificate certificate =
      permute::certify(*open->loaded.model, open->symmetries, permute::TensorNames::files);
  body["certificate"] = permute::json_of(std::optional(certificate));
  body["rows"] = json::array();
  for (const permute::Identity& row : permute::model_rows(open->model(), {})) body["rows"].push_back(row.id);
  session.model = std::move(open);
}

void check_yours(Question& question, Reply& reply, Session& session) {
  const std::string id = question.text("row", "thm4.1", 100);
  permute::VerifyOptions options;
  options.dtype = question.precision().dtype;
  options.batch = 1;
  options.tokens = question.whole("tokens", 7, 4, 32);
  options.seed = static_cast<std::uint64_t>(question.whole("seed", 1, 0, 1'000'000));
  question.finish();
  for (const permute::Identity& row : permute::model_rows(opened(session).model(), options))
    if (row.id == id) {
      reply.body = json::parse(permute::to_json({permute::verify(row, options)}))["results"][0];
      reply.body["statement"] = row.statement;
      return;
    }
  throw ValueError(fmt::format("this model has no row '{}'", printable(id)));
}

void attend_yours(Question& question, Reply& reply, Session& session) {
  const std::string picture = question.text("picture", "", 200), text = question.text("text", "", 2000);
  const auto seed = static_cast<std::uint64_t>(question.whole("seed", 1, 0, 1'000'000));
  const OpenModel& open = opened(session);
  const auto layers = static_cast<std::int64_t>(open.model().blocks().size());
  const auto layer = question.whole("layer", 0, 0, layers - 1);
  question.finish();
  if (picture.find('/') != std::string::npos) throw ValueError("picture is the name of a file");
  const Inputs inputs = inputs_of(open, picture, text, seed);
  Tensor scores;
  open.model().forward_around(inputs.tensors, [&](const Tensor& z, const Tensor&) {
    Tensor x = z;
    for (std::int64_t i = 0; i < layers; ++i) {
      const nn::Block& block = *open.model().blocks()[static_cast<std::size_t>(i)];
      nn::MultiHeadAttention::Trace trace;
      x = i == layer ? block.traced(x, trace) : block(x);
      if (i == layer) scores = trace.scores;
    }
    return x;
  });
  reply.body["tokens"] = inputs.tokens;
  reply.body["heads"] = scores.size(1);
  reply.body["length"] = scores.size(2);
  // The picture, a number for each patch: the mean of its pixels.
  const Tensor& given = inputs.tensors.front().second;
  if (given.rank() == 4) {
    const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(scores.size(2))));
    if (side > 0 && given.size(2) % side == 0 && given.size(3) % side == 0)
      reply.body["picture"] = reply.tensor(
          mean(given.reshape({given.size(1), side, given.size(2) / side, side, given.size(3) / side}), {0, 2, 4}));
  }
  // Pictures of hundreds of tokens: the row of the first token alone, for each head.
  constexpr std::int64_t most = 64;
  reply.body["scores"] = reply.tensor(scores.size(2) <= most ? scores : scores.slice(2, 0, 1).contiguous());
}

void move_yours(Question& question, Reply& reply, Session& session) {
  const std::string which = question.word("groups", {"inner", "all"});
  const std::int64_t high = question.whole("key_high", 0, 0, 4'294'967'295),
                     low = question.whole("key_low", 1, 0, 4'294'967'295);
  question.finish();
  OpenModel& open = opened(session);
  std::set<std::string> names;
  for (const permute::SymmetryGroup& group : open.symmetries.groups())
    if (group.is_secret() && (which == "all" || !group.moves_outside)) names.insert(group.name);
  if (names.empty()) throw ValueError("this model has no group that could be moved");
  const RandomKey key{.seed = static_cast<std::uint64_t>(high) << 32U | static_cast<std::uint64_t>(low)};
  const permute::SymmetryElement element = open.symmetries.element(names, permute::public_source(key));
  auto [axes, permutations] = open.symmetries.axis_map(element);
  std::filesystem::remove_all(permuted_folder(session));
  const std::vector<permute::LeftOut> left_out = permute::permute_folder(
      {.from = open.folder, .to = permuted_folder(session), .axes = axes, .permutations = permutations, .mark = {}});
  json& body = reply.body;
  body["groups"] = names;
  body["files"] = files_in(permuted_folder(session));
  body["left_out"] = json::array();
  for (const permute::LeftOut& file : left_out) body["left_out"].push_back({{"name", file.name}, {"why", file.why}});
  // Inner groups leave inputs and outputs alone: both models give the same.
  const hub::LoadedModel moved = hub::load_model(permuted_folder(session));
  const Inputs inputs = inputs_of(open, "", "", 1);
  const Tensor before = first_output(open.model(), inputs), after = first_output(*moved.model, inputs);
  body["same_function"] = Reply::comparison(after, before, which == "inner" ? 1e-3 : 0.0);
  std::int64_t changed = 0;
  const hub::Tensors plain = open.model().state(), permuted = moved.model->state();
  for (std::size_t i = 0; i < plain.size(); ++i) changed += same_bits(plain[i].second, permuted[i].second) ? 0 : 1;
  body["changed_tensors"] = changed;
  body["of_tensors"] = plain.size();
}

} // namespace eg::explore
