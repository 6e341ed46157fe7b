#include "data/safetensors.h"

#include "data/json.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace eg::data {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian and is copied as it lies");

namespace {

constexpr std::uint64_t length_bytes = 8;
constexpr std::uint64_t max_header_bytes = 100'000'000; // the reference implementation's cap
constexpr std::uint64_t alignment = 8;
constexpr const char* metadata_key = "__metadata__";

struct FileType {
  std::string_view name;
  unsigned bytes;
};
constexpr std::array file_types{FileType{"BOOL", 1},    FileType{"U8", 1},  FileType{"I8", 1},  FileType{"F8_E5M2", 1},
                                FileType{"F8_E4M3", 1}, FileType{"I16", 2}, FileType{"U16", 2}, FileType{"F16", 2},
                                FileType{"BF16", 2},    FileType{"I32", 4}, FileType{"U32", 4}, FileType{"F32", 4},
                                FileType{"F64", 8},     FileType{"I64", 8}, FileType{"U64", 8}};

struct Supported {
  std::string_view name;
  DType dtype;
};
constexpr std::array supported{Supported{"F32", DType::f32},      Supported{"F64", DType::f64},
                               Supported{"I64", DType::i64},      Supported{"U8", DType::u8},
                               Supported{"BOOL", DType::boolean}, Supported{"BF16", DType::bf16}};

/// Says where in which file something is wrong.
struct Place {
  const std::string& source;
  std::string tensor;

  [[noreturn]] void fail(const std::string& reason) const {
    if (tensor.empty()) throw FileError(fmt::format("{}: {}", source, reason));
    throw FileError(fmt::format("{}: tensor '{}': {}", source, tensor, reason));
  }
};

/// a * b, or a failure when it passes 64 bits.
std::uint64_t product(std::uint64_t a, std::uint64_t b, const Place& place) {
  if (a != 0 && b > std::numeric_limits<std::uint64_t>::max() / a) place.fail("its size overflows 64 bits");
  return a * b;
}

std::vector<std::int64_t> read_dims(const nlohmann::json& value, const Place& place) {
  if (!value.is_array()) place.fail("shape is not a list");
  std::vector<std::int64_t> dims;
  for (const auto& extent : value) {
    if (!extent.is_number_unsigned()) place.fail("shape has an entry that is not a whole number");
    const auto number = extent.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      place.fail("its size overflows 64 bits");
    dims.push_back(static_cast<std::int64_t>(number));
  }
  return dims;
}

void read_range(const nlohmann::json& value, TensorEntry& entry, const Place& place) {
  if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() || !value[1].is_number_unsigned())
    place.fail("data_offsets is not a pair of whole numbers");
  entry.begin = value[0].get<std::uint64_t>();
  entry.end = value[1].get<std::uint64_t>();
  if (entry.begin > entry.end) place.fail(fmt::format("data_offsets [{}, {}] run backwards", entry.begin, entry.end));
}

TensorEntry read_entry(const std::string& name, const nlohmann::json& value, const std::string& source) {
  const Place place{source, name};
  if (!value.is_object()) place.fail("its description is not an object");
  for (const char* key : {"dtype", "shape", "data_offsets"})
    if (!value.contains(key)) place.fail(fmt::format("its description has no {}", key));
  if (value.size() != 3) place.fail("its description has keys other than dtype, shape and data_offsets");
  if (!value["dtype"].is_string()) place.fail("dtype is not a text");
  TensorEntry entry;
  entry.name = name;
  entry.dtype = value["dtype"].get<std::string>();
  const auto* type = std::find_if(file_types.begin(), file_types.end(),
                                  [&](const FileType& known) { return known.name == entry.dtype; });
  if (type == file_types.end()) place.fail(fmt::format("unknown dtype '{}'", entry.dtype));
  entry.dims = read_dims(value["shape"], place);
  read_range(value["data_offsets"], entry, place);
  std::uint64_t bytes = type->bytes;
  for (const std::int64_t extent : entry.dims) bytes = product(bytes, static_cast<std::uint64_t>(extent), place);
  if (bytes != entry.end - entry.begin)
    place.fail(fmt::format("shape [{}] of {} takes {} bytes, data_offsets [{}, {}] hold {}",
                           fmt::join(entry.dims, ", "), entry.dtype, bytes, entry.begin, entry.end,
                           entry.end - entry.begin));
  return entry;
}

Metadata read_metadata(const nlohmann::json& value, const std::string& source) {
  if (!value.is_object()) throw FileError(source + ": __metadata__ is not an object");
  Metadata metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) throw FileError(fmt::format("{}: __metadata__ entry '{}' is not a text", source, key));
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

