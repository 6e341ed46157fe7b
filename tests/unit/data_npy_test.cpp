// NumPy's npy and npz files.

#include "data/npy.h"

#include "core/base/json.h"
#include "core/memory/allocator.h"
#include "core/random.h"
#include "data_fixtures.h"
#include "data_samples.h"

#include <cmath>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace eg;
using namespace eg::data;
using namespace eg::test;

namespace {

Bytes npy(const std::string& dictionary, const Bytes& values, int version = 1) {
  Bytes bytes = text("\x93NUMPY");
  bytes.push_back(static_cast<std::uint8_t>(version));
  bytes.push_back(0);
  put_little_endian(bytes, static_cast<std::uint32_t>(dictionary.size()), version == 1 ? 2 : 4);
  bytes.insert(bytes.end(), dictionary.begin(), dictionary.end());
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

std::string dictionary(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::string refusal(const std::string& header, std::size_t data_bytes, int version = 1) {
  return message_of<FileError>([&] { parse_npy(npy(header, Bytes(data_bytes), version), "a.npy"); });
}

const Bytes six{1, 2, 3, 4, 5, 6};

} // namespace

TEST_CASE("npy: orders, versions and spellings of the header") {
  const auto values = [](const Bytes& bytes) { return parse_npy(bytes, "a.npy").to_vector<std::uint8_t>(); };
  CHECK(values(npy(dictionary("|u1", "(2, 3)"), six)) == six);
  CHECK(values(npy(dictionary("|u1", "(2, 3)"), six, 2)) == six);
  CHECK(values(npy(dictionary("|u1", "(2, 3)"), six, 3)) == six);
  CHECK(values(npy(dictionary("|u1", "(2, 3)", "True"), six)) == Bytes{1, 3, 5, 2, 4, 6}); // columns lie together
  CHECK(values(npy(dictionary("|u1", "(6,)", "True"), six)) == six);
  CHECK(values(npy("{\"shape\":(2L,3L),\"descr\":\"|u1\",\"fortran_order\":False}", six)) == six);
  const Tensor cube = parse_npy(npy(dictionary("|u1", "(1, 3, 2)", "True"), six), "a.npy");
  CHECK(cube.shape() == Shape{1, 3, 2});
  CHECK(cube.is_contiguous());
  CHECK(cube.at({0, 2, 1}) == 6.0);
  CHECK(cube.at({0, 1, 0}) == 2.0);
  CHECK(parse_npy(npy(dictionary("<f8", "()"), Bytes(8)), "a.npy").rank() == 0);
  CHECK(parse_npy(npy(dictionary("<f4", "(0, 7)"), {}), "a.npy").shape() == Shape{0, 7});
}

TEST_CASE("npy: types and byte orders") {
  const auto wide = [](const std::string& type, const Bytes& bytes, std::size_t width) {
    return parse_npy(npy(dictionary(type, "(" + std::to_string(bytes.size() / width) + ",)"), bytes), "a.npy");
  };
  CHECK(wide("<i2", {0xFE, 0xFF, 1, 2}, 2).to_vector<std::int64_t>() == std::vector<std::int64_t>{-2, 513});
  CHECK(wide(">i2", {0xFF, 0xFE, 2, 1}, 2).to_vector<std::int64_t>() == std::vector<std::int64_t>{-2, 513});
  CHECK(wide("|i1", {0xFE, 5}, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{-2, 5});
  CHECK(wide(">u4", {0, 0, 1, 0}, 4).item() == 256.0);
  CHECK(wide("<u8", {0, 1, 0, 0, 0, 0, 0, 0}, 8).item() == 256.0);
  CHECK(wide(">f4", {0x3F, 0x80, 0, 0}, 4).to_vector<float>() == std::vector<float>{1.0F});
  CHECK(wide(">f8", {0xBF, 0xF0, 0, 0, 0, 0, 0, 0}, 8).to_vector<double>() == std::vector<double>{-1.0});
  CHECK(wide(">f2", {0x3C, 0}, 2).to_vector<float>() == std::vector<float>{1.0F});
  CHECK(wide("=i8", {7, 0, 0, 0, 0, 0, 0, 0}, 8).item() == 7.0);
  CHECK(wide(">i8", {0, 0, 0, 0, 0, 0, 0, 7}, 8).item() == 7.0);
  CHECK(wide("|b1", {1, 0}, 1).to_vector<bool>() == std::vector<bool>{true, false});
  CHECK(message_of<FileError>([&] { wide("|b1", {1, 3}, 1); }) == "a.npy: a BOOL value is neither 0 nor 1");
  CHECK(message_of<FileError>([] {
          parse_npy(npy(dictionary("<i2", "(1,)"), {1, 0}), "a.npy", {});
        }) == "a.npy: dtype I16 is read as i64 only, and only when asked to widen");
}

TEST_CASE("npy: what is malformed is refused in words") {
  const auto shape = [](const std::string& words, std::size_t bytes = 6) {
    return refusal(dictionary("|u1", words), bytes);
  };
  const auto type = [](const std::string& word) { return refusal(dictionary(word, "(1,)"), 4); };
  CHECK(shape("(2, 3)").empty());
  CHECK(shape("(2, 4)") == "a.npy: truncated: the values take 8 bytes, the file has 6 after its header");
  CHECK(shape("(5,)") == "a.npy: 1 bytes after the values");
  CHECK(shape("(-6,)") == "a.npy: the shape has a negative extent");
  CHECK(shape("(6)").ends_with("'shape' is not a tuple"));
  CHECK(shape("[6]").ends_with("'shape' is not a tuple"));
  CHECK(shape("6").ends_with("'shape' is not a tuple"));
  CHECK(shape("(6.0,)").find("malformed header at byte ") != std::string::npos);
  CHECK(shape("(,)").ends_with("no number in 'shape'"));
  CHECK(shape("(6,,)").ends_with("no number in 'shape'"));
  CHECK(shape("(__import__('os'),)").ends_with("no number in 'shape'"));
  CHECK(shape("(9223372036854775808,)") == "a.npy: its size overflows 64 bits");
  CHECK(shape("(4294967296, 4294967296)") == "a.npy: its size overflows 64 bits");
  CHECK(shape("(0, 4294967296, 4294967296)", 0) == "a.npy: its size overflows 64 bits");
  CHECK(shape("(1, 1, 1, 1, 1, 1, 1, 1, 6)") == "a.npy: 9 axes, more than the 8 that a tensor can have");
  std::string many = "(";
  for (int i = 0; i < 70; ++i) many += "1, ";
  CHECK(shape(many + "6)") == "a.npy: more than 64 axes");
  CHECK(type("|O") == "a.npy: dtype '|O' holds pickled objects, which can run any program: not read");
  for (const char* word : {"<c8", "<U5", "|S3", "<M8[ns]", "|V4", "<f16", "f", "<", ""})
    CHECK(type(word) == std::string("a.npy: dtype '") + word +
                            "' is not read; bool, whole numbers and floats of 16, 32 and 64 bits are");
  CHECK(refusal("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4) ==
        "a.npy: arrays of records (structured dtypes) are not read");
  CHECK(refusal("{'descr': '<f4', 'shape': (1,), }", 4) == "a.npy: the header has no 'fortran_order'");
  CHECK(refusal("{}", 4) == "a.npy: the header has no 'descr'");
  CHECK(refusal(dictionary("<f4", "(1,), 'more': 1"), 4) ==
        "a.npy: the header has a key 'more', which npy files do not have");
  CHECK(refusal(dictionary("<f4", "(1,), 'descr': '<f4'"), 4) == "a.npy: the header gives 'descr' twice");
  CHECK(refusal("{'descr': '<f\\x34', 'fortran_order': False, 'shape': (1,), }", 4).ends_with("a string with escapes"));
  CHECK(refusal("{'descr': '<f4", 4).ends_with("a string does not end"));
  CHECK(refusal("{'descr': 4", 4).ends_with("no string"));
  CHECK(refusal("[1]", 4).ends_with("no '{'"));
  CHECK(refusal(dictionary("<f4", "(1,)", "0"), 4).ends_with("'fortran_order' is neither True nor False"));
  CHECK(refusal(dictionary("<f4", "(1,)") + "#", 4).ends_with("something follows the dictionary"));
  CHECK(refusal(dictionary("<f4", "(1,)"), 4, 4) == "a.npy: npy version 4.0 is not known; 1.0, 2.0 and 3.0 are");
  CHECK(refusal(dictionary("<f4", "(1,)") + std::string(70000, ' '), 4, 2).find("at most 65536 are allowed") !=
        std::string::npos);
  CHECK(message_of<FileError>([] { parse_npy({}, "a.npy"); }) == "a.npy: not an npy file");
}

TEST_CASE("npy: every cut of a good file is refused") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.npy");
  save_npy(path, Tensor::arange(5));
  const Bytes whole = read_file(path);
  CHECK(parse_npy(whole, "a").numel() == 5);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const ByteView cut = ByteView(whole).first(size);
    CHECK_THROWS_AS(parse_npy(cut, "cut"), FileError);
    write_quickly(path, cut);
    CHECK_THROWS_AS(load_npy(path), FileError);
  }
}

TEST_CASE("npy: what is written comes back, and takes no memory when it is mapped") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.npy");
  const Tensor base = random_normal({4, 5, 6}, {.seed = 1});
  const Tensor flag = Tensor::from<bool>({true, false, true}, {3});
  for (const Tensor& t : {base, base.view_as({6, 5, 4}, {1, 6, 30}, 0), flag, Tensor::arange(7), Tensor::full({}, 2.5),
                          Tensor::empty({0, 3}, DType::f64), Tensor::from<std::uint8_t>({1, 2}, {2, 1})}) {
    save_npy(path, t);
    CHECK(same_bits(load_npy(path), t));
    CHECK(read_file(path).size() % 64 == t.nbytes() % 64); // the header fills whole lines, as NumPy's does
  }
  CHECK(folder.names() == std::vector<std::string>{"a.npy"});
  CHECK_THROWS_AS(save_npy(path, Tensor::zeros({2}, DType::bf16)), DTypeError);
  CHECK_THROWS_AS(save_npy(path, Tensor()), ValueError);
  const Tensor large = random_normal({200, 100}, {.seed = 2});
  save_npy(path, large);
  const TensorReader reader = open_tensors(path);
  CHECK(reader.format() == "npy");
  CHECK(reader.tensors()[0].name == "a");
  const std::size_t before = allocator::stats().live_bytes;
  const Tensor mapped = reader.read("a");
  CHECK(allocator::stats().live_bytes == before);
  CHECK(same_bits(mapped, large));
}

TEST_CASE("npz: what is written comes back") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.npz");
  const NamedTensors tensors{{"weight", random_normal({30, 41}, {.seed = 1})},
                             {"caf\xC3\xA9/ids", Tensor::arange(7)},
                             {"flag", Tensor::from<bool>({true, false, true}, {3})},
                             {"none", Tensor::empty({0, 3})}};
  save_npz(path, tensors);
  const NamedTensors back = load_npz(path);
  REQUIRE(back.size() == tensors.size());
  for (std::size_t i = 0; i < back.size(); ++i) {
    CHECK(back[i].first == tensors[i].first);
    CHECK(same_bits(back[i].second, tensors[i].second));
  }
  const Bytes first = read_file(path);
  save_npz(path, tensors);
  CHECK(read_file(path) == first); // no dates in it
  const TensorReader reader = open_tensors(path);
  CHECK(reader.format() == "npz");
  CHECK(same_bits(reader.read("weight"), tensors[0].second));
  save_npz(path, {});
  CHECK(load_npz(path).empty());
  const Tensor one = Tensor::ones({1});
  CHECK(message_of<ValueError>([&] { save_npz(path, {{"", one}}); }) == "save_npz: a tensor has an empty name");
  CHECK(message_of<ValueError>([&] {
          save_npz(path, {{"a", one}, {"a", one}});
        }) == "save_npz: two tensors are called 'a'");
  CHECK(message_of<ValueError>([&] {
          save_npz(path, {{"\xFF", one}});
        }) == "save_npz: a name is not UTF-8, or has a zero in it");
  CHECK(message_of<ValueError>([&] { save_npz(path, {{"a", Tensor()}}); }) == "save_npz: tensor 'a' has no values");
  CHECK(load_npz(path).empty()); // the old file stayed
}

