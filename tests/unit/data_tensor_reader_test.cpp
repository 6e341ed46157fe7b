// The door to tensor files: mapping, widening, folders.

#include "data/tensor_reader.h"

#include "core/base/input_file.h"
#include "core/memory/allocator.h"
#include "core/random.h"
#include "data/safetensors.h"
#include "data_fixtures.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <limits>

using namespace eg;
using namespace eg::data;
using namespace eg::test;

namespace {

/// A file whose header is padded to `header_bytes`, so that its data begin where a test wants them.
void write_safetensors(const std::string& path, std::string header, std::size_t header_bytes, const Bytes& data) {
  REQUIRE(header.size() <= header_bytes);
  header.resize(header_bytes, ' ');
  Bytes bytes(8);
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.insert(bytes.end(), data.begin(), data.end());
  write_file(path, bytes);
}

template <class T> Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::size_t live() { return allocator::stats().live_bytes; }

} // namespace

TEST_CASE("tensor reader: large tensors are mapped, and writing to them leaves the file and other readers alone") {
  const TemporaryFolder folder;
  const std::string path = folder.path("w.safetensors");
  const Tensor weight = random_normal({300, 200}, {.seed = 3});
  const Tensor bias = random_normal({200}, {.seed = 4});
  save_safetensors(path, {{"weight", weight}, {"bias", bias}});
  const Bytes before = read_file(path);
  const TensorReader reader = open_tensors(path);
  CHECK(reader.format() == "safetensors");
  CHECK(reader.path() == path);
  CHECK(reader.bytes() == 240800);
  REQUIRE(reader.find("weight") != nullptr);
  CHECK(reader.find("weight")->dims == std::vector<std::int64_t>{300, 200});
  CHECK(reader.find("weigh") == nullptr);

  const std::size_t base = live();
  Tensor mapped = reader.read("weight");
  CHECK(live() == base); // nothing was allocated for it
  CHECK(same_bits(mapped, weight));
  Tensor copied = reader.read("weight", {.map = false});
  CHECK(live() >= base + 240000); // the negative control
  Tensor small = reader.read("bias");
  CHECK(live() > base + 240000);
  mapped.fill(1.5); // what an optimiser does
  small.fill(2.5);
  copied.fill(3.5);
  CHECK(mapped.at({299, 199}) == 1.5);
  CHECK(same_bits(reader.read("weight"), weight));
  CHECK(same_bits(reader.read("bias"), bias));
  CHECK(read_file(path) == before);
}

TEST_CASE("tensor reader: mapped tensors outlive the reader, the file's name and a save over it") {
  const TemporaryFolder folder;
  const std::string path = folder.path("w.safetensors");
  const Tensor weight = random_normal({128, 130}, {.seed = 5});
  save_safetensors(path, {{"weight", weight}});
  Tensor mapped = open_tensors(path).read("weight");
  save_safetensors(path, {{"weight", mapped}, {"more", Tensor::ones({20000})}}); // onto the file that it reads from
  CHECK(same_bits(mapped, weight));
  CHECK(same_bits(open_tensors(path).read("weight"), weight));
  const TensorReader reader = open_tensors(path);
  std::filesystem::remove(path);
  CHECK(same_bits(reader.read("weight"), weight));
  CHECK(same_bits(mapped, weight));
}

