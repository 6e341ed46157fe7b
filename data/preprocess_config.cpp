// preprocessor_config.json.

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/words.h"
#include "data/preprocess.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace eg::data {
namespace {

using nlohmann::json;

constexpr std::uint64_t max_file = 1 << 20;
constexpr int max_side = ImageLimits{}.side;

/// What a processor does by default.
struct Defaults {
  std::string_view name;
  bool square; ///< a size that is one number is both edges, not the shorter one
  int size;
  PillowFilter resample;
  bool crops; ///< it has do_center_crop
  bool convert_rgb;
  std::array<double, 3> mean;
  std::array<double, 3> std;
};

constexpr std::array<double, 3> half{0.5, 0.5, 0.5};
constexpr std::array<double, 3> clip_mean{0.48145466, 0.4578275, 0.40821073};
constexpr std::array<double, 3> clip_std{0.26862954, 0.26130258, 0.27577711};

// transformers 4.57, models/*/image_processing_*.py. BiT crops and resizes as CLIP does.
constexpr std::array processors{
    Defaults{"ViT", true, 224, PillowFilter::bilinear, false, false, half, half},
    Defaults{"DeiT", true, 256, PillowFilter::bicubic, true, false, half, half},
    Defaults{"CLIP", false, 224, PillowFilter::bicubic, true, true, clip_mean, clip_std},
    Defaults{"Bit", false, 224, PillowFilter::bicubic, true, true, clip_mean, clip_std},
};

/// Keys that do not concern the pixels, whatever their value.
constexpr std::array<std::string_view, 8> harmless{"image_processor_type", "feature_extractor_type", "processor_class",
                                                   "_processor_class",     "_valid_processor_keys",  "_name_or_path",
                                                   "transformers_version", "return_tensors"};

/// Reads one object key by key and remembers which were looked at.
class Reader {
public:
  Reader(const json& object, const std::string& source) : object_(object), source_(source) {}

  [[noreturn]] void fail(std::string_view key, std::string_view reason) const {
    throw FileError(fmt::format("{}: {}: {}", source_, printable(key), reason));
  }

  Preprocessing read() {
    const Defaults& defaults = processor();
    Preprocessing p;
    p.convert_rgb = flag("do_convert_rgb", defaults.convert_rgb);
    read_resize(p, defaults);
    read_crop(p, defaults);
    p.rescale = flag("do_rescale", true);
    p.rescale_factor = number("rescale_factor", p.rescale_factor, p.rescale);
    p.normalize = flag("do_normalize", true);
    p.mean = numbers("image_mean", defaults.mean);
    p.deviation = numbers("image_std", defaults.std);
    for (const double value : p.deviation)
      if (static_cast<float>(value) == 0.0F)
        fail("image_std", fmt::format("{} divides nothing{}", value, value == 0.0 ? "" : " in f32"));
    require_finite_pixels(p);
    check_fixed("data_format", "channels_first");
    refuse_others(p);
    p.processor = processor_;
    return p;
  }

private:
  /// The brightest and the darkest pixel stay numbers in f32.
  void require_finite_pixels(const Preprocessing& p) const {
    const auto brightest = static_cast<float>(p.rescale ? 255.0 * p.rescale_factor : 255.0);
    if (!std::isfinite(brightest)) fail("rescale_factor", "makes pixels that are not finite in f32");
    if (!p.normalize) return;
    for (std::size_t c = 0; c < std::max(p.mean.size(), p.deviation.size()); ++c) {
      const auto of = [c](const std::vector<double>& values) {
        return static_cast<float>(values[std::min(c, values.size() - 1)]);
      };
      for (const float pixel : {0.0F, brightest})
        if (!std::isfinite((pixel - of(p.mean)) / of(p.deviation)))
          fail("image_std", "makes pixels that are not finite in f32");
    }
  }

  /// The value under a key; nullptr when it is missing or null.
  const json* find(std::string_view key) {
    seen_.push_back(key);
    const auto at = object_.find(std::string(key));
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }

  const Defaults& processor() {
    for (const char* key : {"image_processor_type", "feature_extractor_type"}) {
      const json* value = find(key);
      if (value == nullptr) continue;
      if (!value->is_string()) fail(key, "is not a text");
      processor_ = value->get<std::string>();
      for (const Defaults& known : processors)
        for (const char* ending : {"ImageProcessor", "ImageProcessorFast", "FeatureExtractor"})
          if (processor_ == std::string(known.name) + ending) return known;
      fail(key, fmt::format("'{}' is not known; ViTImageProcessor, DeiTImageProcessor, CLIPImageProcessor and "
                            "BitImageProcessor are",
                            printable(processor_)));
    }
    return processors.front();
  }

