#include "core/threads/parallel.h"
#include "data/loader.h"
#include "data_fixtures.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <numeric>
#include <thread>

using namespace eg;
using namespace eg::data;
using namespace eg::test;

namespace {

/// 23 RGB images of 6x5 pixels, no two alike.
ImageDataset small_set() {
  Bytes pixels;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 23; ++i) {
    labels.push_back(i % 4);
    for (int p = 0; p < 3 * 6 * 5; ++p) pixels.push_back(static_cast<std::uint8_t>((i * 11 + p * 7 + 1) % 256));
  }
  return {"small", 3, 6, 5, {"a", "b", "c", "d"}, std::move(pixels), std::move(labels)};
}

LoaderOptions augmented(int workers, int prefetch = 3) {
  LoaderOptions options;
  options.batch_size = 4;
  options.seed = 9;
  options.augmentation = {.crop_padding = 2, .horizontal_flip = true};
  options.workers = workers;
  options.prefetch = prefetch;
  return options;
}

bool same(const Batch& a, const Batch& b) {
  return a.epoch == b.epoch && a.batch == b.batch && a.indices == b.indices && same_bits(a.images, b.images) &&
         same_bits(a.labels, b.labels);
}

template <class E> std::string refusal(const LoaderOptions& options) {
  return message_of<E>([&] { const Loader loader(small_set(), options); });
}

} // namespace

TEST_CASE("loader: the same bits for any number of workers, in any order of asking") {
  Loader alone(small_set(), augmented(0));
  std::vector<Batch> expected;
  for (int i = 0; i < 20; ++i) expected.push_back(alone.next());
  CHECK(alone.batches_per_epoch() == 6);
  CHECK(expected[5].images.shape() == Shape{3, 3, 6, 5}); // 23 images: the last batch has three
  CHECK(expected[6].epoch == 1);
  for (const int workers : {1, 2, 3})
    for (const int prefetch : {1, 2, 8}) {
      CAPTURE(workers);
      CAPTURE(prefetch);
      Loader loader(small_set(), augmented(workers, prefetch));
      for (const Batch& batch : expected) CHECK(same(loader.next(), batch));
      CHECK(same(loader.batch(1, 3), expected[9]));
      loader.seek(0, 4);
      for (std::size_t i = 4; i < 12; ++i) CHECK(same(loader.next(), expected[i]));
      loader.seek(2, 0);
      CHECK(same(loader.next(), expected[12]));
    }
}

TEST_CASE("loader: every image once an epoch, in an order that the seed and epoch give") {
  Loader loader(small_set(), augmented(2));
  std::vector<std::vector<std::int64_t>> orders;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::int64_t> seen;
    for (std::int64_t b = 0; b < loader.batches_per_epoch(); ++b) {
      const Batch batch = loader.next();
      seen.insert(seen.end(), batch.indices.begin(), batch.indices.end());
      for (std::size_t i = 0; i < batch.indices.size(); ++i)
        CHECK(batch.labels.to_vector<std::int64_t>()[i] == loader.dataset().label(batch.indices[i]));
    }
    CHECK(seen == loader.order(epoch));
    orders.push_back(seen);
    std::sort(seen.begin(), seen.end());
    std::vector<std::int64_t> all(23);
    std::iota(all.begin(), all.end(), 0);
    CHECK(seen == all);
  }
  CHECK(orders[0] != orders[1]);
  LoaderOptions other = augmented(0);
  other.seed = 10;
  CHECK(Loader(small_set(), other).order(0) != orders[0]);
  other.shuffle = false;
  other.drop_last = true;
  Loader plain(small_set(), other);
  CHECK(plain.batches_per_epoch() == 5);
  CHECK(plain.next().indices == std::vector<std::int64_t>{0, 1, 2, 3});
}

TEST_CASE("loader: normalisation is (x / 255 - mean) / deviation, in both precisions") {
  const ImageDataset set = small_set();
  LoaderOptions options;
  options.shuffle = false;
  options.dtype = DType::f64;
  options.normalization = {{0.1, 0.2, 0.3}, {0.5, 0.25, 2.0}};
  const Batch wide = Loader(set, options).next();
  options.dtype = DType::f32;
  const Batch narrow = Loader(set, options).next();
  CHECK(wide.images.at({2, 1, 3, 4}) == (set.pixels(2)[30 + 3 * 5 + 4] / 255.0 - 0.2) / 0.25);
  CHECK(narrow.images.data<float>()[100] == static_cast<float>(wide.images.data<double>()[100]));
  options.normalization = Normalization::of(set);
  options.batch_size = 23;
  options.dtype = DType::f64;
  const std::vector<double> values = Loader(set, options).next().images.to_vector<double>();
  double sum = 0.0;
  double squares = 0.0;
  for (std::size_t i = 0; i < 23; ++i)
    for (std::size_t p = 30; p < 60; ++p) {
      sum += values[i * 90 + p];
      squares += values[i * 90 + p] * values[i * 90 + p];
    }
  CHECK(std::abs(sum / 690) < 1e-12);
  CHECK(std::abs(squares / 690 - 1.0) < 1e-12);
  CHECK(Normalization::standard(set).mean == std::vector<double>{0.5, 0.5, 0.5});
}

