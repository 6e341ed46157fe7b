// Changes to pictures: Pillow's bytes, and what is drawn.

#include "core/base/json.h"
#include "core/ops.h"
#include "data/augment.h"
#include "data/loader.h"
#include "data/mix.h"
#include "support/message.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>

using namespace eg;
using namespace eg::data;
using namespace eg::test;

namespace {

/// That of tests/golden/augment.py.
Planes picture(std::int64_t channels) {
  Planes out{.channels = channels, .height = 17, .width = 23, .bytes = {}};
  out.bytes.resize(static_cast<std::size_t>(channels * out.plane_size()));
  for (std::uint32_t i = 0; i < out.bytes.size(); ++i) {
    const std::uint32_t byte = (i * 2654435761U + 12345U) >> 13 & 255U;
    const std::uint32_t pixel = i / static_cast<std::uint32_t>(channels);
    out.plane(i % static_cast<std::uint32_t>(channels))[pixel] = static_cast<std::uint8_t>(40U + byte * 160U / 255U);
  }
  return out;
}

using Change = std::function<void(Planes&, double)>;

const std::map<std::string, Change>& changes() {
  static const std::map<std::string, Change> table = {
      {"shear_x", shear_x},
      {"shear_y", shear_y},
      {"translate_x", [](Planes& p, double v) { translate_x(p, static_cast<std::int64_t>(v)); }},
      {"translate_y", [](Planes& p, double v) { translate_y(p, static_cast<std::int64_t>(v)); }},
      {"rotate", rotate},
      {"brightness", brightness},
      {"contrast", contrast},
      {"color", color},
      {"sharpness", sharpness},
      {"posterize", [](Planes& p, double v) { posterize(p, static_cast<int>(v)); }},
      {"solarize", [](Planes& p, double v) { solarize(p, static_cast<int>(v)); }},
      {"auto_contrast", [](Planes& p, double) { auto_contrast(p); }},
      {"equalize", [](Planes& p, double) { equalize(p); }},
  };
  return table;
}

/// 24 RGB images of 12 x 12, no two alike, of 3 classes.
ImageDataset small_set() {
  Bytes pixels;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 24; ++i) {
    labels.push_back(i % 3);
    for (int p = 0; p < 3 * 12 * 12; ++p) pixels.push_back(static_cast<std::uint8_t>((i * 37 + p * 11 + p / 12) % 256));
  }
  return {"small", 3, 12, 12, {"a", "b", "c"}, std::move(pixels), std::move(labels)};
}

LoaderOptions with(const Augmentation& augmentation, int workers) {
  LoaderOptions options;
  options.batch_size = 8;
  options.seed = 4;
  options.augmentation = augmentation;
  options.workers = workers;
  return options;
}

const Augmentation everything{.crop_padding = 2,
                              .horizontal_flip = true,
                              .crop_area = 0.3,
                              .randaugment = 14.0,
                              .randaugment_ops = 3,
                              .erasing = 0.5};

} // namespace

TEST_CASE("augment: every change makes Pillow's bytes") {
  const nlohmann::json golden = read_json(EQUIGRAD_SOURCE_DIR "/tests/golden/augment.json");
  std::set<std::string> seen;
  for (const nlohmann::json& call : golden["calls"]) {
    CAPTURE(call.dump());
    Planes changed = picture(call["channels"]);
    changes().at(call["op"])(changed, call["value"]);
    CHECK(crc32(changed.bytes) == call["crc32"].get<std::uint32_t>());
    seen.insert(call["op"].get<std::string>());
  }
  CHECK(seen.size() == changes().size());
}

