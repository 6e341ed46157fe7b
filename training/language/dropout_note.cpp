#include "training/language/dropout_note.h"

#include "training/language/classify.h"
#include "training/option.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string_view>

namespace eg::training {
namespace {

std::string text_of(const nlohmann::ordered_json& options, const char* key, const char* otherwise) {
  const auto found = options.find(key);
  return found != options.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

bool drops(const nlohmann::ordered_json& options, const char* key) {
  const auto found = options.find(key);
  return found != options.end() && found->is_number() && found->get<double>() > 0.0;
}

} // namespace

std::string dropout_note(const nlohmann::ordered_json& options) {
  const std::string model = text_of(options, "model", "vit"); // runs of `train vit` may not say so
  using Texts = ClassifyOptions;                              // other models' keys are the same
  const std::string mode = text_of(options, option_key(&Texts::permute), "none");
  // The fields of a factorization machine are back in their places where it drops some.
  if (mode == "none" || model == "difm") return {};
  std::string which;
  for (const char* key : {option_key(&Texts::dropout), option_key(&Texts::attention_dropout)})
    if (drops(options, key)) which += fmt::format("{}{} {}", which.empty() ? "" : " and ", key, options[key].dump());
  if (which.empty()) return {};
  return fmt::format(
      "masks of {} are drawn by place, so that this run (permute {}) and one that is not permuted differ by more "
      "than rounding; without dropout they are equal to rounding",
      which, mode);
}

} // namespace eg::training