/// Ranges must follow each other from 0 to the end of the data, without overlap or hole.
void check_ranges(const std::vector<TensorEntry>& entries, std::uint64_t data_bytes, const std::string& source) {
  std::uint64_t at = 0;
  for (const TensorEntry& entry : entries) {
    const Place place{source, entry.name};
    if (entry.begin < at)
      place.fail(fmt::format("its data overlaps that of the tensor before it at byte {}", entry.begin));
    if (entry.begin > at) place.fail(fmt::format("{} bytes before its data belong to no tensor", entry.begin - at));
    at = entry.end;
  }
  if (at > data_bytes)
    throw FileError(
        fmt::format("{}: truncated: the header describes {} bytes of data, the file has {}", source, at, data_bytes));
  if (at < data_bytes)
    throw FileError(fmt::format("{}: {} bytes after the data of the last tensor", source, data_bytes - at));
}

/// Length of the header of a file of `file_bytes` bytes that begins with `front`.
std::uint64_t header_length(ByteView front, std::uint64_t file_bytes, const std::string& source) {
  if (file_bytes < length_bytes)
    throw FileError(fmt::format("{}: not a safetensors file: {} bytes, at least 8 are needed", source, file_bytes));
  std::uint64_t length = 0;
  std::memcpy(&length, front.data(), length_bytes);
  if (length > max_header_bytes)
    throw FileError(fmt::format("{}: not a safetensors file: header of {} bytes, at most {} are allowed", source,
                                length, max_header_bytes));
  if (length > file_bytes - length_bytes)
    throw FileError(fmt::format("{}: truncated: the header has {} bytes, the file only {} after its length", source,
                                length, file_bytes - length_bytes));
  return length;
}

TensorFileHeader parse_header(std::string_view text, std::uint64_t file_bytes, const std::string& source) {
  const nlohmann::json json = parse_json(text, source);
  if (!json.is_object()) throw FileError(source + ": the header is not a JSON object");
  TensorFileHeader header;
  header.data_begin = length_bytes + text.size();
  for (const auto& [name, value] : json.items()) {
    if (name == metadata_key)
      header.metadata = read_metadata(value, source);
    else
      header.entries.push_back(read_entry(name, value, source));
  }
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  check_ranges(header.entries, file_bytes - header.data_begin, source);
  return header;
}

DType dtype_of_entry(const TensorEntry& entry, const std::string& source) {
  for (const Supported& known : supported)
    if (known.name == entry.dtype) return known.dtype;
  Place{source, entry.name}.fail(
      fmt::format("dtype {} is not read; F32, F64, BF16, I64, U8 and BOOL are", entry.dtype));
}

/// Tensors without values yet, after everything about all of them has been checked.
NamedTensors allocate(const TensorFileHeader& header, const std::string& source) {
  for (const TensorEntry& entry : header.entries) {
    dtype_of_entry(entry, source);
    if (entry.dims.size() > static_cast<std::size_t>(max_rank))
      Place{source, entry.name}.fail(
          fmt::format("{} axes, more than the {} that a tensor can have", entry.dims.size(), max_rank));
    // A zero extent makes the byte count 0 whatever the others are; their product must still fit.
    std::uint64_t elements = 1;
    for (const std::int64_t extent : entry.dims)
      if (extent != 0) elements = product(elements, static_cast<std::uint64_t>(extent), {source, entry.name});
    if (elements > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / 8)
      Place{source, entry.name}.fail("its size overflows 64 bits");
  }
  NamedTensors tensors;
  for (const TensorEntry& entry : header.entries)
    tensors.emplace_back(entry.name, Tensor::empty(Shape(entry.dims), dtype_of_entry(entry, source)));
  return tensors;
}

void check_bool(const Tensor& tensor, const std::string& name, const std::string& source) {
  if (tensor.dtype() != DType::boolean) return;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(tensor.bytes());
  if (std::any_of(bytes, bytes + tensor.numel(), [](std::uint8_t b) { return b > 1; }))
    Place{source, name}.fail("a BOOL value is neither 0 nor 1");
}

