// preprocessor_config.json and what it does to images; fixtures: tests/golden/files/make.py (transformers, Pillow).

#include "data/preprocess.h"

#include "core/base/json.h"
#include "data_fixtures.h"

#include <bit>
#include <cmath>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace eg;
using namespace eg::data;
using namespace eg::test;
using nlohmann::json;

namespace {

const std::string folder = std::string(EQUIGRAD_SOURCE_DIR) + "/tests/golden/files/";

/// Pixel i is bits 13 to 20 of a multiple of i; `harsh` ones are 0 or 255, so that cubic weights overshoot.
Image picture(const json& shape) {
  Image image{shape[0], shape[1], shape[2], {}};
  const bool harsh = shape[3];
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(image.height * image.width * image.channels); ++i) {
    const std::uint32_t bits = (i * 2654435761U + 12345U) >> 13;
    image.pixels.push_back(static_cast<std::uint8_t>(harsh ? ((bits >> 5 & 1U) != 0 ? 255U : 0U) : bits & 255U));
  }
  return image;
}

std::uint32_t crc_of(const Tensor& t) { return crc32({reinterpret_cast<const std::uint8_t*>(t.bytes()), t.nbytes()}); }

Preprocessing parse(const std::string& text) { return parse_preprocessing(text, "p.json"); }
std::string refusal(const std::string& text) {
  return message_of<FileError>([&] { parse(text); });
}

} // namespace

TEST_CASE("preprocess: every filter of Pillow") {
  const json cases = read_json(folder + "pillow.json");
  CHECK(cases.size() == 13);
  int differ = 0;
  for (const json& c : cases)
    for (int code = 0; code < 6; ++code) {
      CAPTURE(c.dump());
      CAPTURE(code);
      const auto crc = [&](PillowOrder order) {
        const auto filter = static_cast<PillowFilter>(code);
        return crc32(resize_pillow(picture(c["picture"]), c["size"][0], c["size"][1], filter, order).pixels);
      };
      const auto at = static_cast<std::size_t>(code);
      CHECK(crc(PillowOrder::by_size) == c["by_size"][at].get<std::uint32_t>());
      CHECK(crc(PillowOrder::rows_first) == c["rows_first"][at].get<std::uint32_t>());
      differ += c["by_size"][at] == c["rows_first"][at] ? 0 : 1;
    }
  CHECK(differ > 10); // the orders can be told apart
}

TEST_CASE("preprocess: transformers' pixels, bit for bit") {
  const json cases = read_json(folder + "preprocess.json");
  CHECK(cases.size() == 29);
  for (const json& c : cases) {
    CAPTURE(c.dump());
    const Preprocessing steps = parse(c["config"].dump());
    const Image image = picture(c["picture"]);
    const Tensor out = preprocess(image, steps);
    REQUIRE(std::vector<std::int64_t>(out.shape().begin(), out.shape().end()) ==
            c["shape"].get<std::vector<std::int64_t>>());
    CHECK(steps.result({image.height, image.width}) ==
          ImageSize{static_cast<int>(out.size(1)), static_cast<int>(out.size(2))});
    const auto values = out.to_vector<float>();
    const std::size_t step = std::max<std::size_t>(1, values.size() / 5);
    for (std::size_t i = 0; i < c["some"].size(); ++i)
      CHECK(std::bit_cast<std::uint32_t>(values[i * step]) == c["some"][i].get<std::uint32_t>());
    CHECK(crc_of(out) == c["crc"].get<std::uint32_t>());
  }
}

TEST_CASE("preprocess: a step that is off by little gives other bits") {
  const json c = read_json(folder + "preprocess.json")[0];
  const Image image = picture(c["picture"]);
  const std::uint32_t right = c["crc"];
  Preprocessing steps = parse(c["config"].dump());
  CHECK(crc_of(preprocess(image, steps)) == right);
  const auto changed = [&](auto change) {
    Preprocessing other = steps;
    change(other);
    return crc_of(preprocess(image, other)) != right;
  };
  CHECK(changed([](Preprocessing& p) { p.mean[1] = std::nextafter(0.5F, 1.0F); }));
  CHECK(changed([](Preprocessing& p) { p.rescale_factor = 1.0F / 255.0F; })); // rounded to single precision
  CHECK(changed([](Preprocessing& p) { p.resample = PillowFilter::hamming; }));
  CHECK(changed([](Preprocessing& p) { std::swap(p.size.height, p.size.width), p.size.height -= 1; }));
}

TEST_CASE("preprocess: defaults, old names and what changes nothing") {
  const Preprocessing vit = parse("{}");
  CHECK(vit.processor.empty());
  CHECK(vit.size == ImageSize{224, 224});
  CHECK(vit.resample == PillowFilter::bilinear);
  CHECK_FALSE(vit.center_crop);
  const Preprocessing deit = parse(R"({"image_processor_type":"DeiTImageProcessorFast"})");
  CHECK(deit.size == ImageSize{256, 256});
  CHECK(deit.crop_size == ImageSize{224, 224});
  CHECK(deit.center_crop);
  CHECK(deit.resample == PillowFilter::bicubic);
  const Preprocessing clip = parse(R"({"feature_extractor_type":"CLIPFeatureExtractor"})");
  CHECK(clip.shortest_edge == 224);
  CHECK(clip.convert_rgb);
  CHECK(clip.mean[0] == 0.48145466);
  CHECK(clip.processor == "CLIPFeatureExtractor");
  const Preprocessing fast = parse(R"({"image_processor_type":"ViTImageProcessorFast","crop_size":null,"device":null,
    "data_format":"channels_first","default_to_square":true,"disable_grouping":null,"do_center_crop":null,"do_pad":null,
    "do_convert_rgb":null,"input_data_format":null,"processor_class":"X","return_tensors":null,"size":64,
    "do_flip_channel_order":false,"image_mean":null})");
  CHECK(fast.size == ImageSize{64, 64});
  CHECK(fast.mean == std::vector<double>{0.5, 0.5, 0.5});
  CHECK(fast.ignored == std::vector<std::string>{"device", "disable_grouping", "do_flip_channel_order", "do_pad",
                                                 "image_processor_type", "input_data_format", "processor_class",
                                                 "return_tensors"});
  CHECK(parse(R"({"image_processor":{"size":48},"tokenizer":{}})").size == ImageSize{48, 48});
}

