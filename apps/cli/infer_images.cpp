#include "apps/cli/infer_images.h"

#include "core/base/error.h"
#include "core/base/out_of_memory.h"
#include "core/base/words.h"
#include "core/ops.h"
#include "data/preprocess.h"
#include "nn/hub/folder.h"
#include "nn/hub/timm.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace eg::cli {
namespace {

std::string label(const nlohmann::json& names, std::int64_t id) {
  const std::string key = fmt::format("{}", id);
  if (names.is_object() && names.contains(key) && names[key].is_string()) return names[key].get<std::string>();
  return fmt::format("class {}", id);
}

/// The five likeliest of one image's probabilities [classes].
std::vector<Classified::Class> likeliest(const nlohmann::json& names, const Tensor& probabilities) {
  const std::vector<double> p = probabilities.to_vector<double>();
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
  order.resize(std::min<std::size_t>(5, order.size()));
  std::vector<Classified::Class> classes;
  for (const std::size_t i : order) {
    const auto id = static_cast<std::int64_t>(i);
    classes.push_back({id, label(names, id), p[i]});
  }
  return classes;
}

/// Throws FileError where the folder normalises another number of channels than its model has.
void require_channels(const data::Preprocessing& steps, const std::string& folder, int channels) {
  if (!steps.normalize) return;
  const int made = steps.convert_rgb ? 3 : channels;
  for (const auto* values : {&steps.mean, &steps.deviation})
    if (std::ssize(*values) != 1 && std::ssize(*values) != made)
      throw FileError(fmt::format("{}: {} has {} numbers, and an image {} channels", hub::preprocessing_file(folder),
                                  values == &steps.mean ? "the mean" : "the standard deviation", values->size(), made));
}

} // namespace

Tensor pixel_values(const std::string& folder, const std::vector<std::string>& files, DType dtype,
                    const std::optional<std::pair<std::int64_t, std::int64_t>>& size) {
  data::Preprocessing steps = hub::preprocessing_of(folder);
  if (size) {
    steps.resize = true;
    steps.size = {static_cast<int>(size->first), static_cast<int>(size->second)};
    steps.shortest_edge.reset();
    steps.center_crop = false;
  }
  // As training reads them: grey becomes colour, transparency is left out.
  const int channels = hub::image_channels(hub::read_config(folder)) == 1 ? 1 : 3;
  require_channels(steps, folder, channels);
  std::vector<Tensor> all;
  for (const std::string& file : files) {
    Tensor pixels;
    try {
      pixels = naming_memory(file, [&] { return data::preprocess(data::read_image(file, channels), steps); });
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

std::vector<Classified> classified(const hub::Model& model, const Tensor& logits,
                                   const std::vector<std::string>& files) {
  const Tensor p = softmax(logits.to(DType::f64), -1);
  const nlohmann::json names = hub::class_names(model.config());
  std::vector<Classified> images;
  for (const std::string& file : files) {
    std::vector<Classified::Class> classes = likeliest(names, p.select(0, std::ssize(images)));
    if (std::any_of(classes.begin(), classes.end(), [](const auto& c) { return std::isnan(c.p); }))
      throw ValueError(fmt::format("{}: the model's logits hold NaN", file));
    images.push_back({file, std::move(classes)});
  }
  return images;
}

std::string in_words(const std::vector<Classified>& images) {
  std::string text;
  for (const Classified& image : images) {
    std::vector<std::string> classes;
    for (const auto& c : image.classes) classes.push_back(fmt::format("{} {:.1f} %", printable(c.label), 100.0 * c.p));
    text += fmt::format("{}: {}\n", printable(image.file), fmt::join(classes, ", "));
  }
  return text;
}

nlohmann::json as_json(const std::vector<Classified>& images) {
  nlohmann::json list = nlohmann::json::array();
  for (const Classified& image : images) {
    nlohmann::json classes = nlohmann::json::array();
    for (const auto& c : image.classes) classes.push_back({{"id", c.id}, {"label", c.label}, {"p", c.p}});
    list.push_back({{"file", image.file}, {"classes", std::move(classes)}});
  }
  return list;
}

} // namespace eg::cli