TEST_CASE("augment: every change of RandAugment but the identity changes a picture, and sides differ") {
  for (int i = 0; i < augment_ops; ++i) {
    const auto op = static_cast<AugmentOp>(i);
    CAPTURE(name_of(op));
    Planes one = picture(3), other = picture(3), weak = picture(3);
    apply(op, one, 0.6, false);
    apply(op, other, 0.6, true);
    apply(op, weak, 0.0, false);
    CHECK((one.bytes == picture(3).bytes) == (op == AugmentOp::identity));
    const bool sided = op == AugmentOp::rotate || op == AugmentOp::color || i >= static_cast<int>(AugmentOp::contrast);
    CHECK((one.bytes == other.bytes) == !sided);
    const bool graded = op != AugmentOp::auto_contrast && op != AugmentOp::equalize;
    CHECK((weak.bytes == picture(3).bytes) == graded);
  }
}

TEST_CASE("augment: a crop of everything leaves the picture, one of a part is within it") {
  Planes whole = picture(3);
  resized_crop(whole, 0, 0, 17, 23);
  CHECK(whole.bytes == picture(3).bytes);
  Planes pixel = picture(1);
  resized_crop(pixel, 3, 5, 1, 1);
  CHECK(std::all_of(pixel.bytes.begin(), pixel.bytes.end(),
                    [](std::uint8_t v) { return v == picture(1).bytes[3 * 23 + 5]; }));
  CHECK(message_of<ValueError>([&] { resized_crop(pixel, 0, 20, 2, 4); }) ==
        "resized_crop: rows 0 to 2 and columns 20 to 24 are not within a picture of 17 x 23");
}

TEST_CASE("augment: erased rectangles are of the sizes asked for, as often as asked") {
  const Augmentation always{.erasing = 1.0};
  int most = 0, least = 1000;
  for (std::uint64_t i = 0; i < 200; ++i) {
    Planes erased{.channels = 1, .height = 40, .width = 40, .bytes = std::vector<std::uint8_t>(1600, 0)};
    RandomStream random({i, 0});
    augment(always, erased, random);
    std::int64_t top = 40, bottom = 0, left = 40, right = 0;
    for (std::int64_t at = 0; at < 1600; ++at)
      if (erased.bytes[static_cast<std::size_t>(at)] != 0) {
        top = std::min(top, at / 40), bottom = std::max(bottom, at / 40 + 1);
        left = std::min(left, at % 40), right = std::max(right, at % 40 + 1);
      }
    const auto area = static_cast<int>((bottom - top) * (right - left));
    most = std::max(most, area), least = std::min(least, area);
  }
  CHECK(most <= 560); // a third of 1600, and rounding of the sides
  CHECK(most > 400);
  CHECK(least < 100);
  CHECK(least >= 20);
}

TEST_CASE("augment: the same batches for any number of workers; others in another epoch") {
  Loader alone(small_set(), with(everything, 0));
  std::vector<Batch> expected;
  for (int i = 0; i < 6; ++i) expected.push_back(alone.next());
  for (const int workers : {1, 3}) {
    Loader loader(small_set(), with(everything, workers));
    for (const Batch& batch : expected) CHECK(same_bits(loader.next().images, batch.images));
  }
  const Loader plain(small_set(), with({}, 0));
  CHECK_FALSE(same_bits(plain.batch(0, 0).images, expected[0].images));
}

TEST_CASE("augment: what is out of range is refused") {
  const auto refusal = [](const Augmentation& a) {
    return message_of<ValueError>([&] { const Loader loader(small_set(), with(a, 0)); });
  };
  CHECK(refusal({.crop_padding = 13}) == "loader: crop_padding is 13; 0 to 12 are possible");
  CHECK(refusal({.crop_area = 1.5}) == "loader: crop_area is 1.5; 0 to 1 are possible");
  CHECK(refusal({.randaugment = 31}) == "loader: randaugment is 31; magnitudes from 0 to 30 are possible");
  CHECK(refusal({.randaugment_ops = 0}) == "loader: randaugment_ops is 0; 1 to 14 are possible");
  CHECK(refusal({.erasing = -0.5}) == "loader: erasing is -0.5; a probability is 0 to 1");
}

