// Files that NumPy, safetensors and huggingface_hub wrote (tests/golden/files/make.py), and files for them.

#include "core/base/json.h"
#include "core/base/words.h"
#include "data/npy.h"
#include "data/safetensors.h"
#include "data_fixtures.h"

#include <cmath>
#include <cstdlib>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace eg;
using namespace eg::data;
using namespace eg::test;
using nlohmann::json;

namespace {

const std::string folder = std::string(EQUIGRAD_SOURCE_DIR) + "/tests/golden/files/";

/// One value of values.json and the tensor's element beside it.
bool agrees(const json& wanted, const Tensor& t, std::size_t i) {
  if (t.dtype() == DType::i64) return t.data<std::int64_t>()[i] == wanted.get<std::int64_t>();
  if (t.dtype() == DType::u8) return t.data<std::uint8_t>()[i] == wanted.get<int>();
  if (t.dtype() == DType::boolean) return t.data<bool>()[i] == wanted.get<bool>();
  const double number =
      wanted.is_string() ? std::strtod(wanted.get<std::string>().c_str(), nullptr) : wanted.get<double>();
  return (t.dtype() == DType::f32 ? static_cast<double>(t.data<float>()[i]) : t.data<double>()[i]) == number;
}

void check_tensor(const json& wanted, const Tensor& t) {
  REQUIRE(std::vector<std::int64_t>(t.shape().begin(), t.shape().end()) ==
          wanted["shape"].get<std::vector<std::int64_t>>());
  REQUIRE(t.is_contiguous());
  REQUIRE(wanted["values"].size() == static_cast<std::size_t>(t.numel()));
  for (std::size_t i = 0; i < wanted["values"].size(); ++i) CHECK(agrees(wanted["values"][i], t, i));
}

/// Every tensor of a file, however it is read.
void check_file(const std::string& path, const json& wanted) {
  CAPTURE(path);
  const TensorReader reader = open_tensors(path);
  CHECK(reader.tensors().size() == wanted.size());
  for (const auto& [key, entry] : wanted.items()) {
    const std::string name = key;
    CAPTURE(name);
    REQUIRE(reader.find(name) != nullptr);
    for (const bool map : {false, true}) check_tensor(entry, reader.read(name, {.widen = true, .map = map}));
  }
}

/// make.py: numbers(count, seed).
Tensor numbers(const Shape& shape, std::uint64_t seed) {
  Tensor t = Tensor::empty(shape, DType::f64);
  double* values = t.mutable_data<double>();
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(shape.numel()); ++i)
    values[i] = static_cast<double>(((i * 2654435761U + seed) >> 13U) % 257) / 8 - 16;
  return t;
}

NamedTensors tensors_to_write() {
  const Tensor x = numbers({60}, 3);
  const Tensor table = x.slice(0, 0, 24).reshape({4, 6}).to(DType::f32);
  Tensor whole = Tensor::empty({7}, DType::i64);
  Tensor bytes = Tensor::empty({3, 3}, DType::u8);
  Tensor flags = Tensor::empty({5}, DType::boolean);
  for (std::size_t i = 0; i < 9; ++i) {
    const double value = x.data<double>()[i];
    if (i < 7) whole.mutable_data<std::int64_t>()[i] = static_cast<std::int64_t>(value);
    bytes.mutable_data<std::uint8_t>()[i] = static_cast<std::uint8_t>(std::abs(value));
    if (i < 5) flags.mutable_data<bool>()[i] = value > 0;
  }
  return {{"f32", table},
          {"f64", x.reshape({3, 4, 5})},
          {"i64", whole},
          {"u8", bytes},
          {"bool", flags},
          {"scalar", Tensor::full({}, 2.5)},
          {"empty", Tensor::empty({0, 3})},
          {"transposed", table.transpose()}};
}

} // namespace

