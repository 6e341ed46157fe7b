#pragma once
// Questions that every model is asked.

#include "autograd/check.h"
#include "core/ops.h"
#include "nn/module.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace eg::test {

/// Makes a model f64 and moves every parameter by random numbers: biases are not 0, norms not 1, nothing is symmetric.
inline void make_lively(nn::Module& model, double spread = 0.3, std::uint64_t seed = 71) {
  model.to(DType::f64);
  std::uint64_t tag = 0;
  for (nn::Parameter& p : model.named_parameters())
    p.value.copy_from(p.value +
                      random_normal(p.value.shape(), RandomKey{seed, 0}.fold(tag++), 0.0, spread, DType::f64));
}

/// gradcheck of y = forward(inputs) by the inputs and by every parameter of the model.
inline CheckResult gradcheck_model(const nn::Module& model, const std::vector<Tensor>& inputs,
                                   const std::function<Tensor(const std::vector<Tensor>&)>& forward,
                                   const GradcheckOptions& options = {}) {
  const auto f = [&](const std::vector<Tensor>& all) -> std::vector<Tensor> {
    const auto cut = all.begin() + static_cast<std::ptrdiff_t>(inputs.size());
    const std::vector<Tensor> parameters(cut, all.end());
    const nn::ParameterScope scope(model, parameters);
    return {forward({all.begin(), cut})};
  };
  std::vector<Tensor> all = inputs;
  for (const Tensor& p : model.parameters()) all.push_back(p);
  return gradcheck(f, all, options);
}

/// "name [shape]" of every parameter, in order.
inline std::vector<std::string> parameter_list(const nn::Module& model) {
  std::vector<std::string> list;
  for (const nn::Parameter& p : model.named_parameters()) list.push_back(p.name + " " + p.value.shape().str());
  return list;
}

} // namespace eg::test
