// Pictures that cannot be decoded: damage is named and counted where it may be skipped, want of memory is an error.

#include "cli/limit.h"
#include "cli/program.h"
#include "core/base/bytes.h"
#include "core/base/json.h"
#include "data/image.h"
#include "nn/hub/folder.h"
#include "nn/hub/model.h"

#include <algorithm>
#include <cstdint>
#include <doctest/doctest.h>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

using namespace eg;
using namespace eg::test;
using nlohmann::json;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true; // it reserves the address space itself
#else
constexpr bool sanitized = false;
#endif

constexpr rlim_t limit = rlim_t{900000} << 10; // what `ulimit -v 900000` sets

/// Bits of deflate data, the first one lowest.
class Bits {
public:
  /// As they stand: the first character is the first bit.
  void add(std::string_view bits) {
    for (const char bit : bits) {
      if (used_ % 8 == 0) bytes.push_back(0);
      if (bit == '1') bytes.back() |= static_cast<std::uint8_t>(1U << used_ % 8);
      ++used_;
    }
  }
  Bytes bytes;

private:
  std::size_t used_ = 0;
};

/// A zlib stream of `count` zeros: a literal, copies of 258 bytes from one byte back, more literals.
Bytes packed_zeros(std::uint64_t count) {
  Bits bits;
  bits.bytes = {0x78, 0x01};
  bits.add("110"); // the last block, of fixed codes
  bits.add("00110000");
  for (std::uint64_t i = 0; i < (count - 1) / 258; ++i) bits.add("1100010100000");
  for (std::uint64_t i = 0; i < (count - 1) % 258; ++i) bits.add("00110000");
  bits.add("0000000");
  const std::uint64_t adler = (count % 65521) << 16 | 1;
  for (const int shift : {24, 16, 8, 0}) bits.bytes.push_back(static_cast<std::uint8_t>(adler >> shift));
  return bits.bytes;
}

void add_number(Bytes& out, std::uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<std::uint8_t>(value >> shift));
}

void add_chunk(Bytes& out, std::string_view type, const Bytes& content) {
  add_number(out, static_cast<std::uint32_t>(content.size()));
  const std::size_t begin = out.size();
  out.insert(out.end(), type.begin(), type.end());
  out.insert(out.end(), content.begin(), content.end());
  add_number(out, crc32(ByteView(out).subspan(begin)));
}

/// A black PNG of 8000 x 8000 pixels, four channels of 16 bits each: half a gigabyte that packs to three megabytes.
Bytes large_png() {
  constexpr std::uint32_t side = 8000;
  Bytes header;
  add_number(header, side);
  add_number(header, side);
  header.insert(header.end(), {16, 6, 0, 0, 0});
  Bytes out{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  add_chunk(out, "IHDR", header);
  add_chunk(out, "IDAT", packed_zeros(std::uint64_t{side} * (1 + side * 8)));
  add_chunk(out, "IEND", {});
  return out;
}

/// Two classes of five small pictures.
void write_pets(const TemporaryFolder& folder) {
  for (const char* name : {"cat", "dog"}) {
    std::filesystem::create_directories(folder.path(std::string("pets/") + name));
    for (int i = 0; i < 5; ++i)
      write_file(folder.path("pets/" + std::string(name) + "/" + std::to_string(i) + ".png"),
                 data::encode_png({8, 8, 3, std::vector<std::uint8_t>(192, static_cast<std::uint8_t>(20 * i))}));
  }
}

std::vector<std::string> train_on_pets(const char* bad_images) {
  return {"train",    "vit", "--data",    "pets", "--bad-images", bad_images, "--size",  "8",
          "--steps",  "1",   "--batch",   "2",    "--dim",        "8",        "--heads", "1",
          "--layers", "1",   "--threads", "1",    "--quiet",      "--out",    "run"};
}

void check_memory_error(const Outcome& got, const std::string& file) {
  INFO(got.err);
  CHECK(got.code == 2);
  CHECK(got.err.find(file + ": ") != std::string::npos);
  CHECK(got.err.find("out of memory: ") != std::string::npos);
  CHECK(got.err.find(" more bytes could not be had") != std::string::npos);
  CHECK(got.err.find("this process may have 921.6 MB (ulimit -v raises it)") != std::string::npos);
  CHECK(std::count(got.err.begin(), got.err.end(), '\n') == 1);
}

} // namespace

TEST_CASE("train: pictures that are left out are named and counted") {
  const TemporaryFolder folder;
  write_pets(folder);
  std::filesystem::create_symlink("../annex/5.png", folder.path("pets/cat/5.png"));
  write_text(folder.path("pets/dog/5.png"), "GIF89a");
  const Outcome refused = run_program(train_on_pets("refuse"), folder.path());
  CHECK(refused.code == 2);
  CHECK(refused.err ==
        "equigrad: pets/cat/5.png: a link to ../annex/5.png, which is not there; --bad-images skip leaves "
        "such images out\n");
  const Outcome skipped = run_program(train_on_pets("skip"), folder.path());
  CHECK(skipped.code == 0);
  CHECK(skipped.err == "equigrad: pets/cat/5.png: a link to ../annex/5.png, which is not there; the image is skipped\n"
                       "equigrad: pets/dog/5.png: neither a PNG nor a JPEG image; the image is skipped\n"
                       "equigrad: pets: 2 images skipped among those to train, 8 are left\n");
}

TEST_CASE("train: a sound picture that memory is too small for is not skipped" * doctest::skip(sanitized)) {
  const TemporaryFolder folder;
  write_pets(folder);
  write_file(folder.path("pets/cat/large.png"), large_png());
  for (const char* bad : {"skip", "refuse"}) {
    const Limit addresses(RLIMIT_AS, limit);
    check_memory_error(run_program({"train",    "vit", "--data",    "pets", "--bad-images", bad,     "--size",  "8",
                                    "--steps",  "1",   "--batch",   "2",    "--dim",        "8",     "--heads", "1",
                                    "--layers", "1",   "--threads", "1",    "--quiet",      "--out", "run"},
                                   folder.path()),
                       "pets/cat/large.png");
    CHECK_FALSE(std::filesystem::exists(folder.path("run/metrics.jsonl")));
  }
}

TEST_CASE("infer: a picture that memory is too small for is not called corrupt" * doctest::skip(sanitized)) {
  const TemporaryFolder folder;
  const json config = {
      {"model_type", "vit"},      {"architectures", {"ViTModel"}}, {"hidden_size", 12}, {"num_hidden_layers", 1},
      {"num_attention_heads", 3}, {"intermediate_size", 10},       {"image_size", 8},   {"patch_size", 4}};
  hub::save_model(*hub::make_model(config, {1, 0}), folder.path("model"));
  write_json(folder.path("model/preprocessor_config.json"),
             json{{"image_processor_type", "ViTImageProcessor"}, {"size", {{"height", 8}, {"width", 8}}}});
  write_file(folder.path("large.png"), large_png());
  const std::vector<std::string> command = {"infer",     "--model", "model",     "--image",      "large.png",
                                            "--threads", "1",       "--outputs", "o.safetensors"};
  {
    const Limit addresses(RLIMIT_AS, limit);
    check_memory_error(run_program(command, folder.path()), "large.png");
  }
  const Outcome whole = run_program(command, folder.path());
  CHECK_MESSAGE(whole.code == 0, whole.err);
}
