#include "nn/hub/model.h"

#include "core/base/error.h"
#include "core/base/words.h"
#include "core/call.h"
#include "nn/hub/family.h"
#include "nn/hub/field_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace eg::hub {
namespace {

constexpr std::array families = {&bert_family, &deit_family, &gpt2_family, &llama_family, &vit_family};

const Family& family_named(const std::string& name, const Fields& fields) {
  std::string known;
  for (const Family* family : families) {
    if (name == family->name) return *family;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family->name);
  }
  fields.refuse("model_type", fmt::format("is '{}'; supported are {}", name, known));
}

const Architecture& architecture_of(const Family& family, const Fields& fields) {
  const std::vector<std::string> given = fields.texts("architectures");
  if (given.empty()) return family.architectures.front();
  std::vector<std::string> known;
  std::string list;
  for (const Architecture& a : family.architectures) {
    if (given.front() == a.name) return a;
    known.emplace_back(a.name);
    list += fmt::format("{}{}", list.empty() ? "" : ", ", a.name);
  }
  const std::string hint = did_you_mean(given.front(), known);
  fields.refuse("architectures", fmt::format("is {}{} supported for {} are {}", given.front(),
                                             hint.empty() ? ";" : hint, family.name, list));
}

} // namespace

Tensor find(const Tensors& tensors, std::string_view name) {
  for (const auto& [own, tensor] : tensors)
    if (own == name) return tensor;
  return {};
}

void Model::check_names(const Tensors& inputs) const {
  const std::vector<std::string> known = input_names();
  std::string list;
  for (const std::string& name : known) list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
  for (const auto& [name, tensor] : inputs)
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string hint = did_you_mean(name, known);
      throw ValueError(fmt::format("{}: there is no input '{}'{} there are {}", architecture_, name,
                                   hint.empty() ? ";" : hint, list));
    }
}

Tensors Model::forward(const Tensors& inputs, RandomKey key) const {
  check_names(inputs);
  return run(inputs, key, {});
}

Tensors Model::forward_around(const Tensors& inputs, const Elsewhere& blocks) const {
  check_names(inputs);
  if (module().training()) throw ValueError(fmt::format("{}: is in training; call eval()", architecture_));
  return run(inputs, {}, blocks);
}

const Binding* Model::tied_to(const std::string& name) const {
  for (const Binding& b : bindings_)
    if (std::any_of(b.tied.begin(), b.tied.end(), [&](const std::string& tied) { return name.ends_with(tied); }))
      return &b;
  return nullptr;
}

bool Model::is_known_extra(const std::string& name) const {
  return std::any_of(extras_.begin(), extras_.end(), [&](const std::string& extra) {
    return extra.starts_with('*') ? name.ends_with(extra.substr(1)) : name == extra;
  });
}

Tensors Model::by_file_names(const std::vector<Tensor>& gradients) const {
  const std::vector<nn::Parameter> parameters = module().named_parameters();
  if (gradients.size() != parameters.size())
    throw ValueError(fmt::format("{}: there are {} parameters and {} gradients", architecture_, parameters.size(),
                                 gradients.size()));
  const PauseRecording pause;
  Tensors named;
  for (const Binding& b : bindings_)
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].name == b.parameter) named.emplace_back(b.file, bound(gradients[i], b));
  return named;
}

Tensors Model::state() const {
  Tensors named = by_file_names(module().parameters());
  for (const Binding& b : bindings_)
    if (!b.twin.empty()) named.emplace_back(b.twin, find(named, b.file));
  return named;
}

bool Request::has(std::string_view ending) const {
  return weights == nullptr || std::any_of(weights->tensors().begin(), weights->tensors().end(),
                                           [&](const data::TensorInfo& info) { return info.name.ends_with(ending); });
}

void Request::need_room(const nn::BlockConfig& block, std::int64_t layers, double rows) const {
  if (weights == nullptr) return;
  if (layers > static_cast<std::int64_t>(weights->tensors().size())) // each has several
    throw FileError(fmt::format("{}: holds {}, the config asks for {}", weights->path(),
                                count_of(weights->tensors().size(), "tensor"),
                                count_of(static_cast<std::uint64_t>(layers), "block")));
  double held = 0.0;
  for (const data::TensorInfo& info : weights->tensors()) held += static_cast<double>(info.numel());
  const auto dim = static_cast<double>(block.dim), mlp = static_cast<double>(block.mlp);
  const double width =
      block.head_dim > 0 ? static_cast<double>(block.heads) * static_cast<double>(block.head_dim) : dim;
  // Of every block the queries' weights and the projection's, and the two of the MLP.
  const double wanted = static_cast<double>(layers) * dim * 2.0 * (width + mlp) + rows * dim;
  // Up to 256 MB of f32 more, the model is made and the error says which tensors are missing.
  constexpr double harmless = 1 << 26;
  if (wanted > held + harmless)
    throw FileError(
        fmt::format("{}: holds {:.0f} numbers, the config asks for at least {:.0f}", weights->path(), held, wanted));
}

