// Sharded safetensors: an index and the files that it names.

#include "core/base/json.h"
#include "core/random.h"
#include "data/safetensors.h"
#include "data_fixtures.h"

#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>

using namespace eg;
using namespace eg::data;
using namespace eg::test;
using nlohmann::json;

namespace {

constexpr const char* index_name = "model.safetensors.index.json";

/// Two shards: `a` and `b` in one.safetensors, `c` in two.safetensors.
struct Sharded {
  TemporaryFolder folder;
  std::string path = folder.path(index_name);
  json index = {{"metadata", {{"total_size", 24}}},
                {"weight_map", {{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"c", "two.safetensors"}}}};

  Sharded() {
    save_safetensors(folder.path("one.safetensors"), {{"a", Tensor::ones({2})}, {"b", Tensor::full({3}, 2.0)}},
                     {{"format", "pt"}});
    save_safetensors(folder.path("two.safetensors"), {{"c", Tensor::full({1}, 3.0)}});
  }
  std::string refusal() const {
    write_json(path, index);
    return message_of<FileError>([&] { open_tensors(path); });
  }
  std::string refusal_of(const std::string& text) const {
    write_file(path, std::string_view(text));
    return message_of<FileError>([&] { open_tensors(path); });
  }
};

} // namespace

TEST_CASE("sharded: every tensor comes from its shard") {
  const Sharded s;
  write_json(s.path, s.index);
  const TensorReader reader = open_tensors(s.path);
  CHECK(reader.tensors().size() == 3);
  CHECK(reader.files() == std::vector<std::string>{s.folder.path("one.safetensors"), s.folder.path("two.safetensors")});
  CHECK(reader.metadata() == Metadata{{"format", "pt"}});
  CHECK(reader.bytes() == 24);
  CHECK(reader.read("b").to_vector<float>() == std::vector<float>{2, 2, 2});
  CHECK(reader.read("c").item() == 3.0);
  CHECK(reader.find("c")->file == 1);
}

TEST_CASE("sharded: an index without total_size, or with one that a float holds, is read") {
  Sharded s;
  s.index.erase("metadata");
  write_json(s.path, s.index);
  CHECK(open_tensors(s.path).tensors().size() == 3);
  s.index["metadata"] = {{"total_size", 24.0}, {"total_parameters", 6}, {"nested", {{"total_size", 5}}}};
  s.index["other"] = json::array({1, json::object({{"weight_map", 2}})});
  write_json(s.path, s.index);
  CHECK(open_tensors(s.path).tensors().size() == 3);
}

TEST_CASE("sharded: an index that its shards contradict is refused") {
  Sharded s;
  json& map = s.index["weight_map"];
  const std::string front = s.path + ": ";
  SUBCASE("a tensor that its shard does not hold") {
    map["d"] = "two.safetensors";
    CHECK(s.refusal() == front + "tensor 'd': shard 'two.safetensors' does not hold it");
  }
  SUBCASE("first in order") {
    map["_"] = "two.safetensors";
    CHECK(s.refusal() == front + "tensor '_': shard 'two.safetensors' does not hold it");
  }
  SUBCASE("a tensor in another shard") {
    map["b"] = "two.safetensors";
    CHECK(s.refusal() == front + "tensor 'b': it lies in shard 'one.safetensors', not in 'two.safetensors'");
  }
  SUBCASE("a tensor in two shards") {
    save_safetensors(s.folder.path("two.safetensors"), {{"c", Tensor::ones({1})}, {"a", Tensor::ones({2})}});
    CHECK(s.refusal() == front + "tensor 'a': lies in two shards, 'one.safetensors' and 'two.safetensors'");
  }
  SUBCASE("a tensor that the index does not name") {
    map.erase("b");
    CHECK(s.refusal() == front + "tensor 'b': shard 'one.safetensors' holds it, but weight_map does not name it");
  }
  SUBCASE("the last one") {
    map = {{"a", "one.safetensors"}, {"b", "one.safetensors"}};
    save_safetensors(s.folder.path("one.safetensors"),
                     {{"a", Tensor::ones({2})}, {"b", Tensor::ones({3})}, {"z", Tensor::ones({1})}});
    CHECK(s.refusal() == front + "tensor 'z': shard 'one.safetensors' holds it, but weight_map does not name it");
  }
  SUBCASE("a missing shard") {
    map["c"] = "three.safetensors";
    CHECK(s.refusal() == front + "shard 'three.safetensors' is not there");
  }
  SUBCASE("a shard that is no file") {
    map["c"] = "three.safetensors";
    std::filesystem::create_directory(s.folder.path("three.safetensors"));
    CHECK(s.refusal() == s.folder.path("three.safetensors") + ": is a folder");
  }
  SUBCASE("a damaged shard") {
    write_file(s.folder.path("two.safetensors"), std::string_view("1234567"));
    CHECK(s.refusal() == s.folder.path("two.safetensors") + ": not a safetensors file: 7 bytes, at least 8 are needed");
  }
  SUBCASE("another total") {
    s.index["metadata"]["total_size"] = 25;
    CHECK(s.refusal() == front + "metadata.total_size is 25 bytes, the tensors have 24");
  }
}

