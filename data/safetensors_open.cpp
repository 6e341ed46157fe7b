// Safetensors files behind a TensorReader: one, or the shards of an index.

#include "core/base/json_walk.h"
#include "core/base/words.h"
#include "data/safetensors_header.h"
#include "data/tensor_place.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <optional>

namespace eg::data {
namespace {

/// An index names each tensor and its file: the largest known has 15 MB.
constexpr std::uint64_t max_index_bytes = 100'000'000;

class SafetensorsSource final : public TensorReader::Source {
public:
  Tensor read(std::size_t i, const TensorInfo& info, const LoadOptions& options) const override {
    const InputFile& file = *files_[info.file];
    const TensorPlace place{file.path(), info.name};
    return read_elements(file, {offsets_[i], info.type}, checked_shape(info.dims, place), options, place);
  }

  /// Takes a file over and appends what it holds.
  void add(std::unique_ptr<const InputFile> file, TensorReader::Contents& contents) {
    TensorFileHeader header = read_safetensors_header(*file);
    for (TensorEntry& entry : header.entries) {
      contents.tensors.push_back(
          {std::move(entry.name), entry.type, std::move(entry.dims), entry.end - entry.begin, files_.size()});
      offsets_.push_back(header.data_begin + entry.begin);
    }
    if (contents.metadata.empty()) contents.metadata = std::move(header.metadata);
    contents.files.push_back(file->path());
    files_.push_back(std::move(file));
  }

private:
  std::vector<std::unique_ptr<const InputFile>> files_;
  std::vector<std::uint64_t> offsets_; ///< from the start of the file
};

/// The contents of an index.
struct Index {
  struct Line {
    std::string tensor;
    std::size_t shard;
  };
  std::vector<Line> lines; ///< ordered by tensor
  std::vector<std::string> shards;
  std::optional<double> total_size;
};

[[noreturn]] void fail(const std::string& path, const std::string& reason) { throw FileError(path + ": " + reason); }

/// A shard is beside its index: its name must not lead anywhere else.
void check_shard_name(const std::string& path, const std::string& tensor, const std::string& name) {
  const bool plain = !name.empty() && name != "." && name != ".." && name.find_first_of("/\\") == std::string::npos &&
                     name.find('\0') == std::string::npos;
  if (!plain) TensorPlace{path, tensor}.fail(fmt::format("its shard '{}' is not a plain file name", printable(name)));
  if (name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth"))
    TensorPlace{path, tensor}.fail(fmt::format(
        "its shard '{}' is a pickle, which can run any program and is not read: save the model as safetensors", name));
}

class IndexReader final : public JsonVisitor {
public:
  IndexReader(Index& index, const std::string& path) : index_(index), path_(path) {}

  void open(bool object) override {
    if (level_ == 0 && !object) fail(path_, "the index is not a JSON object");
    if (level_ == 1 && !object && section_ == Section::weights) fail(path_, "weight_map is not an object");
    if (level_ == 2 && section_ == Section::weights) refuse_shard();
    ++level_;
  }
  void close() override { --level_; }
  void key(std::string& name) override {
    if (level_ == 1) begin_section(name);
    if (level_ == 2) key_ = std::move(name);
  }
  void scalar(const JsonScalar& value) override {
    if (level_ == 0) fail(path_, "the index is not a JSON object");
    if (level_ == 1 && section_ == Section::weights) fail(path_, "weight_map is not an object");
    if (level_ != 2) return;
    if (section_ == Section::weights) add_line(value);
    if (section_ == Section::metadata && key_ == "total_size") set_total(value);
  }

  bool has_weights() const { return has_weights_; }

private:
  enum class Section : std::uint8_t { other, metadata, weights };

  void begin_section(const std::string& name) {
    section_ = name == "weight_map" ? Section::weights : name == "metadata" ? Section::metadata : Section::other;
    if (section_ != Section::weights) return;
    if (has_weights_) fail(path_, "JSON key 'weight_map' is given twice");
    has_weights_ = true;
  }

  [[noreturn]] void refuse_shard() const { TensorPlace{path_, key_}.fail("its shard is not a file name"); }

  void add_line(const JsonScalar& value) {
    if (value.kind != JsonScalar::Kind::text) refuse_shard();
    const auto [at, added] = shard_places_.emplace(*value.text, index_.shards.size());
    if (added) {
      check_shard_name(path_, key_, *value.text);
      index_.shards.push_back(*value.text);
    }
    index_.lines.push_back({std::move(key_), at->second});
  }

  void set_total(const JsonScalar& value) {
    if (value.kind != JsonScalar::Kind::whole && value.kind != JsonScalar::Kind::number)
      fail(path_, "metadata.total_size is not a number");
    if (index_.total_size) fail(path_, "JSON key 'total_size' is given twice");
    index_.total_size = value.number;
  }

  Index& index_;
  const std::string& path_;
  int level_ = 0;
  Section section_ = Section::other;
  bool has_weights_ = false;
  std::string key_;
  std::map<std::string, std::size_t> shard_places_;
};

Index parse_index(std::string_view text, const std::string& path) {
  Index index;
  IndexReader reader(index, path);
  walk_json(text, path, reader);
  if (!reader.has_weights()) fail(path, "is no index of shards: it has no weight_map");
  std::sort(index.lines.begin(), index.lines.end(),
            [](const Index::Line& a, const Index::Line& b) { return a.tensor < b.tensor; });
  const auto twice =
      std::adjacent_find(index.lines.begin(), index.lines.end(),
                         [](const Index::Line& a, const Index::Line& b) { return a.tensor == b.tensor; });
  if (twice != index.lines.end()) fail(path, fmt::format("JSON key '{}' is given twice", twice->tensor));
  return index;
}

/// Every tensor is in exactly the shard that the index names, and the shards hold no others.
void check_index(const Index& index, const TensorReader::Contents& contents) {
  std::vector<const TensorInfo*> found;
  for (const TensorInfo& info : contents.tensors) found.push_back(&info);
  std::sort(found.begin(), found.end(), [](const TensorInfo* a, const TensorInfo* b) { return a->name < b->name; });
  for (std::size_t i = 1; i < found.size(); ++i)
    if (found[i - 1]->name == found[i]->name)
      TensorPlace{contents.path, found[i]->name}.fail(
          fmt::format("lies in two shards, '{}' and '{}'", index.shards[std::min(found[i - 1]->file, found[i]->file)],
                      index.shards[std::max(found[i - 1]->file, found[i]->file)]));
  std::size_t i = 0;
  for (const Index::Line& line : index.lines) {
    const TensorPlace place{contents.path, line.tensor};
    if (i < found.size() && found[i]->name < line.tensor) break;
    if (i == found.size() || found[i]->name != line.tensor)
      place.fail(fmt::format("shard '{}' does not hold it", index.shards[line.shard]));
    if (found[i]->file != line.shard)
      place.fail(
          fmt::format("it lies in shard '{}', not in '{}'", index.shards[found[i]->file], index.shards[line.shard]));
    ++i;
  }
  if (i < found.size())
    TensorPlace{contents.path, found[i]->name}.fail(
        fmt::format("shard '{}' holds it, but weight_map does not name it", index.shards[found[i]->file]));
}

void check_total(const Index& index, const TensorReader::Contents& contents) {
  if (!index.total_size) return;
  const std::uint64_t bytes =
      std::accumulate(contents.tensors.begin(), contents.tensors.end(), std::uint64_t{0},
                      [](std::uint64_t sum, const TensorInfo& info) { return sum + info.bytes; });
  if (static_cast<double>(bytes) != *index.total_size)
    fail(contents.path,
         fmt::format("metadata.total_size is {:.17g} bytes, the tensors have {}", *index.total_size, bytes));
}

} // namespace

TensorReader open_safetensors(std::unique_ptr<const InputFile> file) {
  TensorReader::Contents contents;
  contents.path = file->path();
  contents.format = "safetensors";
  auto source = std::make_unique<SafetensorsSource>();
  source->add(std::move(file), contents);
  return {std::move(contents), std::move(source)};
}

TensorReader open_safetensors_index(const std::string& path) {
  const Bytes bytes = read_file(path, max_index_bytes);
  const Index index = parse_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
  TensorReader::Contents contents;
  contents.path = path;
  contents.format = "safetensors";
  auto source = std::make_unique<SafetensorsSource>();
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  for (const std::string& shard : index.shards) {
    if (!path_exists(folder + shard)) fail(path, fmt::format("shard '{}' is not there", shard));
    source->add(std::make_unique<InputFile>(folder + shard), contents);
  }
  check_index(index, contents);
  check_total(index, contents);
  return {std::move(contents), std::move(source)};
}

} // namespace eg::data
