#include "data/tensor_reader.h"

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "data/npy_checks.h"
#include "data/safetensors_header.h"
#include "data/weights_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <numeric>
#include <string_view>

namespace eg::data {
namespace {

/// The file of a model folder that holds or lists its tensors. One file has precedence over an index, as in
/// transformers.
std::string file_of_folder(const std::string& folder) {
  for (const char* name : {single_name, index_name})
    if (std::string path = join_path(folder, name); path_exists(path)) return path;
  std::string hint;
  for (const char* pickle : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (file_exists(join_path(folder, pickle)))
      hint = fmt::format("; {} is a pickle, which can run any program and is not read: save the model as safetensors",
                         pickle);
  std::error_code unreadable; // then no hint is given
  for (std::filesystem::directory_iterator at(folder, unreadable), end; !unreadable && at != end;
       at.increment(unreadable))
    if (hint.empty() && at->path().extension() == ".safetensors")
      hint = fmt::format("; name the file that you mean, as in {}", at->path().string());
  throw FileError(fmt::format("{}: the folder holds neither {} nor {}{}", folder, single_name, index_name, hint));
}

enum class Kind : std::uint8_t { safetensors, npy, zip };

/// By the first bytes; where they are ambiguous, by the name.
Kind kind_of(const InputFile& file) {
  std::array<char, 6> front{};
  if (file.size() >= front.size()) file.read(0, front.data(), front.size());
  const std::string_view text(front.data(), front.size());
  if (text == "\x93NUMPY" || file.path().ends_with(".npy")) return Kind::npy;
  const bool zip = text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06");
  return zip || file.path().ends_with(".npz") ? Kind::zip : Kind::safetensors;
}

} // namespace

std::uint64_t TensorInfo::numel() const {
  std::uint64_t product = 1;
  for (const std::int64_t extent : dims) product *= static_cast<std::uint64_t>(extent);
  return product;
}

TensorReader::TensorReader(Contents contents, std::unique_ptr<const Source> source)
    : contents_(std::make_shared<const Contents>(std::move(contents))), source_(std::move(source)) {
  std::vector<std::size_t> order(tensors().size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return tensors()[a].name < tensors()[b].name; });
  by_name_ = std::make_shared<const std::vector<std::size_t>>(std::move(order));
}

std::uint64_t TensorReader::bytes() const {
  std::uint64_t sum = 0;
  for (const TensorInfo& info : tensors()) sum += info.bytes;
  return sum;
}

const TensorInfo* TensorReader::find(const std::string& name) const {
  const auto at =
      std::lower_bound(by_name_->begin(), by_name_->end(), name,
                       [&](std::size_t i, const std::string& wanted) { return tensors()[i].name < wanted; });
  return at != by_name_->end() && tensors()[*at].name == name ? &tensors()[*at] : nullptr;
}

Tensor TensorReader::read(const std::string& name, const LoadOptions& options) const {
  const TensorInfo* info = find(name);
  if (info == nullptr) throw ValueError(fmt::format("{}: there is no tensor '{}'", path(), name));
  return source_->read(static_cast<std::size_t>(info - tensors().data()), *info, options);
}

Tensor TensorReader::read(std::size_t i, const LoadOptions& options) const {
  if (i >= tensors().size())
    throw IndexError(fmt::format("{}: tensor {} of {} does not exist", path(), i, tensors().size()));
  return source_->read(i, tensors()[i], options);
}

TensorReader open_tensors(const std::string& path) {
  const std::string name = folder_exists(path) ? file_of_folder(path) : path;
  if (name.ends_with(".json")) return open_safetensors_index(name);
  auto file = std::make_unique<InputFile>(name);
  switch (kind_of(*file)) {
  case Kind::npy:
    return open_npy(std::move(file));
  case Kind::zip:
    return open_npz(std::move(file));
  case Kind::safetensors:
    break;
  }
  return open_safetensors(std::move(file));
}

} // namespace eg::data