TEST_CASE("npy: NumPy's files") {
  const std::string folder = data_or_skip("npy: NumPy's files", "tensor-files/npy").string();
  if (folder.empty()) return;
  const nlohmann::json wanted = read_json(join_path(folder, "values.json"));
  int compared = 0;
  for (const auto& [key, entry] : wanted.items()) {
    const std::string name = key; // clang 14 captures no structured binding
    CAPTURE(name);
    const std::string path = join_path(folder, "valid/" + name + ".npy");
    if (name == "complex8") {
      CHECK_THROWS_AS(load_npy(path), FileError);
      continue;
    }
    const Tensor t = load_npy(path);
    CHECK(std::vector<std::int64_t>(t.shape().begin(), t.shape().end()) ==
          entry["shape"].get<std::vector<std::int64_t>>());
    const Tensor numbers = t.to(DType::f64);
    std::vector<double> values;
    for (const auto& value : entry["c_order_values"])
      values.push_back(value.is_boolean() ? (value.get<bool>() ? 1.0 : 0.0) : value.get<double>());
    CHECK(numbers.to_vector<double>() == values);
    ++compared;
  }
  CHECK(compared == 12);
  for (const char* name : {"version2", "version3"}) {
    CAPTURE(name);
    CHECK(load_npy(join_path(folder, std::string("valid/") + name + ".npy")).numel() > 0);
  }
  for (const char* name : {"struct", "unicode"}) {
    CAPTURE(name);
    CHECK_THROWS_AS(load_npy(join_path(folder, std::string("valid/") + name + ".npy")), FileError);
  }
  const NamedTensors stored = load_npz(join_path(folder, "valid/stored.npz"));
  const NamedTensors deflated = load_npz(join_path(folder, "valid/deflated.npz"));
  CHECK(stored.size() > 1);
  REQUIRE(deflated.size() == stored.size());
  for (std::size_t i = 0; i < stored.size(); ++i) {
    CHECK(deflated[i].first == stored[i].first);
    CHECK(same_bits(deflated[i].second, stored[i].second));
  }
  int invalid = 0;
  for (const auto& file : std::filesystem::directory_iterator(join_path(folder, "invalid"))) {
    const std::string path = file.path().string();
    CAPTURE(path);
    const auto front = [&](auto read) { return message_of<FileError>(read).starts_with(path + ": "); };
    CHECK(front([&] { open_tensors(path); }));
    if (path.ends_with(".npy")) CHECK(front([&] { load_npy(path); }));
    ++invalid;
  }
  CHECK(invalid == 13);
}