/// An open file of known size.
class InputFile {
public:
  explicit InputFile(const std::string& path) : path_(path) {
    if (!file_exists(path)) throw FileError(path + (folder_exists(path) ? ": is a folder" : ": no such file"));
    stream_.open(path, std::ios::binary | std::ios::ate);
    if (!stream_) throw FileError(path + ": cannot open");
    size_ = static_cast<std::uint64_t>(stream_.tellg());
    stream_.seekg(0);
  }
  std::uint64_t size() const { return size_; }
  void read(void* out, std::uint64_t bytes) {
    stream_.read(static_cast<char*>(out), static_cast<std::streamsize>(bytes));
    if (!stream_) throw FileError(path_ + ": cannot read, or it shrank while being read");
  }

private:
  std::string path_;
  std::ifstream stream_;
  std::uint64_t size_ = 0;
};

TensorFileHeader read_header(InputFile& file, const std::string& path) {
  std::array<std::uint8_t, length_bytes> front{};
  if (file.size() >= length_bytes) file.read(front.data(), length_bytes);
  std::string text(static_cast<std::size_t>(header_length(front, file.size(), path)), '\0');
  file.read(text.data(), text.size());
  return parse_header(text, file.size(), path);
}

// --- writing ---

std::string_view file_name_of(DType dtype) {
  for (const Supported& known : supported)
    if (known.dtype == dtype) return known.name;
  throw DTypeError("save_safetensors: no file type for " + std::string(name_of(dtype)));
}

void check_names(const NamedTensors& tensors) {
  std::set<std::string> seen;
  for (const auto& [name, tensor] : tensors) {
    if (name.empty()) throw ValueError("save_safetensors: a tensor has an empty name");
    if (name == metadata_key) throw ValueError("save_safetensors: the name '__metadata__' is reserved");
    if (!seen.insert(name).second) throw ValueError(fmt::format("save_safetensors: two tensors are called '{}'", name));
    if (!tensor.has_storage()) throw ValueError(fmt::format("save_safetensors: tensor '{}' has no values", name));
  }
}

std::string header_text(const NamedTensors& ordered, const Metadata& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json[metadata_key] = metadata;
  std::uint64_t at = 0;
  for (const auto& [name, tensor] : ordered) {
    const std::uint64_t end = at + tensor.nbytes();
    json[name] = {
        {"dtype", file_name_of(tensor.dtype())}, {"shape", tensor.shape().dims()}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const nlohmann::json::exception&) {
    throw ValueError("save_safetensors: a name or text is not UTF-8");
  }
  text.resize((text.size() + alignment - 1) / alignment * alignment, ' ');
  return text;
}

} // namespace

const Tensor* TensorFile::find(const std::string& name) const {
  const auto it = std::find_if(tensors.begin(), tensors.end(), [&](const auto& item) { return item.first == name; });
  return it == tensors.end() ? nullptr : &it->second;
}

TensorFileHeader read_safetensors_header(const std::string& path) {
  InputFile file(path);
  return read_header(file, path);
}

TensorFile load_safetensors(const std::string& path) {
  InputFile file(path);
  TensorFileHeader header = read_header(file, path);
  TensorFile result{allocate(header, path), std::move(header.metadata)};
  for (auto& [name, tensor] : result.tensors) {
    if (tensor.numel() > 0) file.read(tensor.mutable_bytes("load_safetensors"), tensor.nbytes());
    check_bool(tensor, name, path);
  }
  return result;
}

TensorFile parse_safetensors(ByteView bytes, const std::string& source) {
  const std::uint64_t length = header_length(bytes, bytes.size(), source);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + length_bytes,
                              static_cast<std::size_t>(length));
  TensorFileHeader header = parse_header(text, bytes.size(), source);
  TensorFile result{allocate(header, source), std::move(header.metadata)};
  const std::uint8_t* at = bytes.data() + header.data_begin;
  for (auto& [name, tensor] : result.tensors) {
    if (tensor.numel() > 0) std::memcpy(tensor.mutable_bytes("parse_safetensors"), at, tensor.nbytes());
    at += tensor.nbytes();
    check_bool(tensor, name, source);
  }
  return result;
}

void save_safetensors(const std::string& path, const NamedTensors& tensors, const Metadata& metadata) {
  check_names(tensors);
  NamedTensors ordered = tensors;
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return size_of(a.second.dtype()) > size_of(b.second.dtype()); });
  const std::string header = header_text(ordered, metadata);
  const std::uint64_t length = header.size();
  AtomicFile file(path);
  file.write(&length, sizeof length);
  file.write(header);
  for (const auto& item : ordered) {
    const Tensor packed = item.second.is_contiguous() ? item.second : item.second.clone();
    if (packed.numel() > 0) file.write(packed.bytes(), packed.nbytes());
  }
  file.commit();
}

} // namespace eg::data