  void read_resize(Preprocessing& p, const Defaults& defaults) {
    p.resize = flag("do_resize", true);
    const bool square = flag("default_to_square", defaults.square);
    if (const json* value = find("size")) {
      read_size("size", *value, square, p.size, &p.shortest_edge);
    } else if (defaults.square) {
      p.size = {defaults.size, defaults.size};
    } else {
      p.shortest_edge = defaults.size;
    }
    p.resample = defaults.resample;
    const auto at = object_.find("resample");
    if (const json* value = find("resample")) {
      if (!value->is_number_integer() || *value < 0 || *value > 5) fail("resample", "is not a filter's code, 0 to 5");
      p.resample = static_cast<PillowFilter>(value->get<int>());
    } else if (at != object_.end() && p.resize) {
      fail("resample", "is null, but the image shall be resized");
    }
  }

  void read_crop(Preprocessing& p, const Defaults& defaults) {
    p.center_crop = flag("do_center_crop", defaults.crops);
    if (p.center_crop && !defaults.crops)
      fail("do_center_crop", fmt::format("{}ImageProcessor does not crop", defaults.name));
    if (const json* value = find("crop_size")) read_size("crop_size", *value, true, p.crop_size, nullptr);
  }

  void read_size(const char* key, const json& value, bool square, ImageSize& size, std::optional<int>* shortest) {
    if (value.is_number()) {
      const int edge = side(key, value);
      if (square || shortest == nullptr)
        size = {edge, edge};
      else
        *shortest = edge;
    } else if (value.is_array() && value.size() == 2) {
      size = {side(key, value[0]), side(key, value[1])};
    } else if (value.is_object() && value.size() == 2 && value.contains("height") && value.contains("width")) {
      size = {side(key, value["height"]), side(key, value["width"])};
    } else if (shortest != nullptr && value.is_object() && value.size() == 1 && value.contains("shortest_edge")) {
      *shortest = side(key, value["shortest_edge"]);
    } else {
      fail(key, shortest != nullptr ? "is neither a number, nor height and width, nor shortest_edge"
                                    : "is neither a number, nor height and width");
    }
  }

  int side(const char* key, const json& value) const {
    if (!value.is_number_integer() || value < 1 || value > max_side)
      fail(key, fmt::format("an edge is not a whole number from 1 to {}", max_side));
    return value.get<int>();
  }

  bool flag(const char* key, bool otherwise) {
    const auto at = object_.find(key);
    const json* value = find(key);
    if (value == nullptr) return at == object_.end() && otherwise; // null is false, as in Python
    if (!value->is_boolean()) fail(key, "is neither true nor false");
    return value->get<bool>();
  }

  double number(const char* key, double otherwise, bool needed) {
    const auto at = object_.find(key);
    const json* value = find(key);
    if (value == nullptr) {
      if (at != object_.end() && needed) fail(key, "is null, but the image shall be rescaled");
      return otherwise;
    }
    return finite(key, *value);
  }

  double finite(const char* key, const json& value) const {
    if (!value.is_number()) fail(key, "is not a number");
    if (!std::isfinite(value.get<float>())) fail(key, "is beyond what f32 holds");
    return value.get<double>();
  }

  std::vector<double> numbers(const char* key, const std::array<double, 3>& otherwise) {
    const json* value = find(key);
    if (value == nullptr) return {otherwise.begin(), otherwise.end()};
    if (value->is_number()) return {finite(key, *value)};
    if (!value->is_array() || value->empty() || value->size() > 4) fail(key, "is not a list of a number a channel");
    std::vector<double> list;
    for (const json& item : *value) list.push_back(finite(key, item));
    return list;
  }

  void check_fixed(const char* key, const char* only) {
    const json* value = find(key);
    if (value != nullptr && *value != only) fail(key, fmt::format("only \"{}\" is made", only));
  }

  /// Keys that were not read: those that change nothing are kept by name.
  void refuse_others(Preprocessing& p) const {
    for (const auto& [key, value] : object_.items()) {
      const bool known = std::find(harmless.begin(), harmless.end(), key) != harmless.end();
      if (!known && std::find(seen_.begin(), seen_.end(), key) != seen_.end()) continue;
      // What is off changes nothing, whatever it would do.
      if (!known && !value.is_null() && value != false) fail(key, "is not known, and may change the result");
      p.ignored.push_back(key);
    }
  }

  const json& object_;
  const std::string& source_;
  std::string processor_;
  std::vector<std::string_view> seen_;
};

} // namespace

Preprocessing parse_preprocessing(std::string_view text, const std::string& source) {
  const json whole = parse_json(text, source);
  if (!whole.is_object()) throw FileError(source + ": not a JSON object");
  const auto nested = whole.find("image_processor");
  if (nested == whole.end()) return Reader(whole, source).read();
  if (!nested->is_object()) throw FileError(source + ": image_processor: not a JSON object");
  return Reader(*nested, source).read();
}

Preprocessing read_preprocessing(const std::string& path) {
  const Bytes bytes = read_file(path, max_file);
  return parse_preprocessing({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

} // namespace eg::data
