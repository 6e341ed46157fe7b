// The fuzz targets on samples damaged in ways that a seed gives, so that every build runs them for a moment.

#include "core/random.h"
#include "data_fixtures.h"
#include "data_samples.h"
#include "fuzz/targets.h"
#include "fuzz/tokenizer_samples.h"

#include <algorithm>
#include <array>
#include <doctest/doctest.h>

using namespace eg;
using namespace eg::data;
using namespace eg::test;

namespace {

/// Values that readers stumble over.
constexpr std::array<std::uint8_t, 8> awkward{0x00, 0x01, 0x7F, 0x80, 0xFF, 0xC4, 0xDA, 0xD9};

void mutate_once(Bytes& bytes, RandomStream& random) {
  if (bytes.empty()) return bytes.push_back(static_cast<std::uint8_t>(random.next_u32()));
  const auto at = static_cast<std::size_t>(random.below(bytes.size()));
  const auto length = static_cast<std::size_t>(1 + random.below(std::min<std::size_t>(bytes.size() - at, 32)));
  const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  switch (random.below(6)) {
  case 0:
    *first ^= static_cast<std::uint8_t>(1U << random.below(8));
    break;
  case 1:
    *first = awkward[random.below(awkward.size())];
    break;
  case 2:
    bytes.erase(first, first + static_cast<std::ptrdiff_t>(length));
    break;
  case 3:
    bytes.resize(at);
    break;
  case 4: {
    const Bytes copy(first, first + static_cast<std::ptrdiff_t>(length));
    bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(random.below(bytes.size())), copy.begin(), copy.end());
    break;
  }
  default:
    for (std::size_t i = 0; i < std::min<std::size_t>(length, 4); ++i) bytes[at + i] = 0xFF;
  }
}

void run(const char* name, void (*target)(ByteView), const Bytes& sample, int rounds) {
  CAPTURE(name);
  RandomStream random({.seed = 20240607, .stream = sample.size()});
  target(sample);
  for (int round = 0; round < rounds; ++round) {
    Bytes bytes = sample;
    for (std::uint64_t n = 1 + random.below(4); n > 0; --n) mutate_once(bytes, random);
    CAPTURE(round);
    CHECK_NOTHROW(target(bytes));
  }
}

/// The sample with every PNG chunk's checksum made right again, so that damage reaches what lies behind it.
Bytes mended_png(Bytes bytes) {
  for (std::size_t at = 8; at + 12 <= bytes.size();) {
    const std::size_t length = static_cast<std::size_t>(bytes[at]) << 24 |
                               static_cast<std::size_t>(bytes[at + 1]) << 16 |
                               static_cast<std::size_t>(bytes[at + 2]) << 8 | bytes[at + 3];
    if (length > bytes.size() - at - 12) break;
    const std::uint32_t crc = crc32(ByteView(bytes).subspan(at + 4, length + 4));
    for (std::size_t i = 0; i < 4; ++i) bytes[at + 8 + length + i] = static_cast<std::uint8_t>(crc >> (24 - 8 * i));
    at += 12 + length;
  }
  return bytes;
}

void mended_image(ByteView bytes) { fuzz::image(mended_png({bytes.begin(), bytes.end()})); }

Bytes sample_png(int channels) {
  Image image{9, 11, channels, {}};
  for (int i = 0; i < 99 * channels; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * i));
  return encode_png(image);
}

Bytes sample_safetensors() {
  const TemporaryFolder folder;
  save_safetensors(folder.path("a"), {{"w", Tensor::ones({2, 3})}, {"b", Tensor::from<bool>({true, false}, {2})}},
                   {{"k", "v"}});
  return read_file(folder.path("a"));
}

Bytes golden(const std::string& name) { return read_file(EQUIGRAD_SOURCE_DIR "/tests/golden/files/" + name); }

} // namespace

TEST_CASE("fuzz: damaged tensor files are read or refused") {
  run("npy", fuzz::npy, golden("version2.npy"), 2000);
  run("npy in a file", fuzz::tensor_file, golden("version3.npy"), 1000);
  run("stored npz", fuzz::tensor_file, golden("stored.npz"), 1000);
  run("deflated npz", fuzz::tensor_file, golden("deflated.npz"), 1000);
  run("safetensors", fuzz::safetensors, golden("torch.safetensors"), 2000);
  run("safetensors in a file", fuzz::tensor_file, golden("torch.safetensors"), 1000);
  run("index", fuzz::tensor_index,
      text(
          R"({"metadata":{"total_size":24},"weight_map":{"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"}})"),
      1000);
  run("preprocessor", fuzz::preprocess,
      text(
          R"({"image_processor_type":"DeiTImageProcessor","size":{"height":9,"width":8},"crop_size":7,"resample":3,"image_mean":[0.5,0.4,0.3]})"),
      2000);
}

TEST_CASE("fuzz: the made-up index is read as it is") {
  CHECK_NOTHROW(fuzz::tensor_index(text(R"({"weight_map":{}})"))); // refused: the shards hold tensors that it lacks
  const fuzz::ScratchShards shards;
  shards.write_index(text(
      R"({"metadata":{"total_size":24},"weight_map":{"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"}})"));
  CHECK(open_tensors(shards.index()).tensors().size() == 3);
}

TEST_CASE("fuzz: damaged made-up samples are read or refused") {
  run("png", fuzz::image, sample_png(3), 300);
  run("png with checksums mended", mended_image, sample_png(3), 1000);
  run("grey png with checksums mended", mended_image, sample_png(1), 500);
  run("safetensors", fuzz::safetensors, sample_safetensors(), 2000);
  run("json", fuzz::json, text(R"({"a":[1,2.5e3,"x\u00e9",null,true],"b":{"c":-7}})"), 2000);
  run("tokenizer", fuzz::tokenizer, text(word_piece_json()), 500);
  run("byte-level tokenizer", fuzz::tokenizer, text(byte_pair_json()), 300);
  for (char chosen = 0; chosen < 5; ++chosen)
    run("text", fuzz::tokenizer_text,
        text(std::string(1, chosen) + "Hello, unaffable [SEP] <|end|> e\u0301\u4e2d don't  "), 500);
  run("idx", fuzz::idx, {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6}, 2000);
  run("gzip", fuzz::archive, gzip(tar({{"a/b.txt", text("words")}})), 500);
  run("xz", fuzz::archive, xz_sample(), 500);
  run("tar", fuzz::archive, tar({{"a/b.txt", text("words")}, {"c", Bytes(700, 1)}}), 1000);
  run("cifar records", fuzz::cifar_records, Bytes(2 * 3073, 3), 200);
}

TEST_CASE("fuzz: damaged real samples are read or refused") {
  const auto folder = data_or_skip("fuzz: damaged real samples are read or refused", "images");
  if (folder.empty()) return;
  for (const char* name : {"restarts.jpg", "16bit-qtables.jpg", "extraneous-data.jpg", "non-interleaved-mcu.jpg",
                           "progressive-missing-ac.jpg", "mozilla/jpg-progressive.jpg", "mozilla/jpg-cmyk-2.jpg"})
    run(name, fuzz::image, read_file((folder / "jpeg-valid" / name).string()), 400);
  for (const char* name : {"basi3p04.png", "tbbn3p08.png", "basn0g16.png", "basi6a08.png", "s01i3p01.png"})
    run(name, mended_image, read_file((folder / "pngsuite" / name).string()), 400);
}