TEST_CASE("formats: files that other programs wrote") {
  const json values = read_json(folder + "values.json");
  check_file(folder + "stored.npz", values["numpy"]);
  check_file(folder + "deflated.npz", values["numpy"]);
  check_file(folder + "torch.safetensors", values["torch"]);
  CHECK(open_tensors(folder + "torch.safetensors").metadata() == Metadata{{"format", "pt"}, {"note", "caf\xC3\xA9"}});
  check_file(folder + "sharded", values["sharded"]);
  for (const char* name : {"version2", "version3"}) {
    const TensorReader reader = open_tensors(folder + name + ".npy");
    check_tensor(values["numpy"]["f4"], reader.read(name));
  }
}

TEST_CASE("formats: a wrong value would be noticed") {
  json wanted = {{"shape", {2}}, {"values", {1.0, 2.0}}};
  const Tensor t = Tensor::from<float>({1.0F, 2.0F}, {2});
  CHECK(agrees(wanted["values"][1], t, 1));
  wanted["values"][1] = 2.0000002;
  CHECK_FALSE(agrees(wanted["values"][1], t, 1));
  CHECK_FALSE(agrees(json("inf"), t, 1));
}

TEST_CASE("formats: a changed byte of an npz is noticed or means nothing; of other files it may change a value") {
  const TemporaryFolder scratch;
  const std::string path = scratch.path("a");
  const auto read_all = [](const std::string& from) {
    NamedTensors all;
    const TensorReader reader = open_tensors(from);
    for (std::size_t i = 0; i < reader.tensors().size(); ++i)
      all.emplace_back(reader.tensors()[i].name, reader.read(i, {.widen = true}));
    return all;
  };
  for (const std::string name : {"stored.npz", "deflated.npz", "torch.safetensors"}) {
    CAPTURE(name);
    const Bytes good = read_file(folder + name);
    const NamedTensors wanted = read_all(folder + name);
    int refused = 0;
    for (std::size_t at = 0; at < good.size(); ++at) {
      CAPTURE(at);
      Bytes bytes = good;
      bytes[at] ^= 0x10U;
      write_quickly(path, bytes);
      try {
        const NamedTensors found = read_all(path);
        if (!name.ends_with(".npz")) continue;
        REQUIRE(found.size() == wanted.size());
        for (std::size_t i = 0; i < found.size(); ++i) {
          REQUIRE(found[i].first == wanted[i].first);
          REQUIRE(same_bits(found[i].second, wanted[i].second));
        }
      } catch (const FileError& error) {
        ++refused;
        const std::string words = error.what();
        CAPTURE(words);
        REQUIRE(words.starts_with(path + ": "));
      }
    }
    CHECK(refused > static_cast<int>(good.size()) / 2);
  }
}

TEST_CASE("formats: files for other programs") {
  const char* wanted = std::getenv("EQUIGRAD_WRITE_FILES"); // then: tests/golden/files/make.py check FOLDER
  const TemporaryFolder scratch;
  const std::string to = wanted != nullptr ? wanted : scratch.path("out");
  std::filesystem::create_directories(join_path(to, "sharded"));
  const NamedTensors tensors = tensors_to_write();
  save_safetensors(join_path(to, "all.safetensors"), tensors);
  save_npz(join_path(to, "all.npz"), tensors);
  for (const auto& [name, tensor] : tensors) save_npy(join_path(to, name + ".npy"), tensor);
  save_safetensors(join_path(to, "bf16.safetensors"),
                   {{"bf16", Tensor::from<float>({1.0F, -2.5F, 0.0F}, {3}).to(DType::bf16)}},
                   {{"format", "pt"}, {"note", "caf\xC3\xA9"}});
  save_sharded(join_path(to, "sharded"), tensors, {.max_bytes = 300, .metadata = {{"format", "pt"}}});
  for (const char* name : {"all.safetensors", "all.npz", "sharded"}) {
    CAPTURE(name);
    const TensorReader reader = open_tensors(join_path(to, name));
    for (const auto& item : tensors) CHECK(same_bits(reader.read(item.first), item.second));
  }
}