nn::Activation activation_of(const Fields& fields, const char* field, const char* otherwise) {
  using nn::Activation;
  constexpr std::array<std::pair<std::string_view, Activation>, 16> names{{{"gelu", Activation::gelu},
                                                                           {"gelu_python", Activation::gelu},
                                                                           {"gelu_new", Activation::gelu_tanh},
                                                                           {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                                           {"gelu_python_tanh", Activation::gelu_tanh},
                                                                           {"gelu_accurate", Activation::gelu_tanh},
                                                                           {"gelu_fast", Activation::gelu_tanh},
                                                                           {"quick_gelu", Activation::quick_gelu},
                                                                           {"relu", Activation::relu},
                                                                           {"relu2", Activation::relu2},
                                                                           {"silu", Activation::silu},
                                                                           {"swish", Activation::silu},
                                                                           {"swiglu", Activation::silu},
                                                                           {"mish", Activation::mish},
                                                                           {"sigmoid", Activation::sigmoid},
                                                                           {"tanh", Activation::tanh}}};
  const std::string given = fields.text(field, otherwise);
  std::string known;
  for (const auto& [name, activation] : names) {
    if (given == name) return activation;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
  }
  fields.refuse(field, fmt::format("is '{}'; supported are {}", given, known));
}

std::int64_t labels_of(const Fields& fields, const Architecture& a) {
  const std::int64_t labels = fields.labels();
  const bool classifies = a.head == nn::Head::sequence_classification || a.head == nn::Head::token_classification;
  if (labels < 1 && classifies)
    fields.refuse(fields.has("id2label") ? "id2label" : "num_labels",
                  fmt::format("names no class; {} needs one or more", a.name));
  if (classifies && fields.has("num_labels") && fields.integer("num_labels") != labels)
    fields.refuse("num_labels",
                  fmt::format("is {}, and 'id2label' has {} names", fields.integer("num_labels"), labels));
  return std::max<std::int64_t>(labels, 1);
}

std::int64_t padding_row(const Fields& fields, std::int64_t vocabulary, std::int64_t otherwise) {
  if (fields.is_null("pad_token_id") || (otherwise < 0 && !fields.has("pad_token_id"))) return -1;
  if (vocabulary < 1) return -1; // the module refuses that in its own words
  const std::int64_t id = fields.integer("pad_token_id", otherwise), row = id < 0 ? id + vocabulary : id;
  if (row < 0 || row >= vocabulary)
    fields.refuse("pad_token_id", fmt::format("is {}, not one of {} ids", id, vocabulary));
  return row;
}

Tensor integers(const Tensors& inputs, std::string_view name) {
  Tensor t = find(inputs, name);
  if (!t.defined() || t.dtype() == DType::i64) return t;
  if (t.dtype() != DType::boolean && t.dtype() != DType::u8)
    throw DTypeError(fmt::format("{} must be i64, it is {}", name, name_of(t.dtype())));
  return t.to(DType::i64);
}

Tensor required(const Tensors& inputs, std::string_view name) {
  Tensor t = find(inputs, name);
  if (!t.defined()) throw ValueError(fmt::format("the input {} is missing", name));
  return t;
}

namespace {

std::unique_ptr<Model> made_of_fields(const Fields& fields, const nlohmann::json& config, RandomKey key,
                                      const data::TensorReader* weights) {
  if (!fields.has("model_type") && fields.has("architecture"))
    return timm_family.make({config, fields, key, weights}, timm_family.architectures.front());
  if (!fields.has("model_type")) fields.refuse("model_type", "is missing");
  const Family& family = family_named(fields.text("model_type", ""), fields);
  refuse_unread_fields(fields, family.name);
  return family.make({config, fields, key, weights}, architecture_of(family, fields));
}

} // namespace

std::unique_ptr<Model> make_model(const nlohmann::json& config, RandomKey key, const std::string& source,
                                  const data::TensorReader* weights) {
  // What the modules refuse in their own words is to be sought in the config.
  try {
    return made_of_fields(Fields(config, source), config, key, weights);
  } catch (const ValueError& error) {
    throw FileError(fmt::format("{}: {}", source, error.what()));
  } catch (const ShapeError& error) {
    throw FileError(fmt::format("{}: {}", source, error.what()));
  }
}

std::vector<std::pair<std::string, std::vector<std::string>>> supported() {
  std::vector<std::pair<std::string, std::vector<std::string>>> all;
  const auto add = [&](const Family& family) {
    all.emplace_back(family.name, std::vector<std::string>{});
    for (const Architecture& a : family.architectures) all.back().second.emplace_back(a.name);
  };
  for (const Family* family : families) add(*family);
  add(timm_family);
  return all;
}

} // namespace eg::hub