TEST_CASE("tensor reader: elements that do not begin at a multiple of their size are copied") {
  const TemporaryFolder folder;
  const std::string path = folder.path("w.safetensors");
  std::vector<float> values(20000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.5F;
  const std::string header = R"({"w":{"dtype":"F32","shape":[20000],"data_offsets":[0,80000]}})";
  for (const std::size_t pad : {0U, 1U, 2U, 3U, 4U, 8U}) {
    CAPTURE(pad);
    write_safetensors(path, header, 64 + pad, bytes_of(values));
    const std::size_t base = live();
    const Tensor w = open_tensors(path).read("w");
    CHECK(w.to_vector<float>() == values);
    CHECK(reinterpret_cast<std::uintptr_t>(w.bytes()) % 4 == 0);
    CHECK((live() == base) == (pad % 4 == 0));
  }
}

TEST_CASE("tensor reader: a file that shrank is an error when its values are read") {
  const TemporaryFolder folder;
  const std::string path = folder.path("w.safetensors");
  save_safetensors(path, {{"w", Tensor::ones({100000})}});
  const TensorReader reader = open_tensors(path);
  std::filesystem::resize_file(path, 1000);
  CHECK(message_of<FileError>([&] { reader.read("w", {.map = false}); }) ==
        path + ": ended at byte 1000 while being read");
}

TEST_CASE("tensor reader: names and places that do not exist") {
  const TemporaryFolder folder;
  const std::string path = folder.path("w.safetensors");
  save_safetensors(path, {{"w", Tensor::ones({2})}});
  const TensorReader reader = open_tensors(path);
  CHECK(message_of<ValueError>([&] { reader.read("v"); }) == path + ": there is no tensor 'v'");
  CHECK(message_of<IndexError>([&] { reader.read(1); }) == path + ": tensor 1 of 1 does not exist");
  CHECK(reader.read(0).at({1}) == 1.0);
}

TEST_CASE("tensor reader: half precision is converted exactly") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float got = half_to_float(static_cast<std::uint16_t>(bits));
    const std::uint32_t exponent = bits >> 10 & 31U;
    const std::uint32_t fraction = bits & 1023U;
    const bool negative = (bits & 0x8000U) != 0;
    if (exponent == 31 && fraction != 0) {
      REQUIRE(std::isnan(got));
      REQUIRE((std::bit_cast<std::uint32_t>(got) & 0x7FFFFFU) == fraction << 13);
    } else {
      double wanted =
          exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0 + fraction, static_cast<int>(exponent) - 25);
      if (exponent == 31) wanted = std::numeric_limits<double>::infinity();
      REQUIRE(static_cast<double>(got) == (negative ? -wanted : wanted));
    }
    REQUIRE(std::signbit(got) == negative);
  }
}

TEST_CASE("tensor reader: types that tensors do not have are widened when asked, and refused otherwise") {
  const TemporaryFolder folder;
  const std::string path = folder.path("w.safetensors");
  const auto one = [&](const std::string& type, std::size_t bits, const Bytes& data) {
    const std::size_t count = data.size() * 8 / bits;
    write_safetensors(path,
                      R"({"t":{"dtype":")" + type + R"(","shape":[)" + std::to_string(count) +
                          R"(],"data_offsets":[0,)" + std::to_string(data.size()) + "]}}",
                      80, data);
    return open_tensors(path);
  };
  const auto wide = [](const TensorReader& reader) { return reader.read("t", {.widen = true}); };
  const auto refusal = [&](const TensorReader& reader, bool widen) {
    return message_of<FileError>([&] { reader.read("t", {.widen = widen}); });
  };
  const std::string front = path + ": tensor 't': ";
  const TensorReader half = one("F16", 16, bytes_of<std::uint16_t>({0x3C00, 0xC500, 0x0001, 0x7BFF}));
  CHECK(wide(half).to_vector<float>() == std::vector<float>{1.0F, -5.0F, 0x1p-24F, 65504.0F});
  CHECK(refusal(half, false) == front + "dtype F16 is read as f32 only, and only when asked to widen");
  const TensorReader brain = one("BF16", 16, bytes_of<std::uint16_t>({0x3F80, 0xC0A0}));
  CHECK(brain.read("t").dtype() == DType::bf16);
  CHECK(wide(brain).to_vector<float>() == std::vector<float>{1.0F, -5.0F});
  const std::vector<std::int64_t> small{-7, 0, 5};
  CHECK(wide(one("I8", 8, bytes_of<std::int8_t>({-7, 0, 5}))).to_vector<std::int64_t>() == small);
  CHECK(wide(one("I16", 16, bytes_of<std::int16_t>({-7, 0, 5}))).to_vector<std::int64_t>() == small);
  CHECK(wide(one("I32", 32, bytes_of<std::int32_t>({-7, 0, 5}))).to_vector<std::int64_t>() == small);
  CHECK(wide(one("U16", 16, bytes_of<std::uint16_t>({65535}))).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{65535});
  CHECK(wide(one("U32", 32, bytes_of<std::uint32_t>({4294967295U}))).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{4294967295});
  const std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK(wide(one("U64", 64, bytes_of<std::uint64_t>({most}))).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::max()});
  CHECK(refusal(one("U64", 64, bytes_of<std::uint64_t>({1, most + 1})), true) ==
        front + "a U64 value is beyond 2^63 - 1");
  CHECK(refusal(one("BOOL", 8, {0, 2}), true) == front + "a BOOL value is neither 0 nor 1");
  for (const char* type : {"F8_E4M3", "F8_E5M2", "F8_E8M0", "C64", "F4"}) {
    const TensorReader reader = one(type,
                                    std::string(type) == "C64"       ? 64
                                    : *type == 'F' && type[1] == '4' ? 4
                                                                     : 8,
                                    Bytes(8));
    const std::string words = front + "dtype " + type + " is not read; F64, F32, F16, BF16, BOOL and whole numbers are";
    CHECK(refusal(reader, true) == words);
    CHECK(refusal(reader, false) == words);
  }
}