TEST_CASE("mixup: images and labels are blended in the same shares") {
  const Tensor images = random_normal({6, 2, 4, 5}, {1, 0}, 0.0, 1.0, DType::f64);
  const Tensor targets = one_hot(Tensor::arange(6), 6, DType::f64);
  const MixedBatch mixed = mix({.mixup = 1.0}, images, targets, {3, 0});
  for (std::int64_t i = 0; i < 6; ++i) {
    // Every image is its own label's, so that a row of targets says what was blended.
    const Tensor shares = mixed.targets.slice(0, i, i + 1).reshape({6, 1});
    const Tensor expected = sum(images.reshape({6, 40}) * shares, {0});
    CHECK(relative_error(mixed.images.slice(0, i, i + 1).reshape({40}), expected) < 1e-14);
    CHECK(sum(shares).item() == doctest::Approx(1.0));
  }
  CHECK(same_bits(mixed.images, mix({.mixup = 1.0}, images, targets, {3, 0}).images));
  CHECK_FALSE(same_bits(mixed.images, mix({.mixup = 1.0}, images, targets, {4, 0}).images));
}

TEST_CASE("cutmix: every pixel is of one of two images, in the shares of the targets") {
  std::vector<float> values;
  for (int i = 0; i < 4; ++i) values.insert(values.end(), 3 * 10 * 12, static_cast<float>(i));
  const Tensor images = Tensor::from<float>(values, {4, 3, 10, 12});
  const Tensor targets = one_hot(Tensor::arange(4), 4, DType::f32);
  bool pasted = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const MixedBatch mixed = mix({.cutmix = 1.0}, images, targets, {seed, 0});
    const std::vector<float> pixels = mixed.images.to_vector<float>(), shares = mixed.targets.to_vector<float>();
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t label = 0; label < 4; ++label) {
        const auto from = pixels.begin() + static_cast<std::ptrdiff_t>(i * 360);
        const auto count = std::count(from, from + 360, static_cast<float>(label));
        CHECK(static_cast<double>(count) / 360.0 == doctest::Approx(shares[i * 4 + label]).epsilon(1e-6));
        pasted = pasted || (label != i && count > 0);
      }
  }
  CHECK(pasted);
}

TEST_CASE("mix: both kinds are taken, by the key alone, and what cannot be mixed is refused") {
  const Tensor images = random_normal({4, 1, 8, 8}, {1, 0}), targets = one_hot(Tensor::arange(4), 4, DType::f32);
  int cut = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const MixedBatch mixed = mix({.mixup = 1.0, .cutmix = 1.0}, images, targets, {seed, 0});
    const std::vector<float> was = images.to_vector<float>(), is = mixed.images.to_vector<float>();
    cut +=
        std::all_of(is.begin(), is.end(), [&](float v) { return std::find(was.begin(), was.end(), v) != was.end(); });
  }
  CHECK(cut > 70);
  CHECK(cut < 140);
  CHECK(message_of<ValueError>([&] { mix({}, images, targets, {}); }) == "mix: neither mixup nor cutmix is asked for");
  CHECK(message_of<ShapeError>([&] { mix({.mixup = 1.0}, images, targets.slice(0, 0, 2), {}); }) ==
        "mix: images are [B, C, H, W] and targets [B, K]: images is [4, 1, 8, 8], targets is [2, 4]");
  CHECK(message_of<DTypeError>([&] { mix({.mixup = 1.0}, images, targets.to(DType::f64), {}); }) ==
        "mix: images and targets are f32 or f64 alike, not f32 and f64");
}

TEST_CASE("mix: Beta(alpha, alpha) has its mean and variance") {
  for (const double alpha : {0.2, 1.0, 5.0}) {
    CAPTURE(alpha);
    RandomStream random({11, 0});
    double sum = 0.0, squares = 0.0;
    constexpr int count = 20000;
    for (int i = 0; i < count; ++i) {
      const double x = random_beta(alpha, random);
      sum += x, squares += (x - 0.5) * (x - 0.5);
    }
    CHECK(sum / count == doctest::Approx(0.5).epsilon(0.02));
    CHECK(squares / count == doctest::Approx(1.0 / (4.0 * (2.0 * alpha + 1.0))).epsilon(0.03));
  }
}
