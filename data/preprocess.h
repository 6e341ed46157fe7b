#pragma once
// Prepares images for a vision model of Hugging Face's: reads preprocessor_config.json and applies it.

#include "core/tensor.h"
#include "data/image.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace eg::data {

/// Height and width in pixels.
struct ImageSize {
  int height = 0;
  int width = 0;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

/// The steps of ViTImageProcessor, DeiTImageProcessor, BitImageProcessor and CLIPImageProcessor, in the order in which
/// they are done.
struct Preprocessing {
  bool convert_rgb = false; ///< grey becomes three equal channels, alpha is dropped

  bool resize = true;
  ImageSize size{224, 224};         ///< unless shortest_edge is given
  std::optional<int> shortest_edge; ///< of the result; the other edge keeps the ratio, rounded down
  PillowFilter resample = PillowFilter::bilinear;
  PillowOrder order = PillowOrder::by_size; ///< that of the Pillow that is to be matched

  bool center_crop = false; ///< zeros around the image where it is smaller
  ImageSize crop_size{224, 224};
  bool crop_to_even = false; ///< half pixels in front go to the even side, as torchvision's; else down

  bool rescale = true;
  double rescale_factor = 1.0 / 255.0;

  bool normalize = true;
  std::vector<double> mean{0.5, 0.5, 0.5};      ///< image_mean: one for each channel, or one for all
  std::vector<double> deviation{0.5, 0.5, 0.5}; ///< image_std

  std::string processor;            ///< image_processor_type, or "" when the file does not name it
  std::vector<std::string> ignored; ///< keys of the file that change nothing

  /// What an image of these extents is resized to.
  ImageSize resized(ImageSize image) const;
  /// What an image of these extents becomes.
  ImageSize result(ImageSize image) const;
};

/// Parses the text of a preprocessor_config.json (of a processor_config.json: its "image_processor"). Keys that are
/// missing, and null where that means "not given", take the defaults of the processor that the file names; without a
/// name it is ViTImageProcessor. Names of fast and of old processors (ViTImageProcessorFast, ViTFeatureExtractor) are
/// read as ViTImageProcessor: what preprocess() does is what the slow one does. Throws FileError that begins with
/// `source` and names the key for values of the wrong kind or range, for another processor, and for any key that is not
/// known to change nothing.
Preprocessing parse_preprocessing(std::string_view text, const std::string& source);
/// Reads a file.
Preprocessing read_preprocessing(const std::string& path);

/// The image as f32 [C, H, W]: resized with Pillow's bytes, cropped, pixel * rescale_factor in double and rounded to
/// f32, then (x - mean) / deviation in f32; bit for bit what transformers gives. Throws ValueError for an image without
/// pixels, with other than 1 or 3 channels (unless convert_rgb), with another number of channels than mean or deviation
/// have, and for results of more than 64 million pixels.
Tensor preprocess(const Image& image, const Preprocessing& steps);

} // namespace eg::data