TEST_CASE("preprocess: what is malformed, or would change the result, is refused by name") {
  CHECK(refusal(R"({"do_pad":true})") == "p.json: do_pad: is not known, and may change the result");
  CHECK(refusal(R"({"crop_pct":0.875})") == "p.json: crop_pct: is not known, and may change the result");
  CHECK(refusal(R"({"offset":1})") == "p.json: offset: is not known, and may change the result");
  CHECK(refusal(R"({"a\u001b[31mb":1})") == "p.json: a\\x1b[31mb: is not known, and may change the result");
  CHECK(refusal(R"({"do_center_crop":true})") == "p.json: do_center_crop: ViTImageProcessor does not crop");
  CHECK(refusal(R"({"image_processor_type":"ConvNextImageProcessor"})") ==
        "p.json: image_processor_type: 'ConvNextImageProcessor' is not known; ViTImageProcessor, DeiTImageProcessor, "
        "CLIPImageProcessor and BitImageProcessor are");
  CHECK(refusal(R"({"image_processor_type":3})") == "p.json: image_processor_type: is not a text");
  CHECK(refusal(R"({"data_format":"channels_last"})") == "p.json: data_format: only \"channels_first\" is made");
  CHECK(refusal(R"({"resample":6})") == "p.json: resample: is not a filter's code, 0 to 5");
  CHECK(refusal(R"({"resample":-1})") == "p.json: resample: is not a filter's code, 0 to 5");
  CHECK(refusal(R"({"resample":2.0})") == "p.json: resample: is not a filter's code, 0 to 5");
  CHECK(refusal(R"({"resample":null})") == "p.json: resample: is null, but the image shall be resized");
  CHECK(refusal(R"({"resample":null,"do_resize":false})").empty());
  CHECK(refusal(R"({"rescale_factor":null})") == "p.json: rescale_factor: is null, but the image shall be rescaled");
  CHECK(refusal(R"({"rescale_factor":"a"})") == "p.json: rescale_factor: is not a number");
  CHECK(refusal(R"({"do_resize":1})") == "p.json: do_resize: is neither true nor false");
  for (const char* size : {"0", "-1", "1.5", "20000", "18446744073709551616"})
    CHECK(refusal(std::string(R"({"size":)") + size + "}") ==
          "p.json: size: an edge is not a whole number from 1 to 16384");
  for (const char* size : {R"({"height":3})", R"({"height":3,"width":3,"x":3})", "[1]", "true", "\"a\"",
                           R"({"shortest_edge":3,"longest_edge":9})"})
    CHECK(refusal(std::string(R"({"size":)") + size + "}") ==
          "p.json: size: is neither a number, nor height and width, nor shortest_edge");
  CHECK(refusal(R"({"crop_size":{"shortest_edge":3}})") ==
        "p.json: crop_size: is neither a number, nor height and width");
  CHECK(refusal(R"({"image_mean":[]})") == "p.json: image_mean: is not a list of a number a channel");
  CHECK(refusal(R"({"image_mean":["a"]})") == "p.json: image_mean: is not a number");
  CHECK(refusal(R"({"image_std":[1,0,1]})") == "p.json: image_std: 0 divides nothing");
  CHECK(refusal("[]") == "p.json: not a JSON object");
  CHECK(refusal(R"({"image_processor":3})") == "p.json: image_processor: not a JSON object");
  CHECK(refusal(R"({"size":3,"size":4})") == "p.json: JSON key 'size' is given twice");
}

TEST_CASE("preprocess: images that do not fit are refused") {
  const auto words = [](const Image& image, const std::string& config) {
    return message_of<ValueError>([&] { preprocess(image, parse(config)); });
  };
  const Image grey = picture({4, 5, 1, false});
  CHECK(words(grey, "{}") == "preprocess: image_mean has 3 numbers, the image 1 channels");
  CHECK(words(grey, R"({"image_mean":0.5})") == "preprocess: image_std has 3 numbers, the image 1 channels");
  CHECK(words(grey, R"({"image_mean":0.5,"image_std":0.5})").empty());
  CHECK(words(picture({4, 5, 4, false}), "{}") == "preprocess: the image has 4 channels, not 1 or 3; decode it as RGB");
  CHECK(words({4, 4, 3, {1}}, "{}") == "preprocess: 4x4 pixels with 3 channels are not 1 bytes");
  CHECK(words({0, 4, 3, {}}, "{}") == "preprocess: 0x4 pixels with 3 channels are not 0 bytes");
  const Image line{1, 16384, 3, std::vector<std::uint8_t>(16384 * 3)};
  CHECK(words(line, R"({"image_processor_type":"CLIPImageProcessor"})") ==
        "preprocess: a resized image of 224x3670016 pixels; at least 1x1 and at most 64000000 pixels are made");
}