TEST_CASE("sharded: a malformed index is refused") {
  Sharded s;
  const std::string front = s.path + ": ";
  for (const char* name : {"../two.safetensors", "/etc/passwd", "a/b.safetensors", "a\\b.safetensors", "..", ".", ""}) {
    s.index["weight_map"]["c"] = name;
    CHECK(s.refusal() == front + "tensor 'c': its shard '" + name + "' is not a plain file name");
  }
  s.index["weight_map"]["c"] = std::string("two.safetensors\0x", 17);
  CHECK(s.refusal() == front + "tensor 'c': its shard 'two.safetensors\\x00x' is not a plain file name");
  s.index["weight_map"]["c"] = "pytorch_model-00001-of-00002.bin";
  CHECK(s.refusal() == front +
                           "tensor 'c': its shard 'pytorch_model-00001-of-00002.bin' is a pickle, which can run any "
                           "program and is not read: save the model as safetensors");
  CHECK(s.refusal_of("[]") == front + "the index is not a JSON object");
  CHECK(s.refusal_of("3") == front + "the index is not a JSON object");
  CHECK(s.refusal_of("{}") == front + "is no index of shards: it has no weight_map");
  CHECK(s.refusal_of(R"({"weight_map":[]})") == front + "weight_map is not an object");
  CHECK(s.refusal_of(R"({"weight_map":"a"})") == front + "weight_map is not an object");
  CHECK(s.refusal_of(R"({"weight_map":{"a":1}})") == front + "tensor 'a': its shard is not a file name");
  CHECK(s.refusal_of(R"({"weight_map":{"a":["one.safetensors"]}})") ==
        front + "tensor 'a': its shard is not a file name");
  CHECK(s.refusal_of(R"({"weight_map":{},"weight_map":{}})") == front + "JSON key 'weight_map' is given twice");
  CHECK(s.refusal_of(R"({"weight_map":{"a":"one.safetensors","a":"one.safetensors"}})") ==
        front + "JSON key 'a' is given twice");
  CHECK(s.refusal_of(R"({"metadata":{"total_size":"24"},"weight_map":{}})") ==
        front + "metadata.total_size is not a number");
  CHECK(s.refusal_of(R"({"weight_map":{)").starts_with(front + "malformed JSON at line 1, column "));
  CHECK(s.refusal_of(R"({"x":)" + std::string(200, '[')) == front + "JSON nested deeper than 128 levels");
}

TEST_CASE("sharded: written as Hugging Face writes it, and read again") {
  const TemporaryFolder folder;
  const std::string path = folder.path("m");
  std::filesystem::create_directory(path);
  NamedTensors tensors;
  for (int i = 0; i < 7; ++i)
    tensors.emplace_back("t" + std::to_string(i), random_normal({10 + i, 3}, {.seed = static_cast<std::uint64_t>(i)}));
  tensors.emplace_back("ids", Tensor::arange(4));
  const auto names = save_sharded(path, tensors, {.max_bytes = 280, .metadata = {{"format", "pt"}}});
  REQUIRE(names.size() == 7);
  CHECK(names.front() == "model-00001-of-00006.safetensors");
  CHECK(names[5] == "model-00006-of-00006.safetensors");
  CHECK(names.back() == index_name); // last: without it nobody reads the others
  const json index = read_json(join_path(path, index_name));
  CHECK(index["metadata"]["total_size"] == 1124);
  CHECK(index["weight_map"].size() == 8);
  CHECK(index["weight_map"]["t0"] == names[0]);
  CHECK(index["weight_map"]["t1"] == names[0]); // 120 and 132 bytes fit 280 together
  CHECK(index["weight_map"]["t2"] == names[1]);
  const TensorReader reader = open_tensors(path);
  CHECK(reader.metadata() == Metadata{{"format", "pt"}});
  for (const auto& [name, tensor] : tensors) CHECK(same_bits(reader.read(name), tensor));
}

TEST_CASE("sharded: one file when one is enough; a tensor larger than a shard has its own") {
  const TemporaryFolder folder;
  const Tensor big = Tensor::ones({100});
  const Tensor small = Tensor::ones({2});
  CHECK(save_sharded(folder.path(""), {{"big", big}}) == std::vector<std::string>{"model.safetensors"});
  const std::string path = folder.path("m");
  std::filesystem::create_directory(path);
  const auto names = save_sharded(path, {{"a", small}, {"big", big}, {"b", small}}, {.max_bytes = 100});
  CHECK(names.size() == 4);
  CHECK(open_tensors(path).read("big").numel() == 100);
  CHECK_THROWS_AS(save_sharded(path, {{"a", small}}, {.max_bytes = 0}), ValueError);
}

TEST_CASE("sharded: a set of files is not written over another") {
  const TemporaryFolder folder;
  const Tensor one = Tensor::ones({2});
  const std::string path = folder.path("m");
  std::filesystem::create_directory(path);
  const auto refusal = [&](std::uint64_t max_bytes) {
    return message_of<FileError>([&] { save_sharded(path, {{"a", one}, {"b", one}}, {.max_bytes = max_bytes}); });
  };
  const std::string words =
      ": is there already; a set of files cannot be replaced at once: remove it first, or write to "
      "another folder";
  save_sharded(path, {{"old", one}});
  CHECK(refusal(8) == path + "/model.safetensors" + words);
  CHECK(open_tensors(path).find("old") != nullptr);
  CHECK(refusal(1000).empty()); // one file replaces another
  std::filesystem::remove(path + "/model.safetensors");
  save_sharded(path, {{"a", one}, {"b", one}}, {.max_bytes = 8});
  CHECK(refusal(8) == path + "/" + index_name + words);
  CHECK(refusal(1000) == path + "/" + index_name + words);
}
