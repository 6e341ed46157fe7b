#include "cli/infer_images.h"

#include "core/error.h"
#include "core/ops.h"
#include "core/words.h"
#include "data/bytes.h"
#include "data/preprocess.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace eg::cli {
namespace {

std::string label(const nlohmann::json& config, std::int64_t id) {
  const auto names = config.find("id2label");
  const std::string key = fmt::format("{}", id);
  if (names != config.end() && names->is_object() && names->contains(key) && (*names)[key].is_string())
    return printable((*names)[key].get<std::string>());
  return fmt::format("class {}", id);
}

/// The five likeliest of one image's probabilities [classes].
std::string likeliest(const nlohmann::json& config, const Tensor& probabilities) {
  const std::vector<double> p = probabilities.to_vector<double>();
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(5, order.size()); ++i)
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", label(config, static_cast<std::int64_t>(order[i])),
                        100.0 * p[order[i]]);
  return text;
}

} // namespace

Tensor pixel_values(const std::string& folder, const std::vector<std::string>& files, DType dtype) {
  const data::Preprocessing steps = data::read_preprocessing(data::join_path(folder, "preprocessor_config.json"));
  std::vector<Tensor> all;
  for (const std::string& file : files) {
    Tensor pixels;
    try {
      pixels = data::preprocess(data::read_image(file), steps);
    } catch (const ValueError& error) {
      throw FileError(fmt::format("{}: {}", file, error.what()));
    }
    if (!all.empty() && !(pixels.shape() == all.front().shape()))
      throw FileError(fmt::format("{}: becomes {}, {} becomes {}", file, pixels.shape().str(), files.front(),
                                  all.front().shape().str()));
    all.push_back(pixels.to(dtype));
  }
  return stack(all, 0);
}

std::string classes_in_words(const hub::Model& model, const Tensor& logits, const std::vector<std::string>& files) {
  const Tensor p = softmax(logits.to(DType::f64), -1);
  std::string text;
  for (std::size_t i = 0; i < files.size(); ++i)
    text += fmt::format("{}: {}\n", printable(files[i]),
                        likeliest(model.config(), p.select(0, static_cast<std::int64_t>(i))));
  return text;
}

} // namespace eg::cli
