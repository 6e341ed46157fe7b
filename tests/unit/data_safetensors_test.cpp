#include "core/base/interrupt.h"
#include "core/base/json.h"
#include "data/safetensors.h"
#include "data_fixtures.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace eg;
using namespace eg::data;
using namespace eg::test;

namespace {

Bytes safetensors_bytes(const std::string& header, std::size_t data_bytes) {
  Bytes bytes(8);
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(header.size() >> (8 * i));
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.resize(bytes.size() + data_bytes);
  return bytes;
}

std::string refusal(const std::string& header, std::size_t data_bytes) {
  return message_of<FileError>([&] { parse_safetensors(safetensors_bytes(header, data_bytes), "weights"); });
}

} // namespace

TEST_CASE("safetensors: tensors of every type come back bit for bit") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.safetensors");
  const Tensor base = Tensor::from<double>({1.0, -2.5, 3.25, 1e-300, 5.0, -0.0}, {2, 3});
  const NamedTensors tensors{
      {"flag", Tensor::from<bool>({true, false, true}, {3})},
      {"w.f32", Tensor::from<float>({1.5F, -0.0F, 3e-40F}, {3, 1})},
      {"w.f64", base},
      {"transposed", base.view_as({3, 2}, {1, 3}, 0)},
      {"ids", Tensor::from<std::int64_t>({-1, std::int64_t{1} << 62}, {2})},
      {"pixels", Tensor::from<std::uint8_t>({0, 255, 7}, {1, 3})},
      {"scalar", Tensor::from<float>({42.0F}, {})},
      {"empty", Tensor::empty({0, 5}, DType::f64)},
  };
  save_safetensors(path, tensors, {{"format", "eg"}, {"note", "caf\xC3\xA9 \"quoted\""}});
  const TensorFile file = load_safetensors(path);
  CHECK(file.metadata == Metadata{{"format", "eg"}, {"note", "caf\xC3\xA9 \"quoted\""}});
  REQUIRE(file.tensors.size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const std::string label = name; // clang 14 captures no structured binding
    const Tensor* found = file.find(name);
    const bool same = found != nullptr && same_bits(*found, tensor);
    CHECK_MESSAGE(same, label);
  }
  CHECK(file.find("absent") == nullptr);
  const TensorFileHeader header = read_safetensors_header(path);
  CHECK(header.data_begin % 8 == 0);
  CHECK(folder.names() == std::vector<std::string>{"a.safetensors"}); // no temporary file stays
}

TEST_CASE("safetensors: no tensors at all") {
  const TemporaryFolder folder;
  save_safetensors(folder.path("none"), {});
  CHECK(load_safetensors(folder.path("none")).tensors.empty());
}

TEST_CASE("safetensors: what cannot be saved is refused and the old file stays") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a");
  const Tensor one = Tensor::ones({1});
  save_safetensors(path, {{"one", one}});
  const Bytes before = read_file(path);
  const auto words = [&](const NamedTensors& tensors) {
    return message_of<ValueError>([&] { save_safetensors(path, tensors); });
  };
  CHECK(words({{"", one}}) == "save_safetensors: a tensor has an empty name");
  CHECK(words({{"a", one}, {"a", one}}) == "save_safetensors: two tensors are called 'a'");
  CHECK(words({{"__metadata__", one}}) == "save_safetensors: the name '__metadata__' is reserved");
  CHECK(words({{"x", Tensor()}}) == "save_safetensors: tensor 'x' has no values");
  CHECK(words({{"\xFF", one}}) == "save_safetensors: a name or text is not UTF-8");
  CHECK(read_file(path) == before);
  const std::string nowhere = folder.path("missing/a");
  CHECK(message_of<FileError>([&] {
          save_safetensors(nowhere, {{"one", one}});
        }) == nowhere + ": cannot create: No such file or directory");
}

TEST_CASE("safetensors: reading and writing are stopped between tensors, and the old file stays") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a");
  const NamedTensors tensors{{"a", Tensor::ones({2})}, {"b", Tensor::ones({3})}};
  save_safetensors(path, tensors);
  const Bytes before = read_file(path);
  struct Stop {};
  int asked = 0;
  const auto check = [&] {
    if (++asked == 2) throw Stop{};
  };
  const InterruptScope scope(check);
  CHECK_THROWS_AS(load_safetensors(path), Stop);
  asked = 0;
  CHECK_THROWS_AS(save_safetensors(path, {{"c", Tensor::ones({5})}, {"d", Tensor::ones({7})}}), Stop);
  CHECK(read_file(path) == before);
  CHECK(folder.names() == std::vector<std::string>{"a"}); // no temporary file stays
}

