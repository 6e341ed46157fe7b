#pragma once
// Declares the factories of the model families and what they share. Not for users: they call make_model.

#include "nn/heads.h"
#include "nn/hub/fields.h"
#include "nn/hub/model.h"
#include "nn/vit.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eg::hub {

/// What a maker is given.
struct Request {
  const nlohmann::json& config;
  const Fields& fields;
  RandomKey key;
  const data::TensorReader* weights; ///< the files to be read, or nullptr when there are none yet

  /// The file holds a tensor whose name ends like this, or there is no file yet.
  bool has(std::string_view ending) const;
  /// Throws FileError when there are more blocks than tensors, or `layers` blocks and matrices of `rows` rows of
  /// block.dim numbers (embeddings, classifiers) are far more than the files hold.
  void need_room(const nn::BlockConfig& block, std::int64_t layers, double rows) const;
};

/// One class of transformers.
struct Architecture {
  const char* name;
  nn::Head head;
  const char* prefix;     ///< before the base model's names
  const char* classifier; ///< the head's layer in files; nullptr: none
};

/// One model_type.
struct Family {
  const char* name;
  std::span<const Architecture> architectures;
  std::unique_ptr<Model> (*make)(const Request& request, const Architecture& architecture);
};

extern const Family bert_family, gpt2_family, llama_family, vit_family, deit_family;
extern const Family timm_family; ///< configs without model_type

/// Rows for the settings that transformers calls hidden_act and the like. Throws FileError for an unknown one.
nn::Activation activation_of(const Fields& fields, const char* field, const char* otherwise);
/// How many classes a head has (Fields::labels), 1 or more. Throws FileError for a classifier of none, and for one
/// whose id2label and num_labels differ: versions of transformers differ in which they believe.
std::int64_t labels_of(const Fields& fields, const Architecture& architecture);
/// The row of a vocabulary that pad_token_id means where embeddings count from the end too (-1: the last), as torch's
/// padding_idx does; -1 where there is no padding: the field is null, or absent and `otherwise` is -1.
std::int64_t padding_row(const Fields& fields, std::int64_t vocabulary, std::int64_t otherwise);
/// The sum of unchecked sizes.
inline double sum_of(std::initializer_list<std::int64_t> sizes) {
  double sum = 0.0;
  for (const std::int64_t size : sizes) sum += static_cast<double>(size);
  return sum;
}
/// Rows of dim numbers in a vision transformer beside its blocks; sizes need not have been checked.
double rows_of(const nn::VitConfig& config);
/// The named input as i64 (i64 as it is); undefined when it is missing.
Tensor integers(const Tensors& inputs, std::string_view name);
/// The same that has to be there. Throws ValueError.
Tensor required(const Tensors& inputs, std::string_view name);

/// A model with a module of type M and a config of type C.
template <class M> class ModelOf : public Model {
public:
  nn::Module& module() override { return model_; }
  const nn::Blocks& blocks() const override { return model_.blocks; }

protected:
  template <class C>
  ModelOf(const Request& request, const Family& family, const Architecture& architecture, const C& config)
      : model_(config, request.key) {
    family_ = family.name;
    architecture_ = architecture.name;
    prefix_ = architecture.prefix;
    config_ = std::make_shared<nlohmann::json>(request.config);
  }
  /// Binds the base model's rules behind the prefix and the head's without it.
  void name_tensors(std::span<const NameRule> base, std::span<const NameRule> heads, const char* classifier,
                    const FusedRows& fused) {
    const nn::StateDict state = model_.state_dict();
    bindings_ = bindings_of(base, state, fused, prefix_);
    for (Binding& b : bindings_) b.head = b.parameter.starts_with("pooler.");
    const auto add_head = [&](std::span<const NameRule> rules) {
      for (Binding& b : bindings_of(rules, state, fused, "")) bindings_.emplace_back(std::move(b)).head = true;
    };
    add_head(heads);
    if (classifier == nullptr) return;
    const NameRule rule{classifier, "classifier"};
    add_head({&rule, 1});
  }
  M model_;
};

} // namespace eg::hub