TEST_CASE("tensor reader: a long half-precision tensor is converted piece by piece") {
  const TemporaryFolder folder;
  const std::string path = folder.path("w.safetensors");
  std::vector<std::uint16_t> halves(600'001); // three pieces
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i * 7 % 31744);
  write_safetensors(path, R"({"t":{"dtype":"F16","shape":[600001],"data_offsets":[0,1200002]}})", 81, bytes_of(halves));
  const Tensor t = open_tensors(path).read("t", {.widen = true});
  const float* values = t.data<float>();
  bool same = true;
  for (std::size_t i = 0; i < halves.size(); ++i) same = same && values[i] == half_to_float(halves[i]);
  CHECK(same);
  CHECK(same_bits(load_safetensors(path, {.widen = true}).tensors[0].second, t));
}

TEST_CASE("tensor reader: folders") {
  const TemporaryFolder folder;
  const std::string path = folder.path("m");
  std::filesystem::create_directory(path);
  const auto refusal = [&] { return message_of<FileError>([&] { open_tensors(path); }); };
  const std::string neither = path + ": the folder holds neither model.safetensors nor model.safetensors.index.json";
  CHECK(refusal() == neither);
  write_file(path + "/pytorch_model.bin", std::string_view("x"));
  CHECK(refusal() == neither + "; pytorch_model.bin is a pickle, which can run any program and is not read: save the "
                               "model as safetensors");
  std::filesystem::remove(path + "/pytorch_model.bin");
  save_safetensors(path + "/other.safetensors", {{"a", Tensor::ones({1})}});
  CHECK(refusal() == neither + "; name the file that you mean, as in " + path + "/other.safetensors");
  CHECK(message_of<FileError>([&] { open_tensors(path + "/none"); }) == path + "/none: no such file");
  save_sharded(path, {{"a", Tensor::ones({4})}, {"b", Tensor::zeros({4})}}, {.max_bytes = 16});
  CHECK(open_tensors(path).files().size() == 2);
  save_safetensors(path + "/model.safetensors", {{"c", Tensor::ones({1})}}); // goes before the index
  CHECK(open_tensors(path).tensors().size() == 1);
  std::filesystem::remove(path + "/model.safetensors");
  std::filesystem::create_directory(path + "/model.safetensors"); // what is there and no file is not passed over
  CHECK(refusal() == path + "/model.safetensors: is a folder");
}

TEST_CASE("tensor reader: the reference implementation's element types") {
  const std::string folder =
      data_or_skip("tensor reader: the reference implementation's element types", "tensor-files/safetensors/valid")
          .string();
  if (folder.empty()) return;
  const TensorReader reader = open_tensors(join_path(folder, "all_numpy_dtypes.safetensors"));
  CHECK(reader.tensors().size() > 8);
  for (const TensorInfo& info : reader.tensors()) {
    CAPTURE(info.name);
    const Tensor t = reader.read(info.name, {.widen = true});
    CHECK(t.numel() == static_cast<std::int64_t>(info.numel()));
  }
  const Tensor brain = open_tensors(join_path(folder, "bf16.safetensors")).read(0, {.widen = true});
  CHECK(brain.at({0}) == 1.0);
  CHECK(brain.at({1}) == -1.0);
  CHECK(std::isinf(brain.at({2})));
  CHECK(brain.at({3}) == std::ldexp(1.0, -133));
}