TEST_CASE("safetensors: damaged headers get one clear message") {
  const std::string ok = R"({"t":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  CHECK_NOTHROW(parse_safetensors(safetensors_bytes(ok, 16), "weights"));
  CHECK(refusal(ok, 15) == "weights: truncated: the header describes 16 bytes of data, the file has 15");
  CHECK(refusal(ok, 17) == "weights: 1 bytes after the data of the last tensor");
  CHECK(refusal("[]", 0) == "weights: the header is not a JSON object");
  CHECK(refusal("{", 0).starts_with("weights: malformed JSON at line 1, column 2: "));
  CHECK(refusal(R"({"t":1})", 0) == "weights: tensor 't': its description is not an object");
  CHECK(refusal(R"({"t":{"dtype":"F32","shape":[1]}})", 0) ==
        "weights: tensor 't': its description has no data_offsets");
  CHECK(refusal(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4) ==
        "weights: tensor 't': its description has keys other than dtype, shape and data_offsets");
  CHECK(refusal(R"({"t":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4) ==
        "weights: tensor 't': unknown dtype 'F33'");
  CHECK(refusal(R"({"t":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})", 4) ==
        "weights: tensor 't': dtype F16 is read as f32 only, and only when asked to widen");
  CHECK(refusal(R"({"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4) ==
        "weights: tensor 't': shape has an entry that is not a whole number");
  CHECK(refusal(R"({"t":{"dtype":"F32","shape":[3],"data_offsets":[0,4]}})", 4) ==
        "weights: tensor 't': shape [3] of F32 takes 12 bytes, data_offsets [0, 4] hold 4");
  CHECK(refusal(R"({"t":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0) ==
        "weights: tensor 't': its size overflows 64 bits");
  CHECK(refusal(R"({"t":{"dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}})", 0) ==
        "weights: tensor 't': its size overflows 64 bits");
  CHECK(refusal(R"({"t":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4) ==
        "weights: tensor 't': 9 axes, more than the 8 that a tensor can have");
  CHECK(refusal(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4) ==
        "weights: tensor 't': data_offsets [4, 0] run backwards");
  CHECK(refusal(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2) ==
        "weights: tensor 't': 1 bytes before its data belong to no tensor");
  CHECK(
      refusal(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
          3) == "weights: tensor 'b': its data overlaps that of the tensor before it at byte 1");
  CHECK(
      refusal(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
          1) == "weights: JSON key 'a' is given twice");
  CHECK(refusal(R"({"__metadata__":{"a":1}})", 0) == "weights: __metadata__ entry 'a' is not a text");
  Bytes two = safetensors_bytes(R"({"t":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", 1);
  two.back() = 2;
  CHECK(message_of<FileError>([&] { parse_safetensors(two, "weights"); }) ==
        "weights: tensor 't': a BOOL value is neither 0 nor 1");
  const Bytes huge(8, 0xFF);
  CHECK(message_of<FileError>([&] {
          parse_safetensors(huge, "weights");
        }).starts_with("weights: not a safetensors file: header of 18446744073709551615 bytes"));
}

TEST_CASE("safetensors: every cut of a good file is refused") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a");
  save_safetensors(path, {{"a", Tensor::arange(5)}, {"b", Tensor::ones({3})}}, {{"k", "v"}});
  const Bytes whole = read_file(path);
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK_THROWS_AS(parse_safetensors(ByteView(whole).first(size), "cut"), FileError);
}

TEST_CASE("safetensors: the reference implementation's files") {
  const std::string folder =
      data_or_skip("safetensors: the reference implementation's files", "tensor-files/safetensors").string();
  if (folder.empty()) return;
  int valid = 0;
  int invalid = 0;
  for (const std::string& line : lines_of(join_path(folder, "manifest.tsv"))) {
    const auto cells = split(line, '\t');
    if (cells.size() < 3 || cells[0] == "file") continue;
    const std::string path = join_path(folder, cells[0]);
    CAPTURE(path);
    if (cells[2] == "ok") {
      ++valid;
      CHECK_NOTHROW(read_safetensors_header(path));
    } else {
      ++invalid;
      CHECK(message_of<FileError>([&] { read_safetensors_header(path); }).starts_with(path + ": "));
      CHECK_THROWS_AS(load_safetensors(path), FileError);
    }
  }
  CHECK(valid == 11);
  CHECK(invalid == 19);
  const TensorFile tl = load_safetensors(join_path(folder, "valid/tl_test_tensor.safetensors"));
  CHECK(tl.tensors.size() == 1);
  for (const auto& [name, tensor] : load_safetensors(join_path(folder, "valid/bf16.safetensors")).tensors)
    CHECK(tensor.dtype() == DType::bf16);
}

TEST_CASE("json: values are those of nlohmann's own parser") {
  const std::string text = R"({"z":[-5,3,18446744073709551615,-9223372036854775808,1.5,-0.0,null,true,false,"x",{},[]],
    "a":{"c":{"y":1,"x":[[2]]},"b":""},"":0})";
  CHECK(parse_json(text, "x") == nlohmann::json::parse(text));
  CHECK(parse_json("7", "x") == nlohmann::json(7U));
}

TEST_CASE("json: duplicate keys, bad text and deep nesting are refused; files are whole") {
  CHECK(parse_json(R"({"a":{"b":1},"c":{"b":2}})", "x")["c"]["b"] == 2);
  CHECK(message_of<FileError>([] { parse_json(R"({"a":[{"b":1,"b":2}]})", "x"); }) == "x: JSON key 'b' is given twice");
  CHECK(message_of<FileError>([] {
          parse_json("{\"a\":1,\n  oops}", "x");
        }).starts_with("x: malformed JSON at line 2, column "));
  CHECK(message_of<FileError>([] { parse_json("", "x"); }).starts_with("x: malformed JSON"));
  CHECK(message_of<FileError>([] { parse_json("\"\xFF\"", "x"); }).starts_with("x: malformed JSON"));
  CHECK(message_of<FileError>([] { parse_json("[1e999]", "x"); }) ==
        "x: malformed JSON at line 1, column 6: number overflow parsing '1e999'");
  CHECK(message_of<FileError>([] { parse_json(std::string(100000, '['), "x"); }) ==
        "x: JSON nested deeper than 128 levels");
  const TemporaryFolder folder;
  const std::string path = folder.path("a.json");
  write_json(path, nlohmann::json{{"z", 1}, {"a", "text"}});
  CHECK(read_json(path) == nlohmann::json{{"z", 1}, {"a", "text"}});
  CHECK(message_of<ValueError>([&] { write_json(path, nlohmann::json("\xFF")); }) ==
        path + ": cannot write JSON: a text in it is not UTF-8");
  CHECK(folder.names() == std::vector<std::string>{"a.json"});
}
