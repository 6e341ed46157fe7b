#include "data/safetensors_header.h"

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/json.h"
#include "core/device/transfer.h"
#include "data/weights_files.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

namespace eg::data {
namespace {

constexpr std::uint64_t alignment = 8;

std::string_view file_type(DType dtype) {
  switch (dtype) {
  case DType::f32:
    return name_of(ElementType::f32);
  case DType::f64:
    return name_of(ElementType::f64);
  case DType::i64:
    return name_of(ElementType::i64);
  case DType::u8:
    return name_of(ElementType::u8);
  case DType::boolean:
    return name_of(ElementType::boolean);
  case DType::bf16:
    return name_of(ElementType::bf16);
  }
  throw DTypeError("save_safetensors: no file type for " + std::string(name_of(dtype)));
}

void check_names(const NamedTensors& tensors) {
  std::set<std::string> seen;
  for (const auto& [name, tensor] : tensors) {
    if (name.empty()) throw ValueError("save_safetensors: a tensor has an empty name");
    if (name == safetensors_metadata_key) throw ValueError("save_safetensors: the name '__metadata__' is reserved");
    if (!seen.insert(name).second) throw ValueError(fmt::format("save_safetensors: two tensors are called '{}'", name));
    if (!tensor.defined()) throw ValueError(fmt::format("save_safetensors: tensor '{}' has no values", name));
  }
}

void require_values(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors)
    if (!tensor.has_storage()) throw ValueError(fmt::format("save_safetensors: tensor '{}' has no values", name));
}

/// JSON as text. Throws ValueError where a name is not UTF-8.
template <class Json> std::string dump(const Json& json, int indent) {
  try {
    return json.dump(indent);
  } catch (const nlohmann::json::exception&) {
    throw ValueError("save_safetensors: a name or text is not UTF-8");
  }
}

std::string header_text(const NamedTensors& ordered, const Metadata& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json[safetensors_metadata_key] = metadata;
  std::uint64_t at = 0;
  for (const auto& [name, tensor] : ordered) {
    const std::uint64_t end = at + tensor.nbytes();
    json[name] = {{"dtype", file_type(tensor.dtype())}, {"shape", tensor.shape().dims()}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = dump(json, -1);
  text.resize((text.size() + alignment - 1) / alignment * alignment, ' ');
  return text;
}

/// In the given order; a tensor that does not fit where there are others already begins a new shard, and one that is
/// larger than a shard has one of its own.
std::vector<NamedTensors> shards_of(const NamedTensors& tensors, std::uint64_t max_bytes) {
  std::vector<NamedTensors> shards(1);
  std::uint64_t used = 0;
  for (const auto& item : tensors) {
    const std::uint64_t bytes = item.second.nbytes();
    if (!shards.back().empty() && bytes > max_bytes - std::min(used, max_bytes)) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(item);
    used += bytes;
  }
  return shards;
}

void refuse_existing(const std::string& folder, const char* name) {
  const std::string path = join_path(folder, name);
  if (file_exists(path))
    throw FileError(path +
                    ": is there already; a set of files cannot be replaced at once: remove it first, or write to "
                    "another folder");
}

} // namespace

void save_safetensors(const std::string& path, const NamedTensors& tensors, const Metadata& metadata) {
  require_values(tensors);
  save_safetensors(
      path, tensors, [&](std::size_t i) { return tensors[i].second; }, metadata);
}

void save_safetensors(const std::string& path, const NamedTensors& shapes, FunctionRef<Tensor(std::size_t i)> values,
                      const Metadata& metadata) {
  check_names(shapes);
  std::vector<std::size_t> order(shapes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size_of(shapes[a].second.dtype()) > size_of(shapes[b].second.dtype());
  });
  NamedTensors ordered;
  for (const std::size_t i : order) ordered.push_back(shapes[i]);
  const std::string header = header_text(ordered, metadata);
  const std::uint64_t length = header.size();
  AtomicFile file(path);
  file.write(&length, sizeof length);
  file.write(header);
  for (const std::size_t i : order) {
    poll_interrupt(); // the old file stays
    const Tensor here = device::on_cpu(values(i));
    const auto& [name, shape] = shapes[i];
    if (here.dtype() != shape.dtype() || !(here.shape() == shape.shape()))
      throw ValueError(fmt::format("save_safetensors: tensor '{}' is {} {}, and {} {} was announced", name,
                                   name_of(here.dtype()), here.shape().str(), name_of(shape.dtype()),
                                   shape.shape().str()));
    const Tensor packed = here.is_contiguous() ? here : here.clone();
    if (packed.numel() > 0) file.write(packed.bytes(), packed.nbytes());
  }
  file.commit();
}

std::vector<std::string> save_sharded(const std::string& folder, const NamedTensors& tensors,
                                      const ShardOptions& options) {
  if (options.max_bytes == 0) throw ValueError("save_sharded: max_bytes is 0");
  check_names(tensors);
  require_values(tensors);
  refuse_existing(folder, index_name);
  const std::vector<NamedTensors> shards = shards_of(tensors, options.max_bytes);
  if (shards.size() == 1) {
    save_safetensors(join_path(folder, single_name), tensors, options.metadata);
    return {single_name};
  }
  refuse_existing(folder, single_name);
  std::vector<std::string> names;
  std::uint64_t total = 0;
  nlohmann::json map = nlohmann::json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    names.push_back(fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size()));
    for (const auto& [name, tensor] : shards[i]) {
      map[name] = names.back();
      total += tensor.nbytes();
    }
  }
  const std::string index = dump(nlohmann::json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}, 2) + "\n";
  for (std::size_t i = 0; i < shards.size(); ++i)
    save_safetensors(join_path(folder, names[i]), shards[i], options.metadata);
  write_file(join_path(folder, index_name), std::string_view(index));
  names.emplace_back(index_name);
  return names;
}

} // namespace eg::data