TEST_CASE("loader: crops and flips move pixels and nothing else") {
  const ImageDataset set = small_set();
  LoaderOptions options = augmented(0);
  options.normalization = Normalization::none(3);
  options.dtype = DType::f64;
  Loader loader(set, options);
  int mirrored = 0;
  int whole = 0;
  for (int n = 0; n < 60; ++n) {
    const Batch batch = loader.next();
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      const ByteView original = set.pixels(batch.indices[i]);
      int matches = 0;
      for (std::int64_t top = -2; top <= 2; ++top)
        for (std::int64_t left = -2; left <= 2; ++left)
          for (const bool mirror : {false, true}) {
            bool equal = true;
            for (std::int64_t p = 0; p < 90 && equal; ++p) {
              const std::int64_t y = p % 30 / 5 + top;
              const std::int64_t x = (mirror ? 4 - p % 5 : p % 5) + left;
              const bool within = y >= 0 && y < 6 && x >= 0 && x < 5;
              const int value = within ? original[static_cast<std::size_t>(p / 30 * 30 + y * 5 + x)] : 0;
              equal = batch.images.data<double>()[static_cast<std::int64_t>(i) * 90 + p] == value / 255.0;
            }
            if (!equal) continue;
            ++matches;
            mirrored += mirror ? 1 : 0;
            whole += top == 0 && left == 0 ? 1 : 0;
          }
      CHECK(matches == 1);
    }
  }
  CHECK(mirrored > 70); // of 230
  CHECK(mirrored < 160);
  CHECK(whole < 40);
}

TEST_CASE("loader: what a worker throws comes out of next(), at its batch") {
  LoaderOptions options = augmented(2);
  options.shuffle = false;
  options.transform = [](std::int64_t epoch, std::int64_t index, std::span<std::uint8_t>) {
    if (epoch == 0 && index == 9) throw ValueError("transform: image 9");
  };
  Loader loader(small_set(), options);
  CHECK(loader.next().batch == 0);
  CHECK(loader.next().batch == 1);
  CHECK(message_of<ValueError>([&] { loader.next(); }) == "transform: image 9");
  CHECK(loader.next().batch == 3);
}

TEST_CASE("loader: no more batches are made ahead than asked for, and it stops at once") {
  std::atomic<int> made{0};
  LoaderOptions options = augmented(3, 2);
  options.transform = [&](std::int64_t, std::int64_t, std::span<std::uint8_t>) { ++made; };
  {
    Loader loader(small_set(), options);
    loader.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK(made <= 3 * 4);
  }
  for (int i = 0; i < 20; ++i) const Loader unused(small_set(), options);
}

TEST_CASE("loader: options out of range are refused") {
  const auto with = [](auto change) {
    LoaderOptions options = augmented(0);
    change(options);
    return refusal<ValueError>(options);
  };
  CHECK(with([](auto& o) { o.batch_size = 0; }) == "loader: batch_size is 0; at least 1 is needed");
  CHECK(with([](auto& o) { o.workers = -1; }) == "loader: workers is -1; 0 to 256 are possible");
  CHECK(with([](auto& o) { o.prefetch = 0; }) == "loader: prefetch is 0; at least 1 is needed");
  CHECK(with([](auto& o) { o.dtype = DType::i64; }) == "loader: dtype is i64; images are f32 or f64");
  CHECK(with([](auto& o) { o.augmentation.crop_padding = 6; }) == "loader: crop_padding is 6; 0 to 5 are possible");
  CHECK(with([](auto& o) {
          o.normalization = {{0.5}, {0.5}};
        }) == "loader: normalization has 1 means and 1 deviations for 3 channels");
  CHECK(with([](auto& o) { o.normalization = {{0, 0, 0}, {1, 0, 1}}; }) == "loader: normalization: a deviation is 0");
  CHECK(with([](auto& o) {
          o.batch_size = 24;
          o.drop_last = true;
        }) == "loader: dataset small has 23 images; a batch needs 24");
  Loader loader(small_set(), augmented(0));
  CHECK(message_of<IndexError>([&] { loader.seek(0, 6); }) == "loader: epoch 0, batch 6: an epoch has 6 batches");
}
