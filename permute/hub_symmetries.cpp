#include "permute/hub_symmetries.h"

#include "core/meta.h"
#include "nn/hub/binding.h"
#include "nn/hub/small_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace eg::permute {

nn::StateDict file_tensors(const hub::Model& model, const nn::StateDict& parameters) {
  nn::StateDict files;
  for (const hub::Binding& b : model.bindings())
    for (const auto& [name, parameter] : parameters)
      if (name == b.parameter) files.emplace_back(b.file, hub::bound(parameter, b));
  return files;
}

ModelSymmetries symmetries_of(hub::Model& model, TensorNames names) {
  const MetaCallScope shapes_alone;
  SymmetryQuery query;
  query.parameters = model.module().state_dict();
  query.inputs = model.input_shapes(1);
  for (auto& [name, tensor] : query.inputs) {
    if (tensor.dtype() == DType::i64)
      query.data_axes.emplace_back(name, 1);
    else // images in the type that the model computes in
      tensor = Tensor::meta(tensor.shape(), query.parameters.front().second.dtype());
  }
  query.run = [&] { return model.forward(query.inputs); };
  if (names == TensorNames::files) query.shown = [&] { return file_tensors(model, query.parameters); };
  return ModelSymmetries(query);
}

NamedFunction function_of(hub::Model& model, TensorNames names) {
  return [&model, names, count = model.module().state_dict().size()](const nn::StateDict& leaves) {
    nn::StateDict parameters, inputs;
    std::vector<Tensor> list;
    for (const auto& [name, x] : leaves) {
      (parameters.size() < count ? parameters : inputs).emplace_back(name, x);
      if (list.size() < count) list.push_back(x);
    }
    const nn::ParameterScope scope(model.module(), list);
    nn::StateDict outputs = model.forward(inputs);
    if (names == TensorNames::files)
      for (auto& shown : file_tensors(model, parameters)) outputs.push_back(std::move(shown));
    return outputs;
  };
}

namespace {

/// The number of the layer that a tensor's name holds ("h.11.attn.c_attn.weight") made at most 1.
std::string in_first_layers(const std::string& name) {
  for (std::size_t begin = 0; begin < name.size(); begin = std::min(name.find('.', begin), name.size() - 1) + 1) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    std::int64_t layer = 0;
    const auto [stop, error] = std::from_chars(name.data() + begin, name.data() + end, layer);
    if (error == std::errc() && stop == name.data() + end)
      return layer < 2 ? name : fmt::format("{}1{}", name.substr(0, begin), name.substr(end));
  }
  return name;
}

/// What a group is apart from its sizes: its kind and its axes.
std::string form_of(const SymmetryGroup& g) {
  std::set<std::string> axes;
  for (const AxisUse& use : g.axes)
    axes.insert(fmt::format("{}:{}{}", in_first_layers(use.tensor), use.axis, use.whole ? "" : " in part"));
  return fmt::format("{}{} over {} groups: {}", name_of(g.kind), g.copies > 1 ? ", several copies" : "", g.over.size(),
                     fmt::join(axes, " "));
}

std::set<std::string> forms_of(const ModelSymmetries& symmetries) {
  std::set<std::string> forms;
  for (const SymmetryGroup& g : symmetries.groups()) forms.insert(form_of(g));
  return forms;
}

void require_same_groups(const ModelSymmetries& symmetries, const ModelSymmetries& small) {
  const std::set<std::string> wanted = forms_of(symmetries), found = forms_of(small);
  const auto missing_of = [](const std::set<std::string>& all, const std::set<std::string>& others) {
    for (const std::string& form : all)
      if (!others.contains(form)) return form;
    return std::string();
  };
  for (const auto& [form, who] :
       {std::pair{missing_of(wanted, found), "a small copy of it"}, std::pair{missing_of(found, wanted), "the model"}})
    if (!form.empty()) {
      constexpr std::size_t most = 200;
      throw SymmetryError(fmt::format("symmetries: {} has no group like {}{}", who, form.substr(0, most),
                                      form.size() > most ? " ..." : ""));
    }
}

} // namespace

Certificate certify(hub::Model& model, const ModelSymmetries& symmetries, TensorNames names, double tolerance) {
  constexpr RandomKey weights{0x5eed, 1}, texts{0x5eed, 2};
  const std::unique_ptr<hub::Model> small = hub::small_copy(model, weights);
  const ModelSymmetries own = symmetries_of(*small, names);
  require_same_groups(symmetries, own);
  nn::StateDict leaves = small->module().state_dict();
  for (const auto& [name, x] : hub::random_inputs(*small, texts)) leaves.emplace_back(name, x);
  return own.certify(function_of(*small, names), leaves, {.tolerance = tolerance});
}

} // namespace eg::permute
