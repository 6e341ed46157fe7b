#include "data/safetensors_header.h"

#include "core/base/json_walk.h"
#include "data/foreign_format.h"
#include "data/tensor_place.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <limits>

namespace eg::data {
namespace {

/// More axes than any tensor has; bounds what a header can make us hold.
constexpr std::size_t most_axes = 64;

/// Builds entries from the events of the JSON text, so that memory is needed for them alone.
class HeaderReader final : public JsonVisitor {
public:
  HeaderReader(TensorFileHeader& header, const std::string& source) : header_(header), source_(source) {}

  void open(bool object) override {
    switch (level_) {
    case 0:
      if (!object) fail_file("the header is not a JSON object");
      break;
    case 1:
      if (!object && metadata_) fail_file("__metadata__ is not an object");
      if (!object) fail("its description is not an object");
      seen_ = {};
      break;
    case 2:
      if (metadata_ || object || field_ == Field::dtype) wrong_kind();
      if (field_ == Field::offsets) offsets_ = 0;
      break;
    default:
      wrong_kind();
    }
    ++level_;
  }

  void close() override {
    --level_;
    if (level_ == 1 && !metadata_) finish_entry();
    if (level_ == 2 && field_ == Field::offsets && offsets_ != 2) wrong_kind();
  }

  void key(std::string& name) override {
    if (level_ == 1)
      begin_entry(name);
    else if (metadata_)
      text_key_ = std::move(name);
    else
      begin_field(name);
  }

  void scalar(const JsonScalar& value) override {
    if (level_ == 0) fail_file("the header is not a JSON object");
    if (level_ == 1 && metadata_) fail_file("__metadata__ is not an object");
    if (level_ == 1) fail("its description is not an object");
    if (metadata_)
      add_text(value);
    else if (level_ == 2)
      set_dtype(value);
    else
      add_number(value);
  }

private:
  enum class Field : std::uint8_t { dtype, shape, offsets };
  static constexpr std::array<const char*, 3> fields{"dtype", "shape", "data_offsets"};

  [[noreturn]] void fail(const std::string& reason) const { TensorPlace{source_, entry_.name}.fail(reason); }
  [[noreturn]] void fail_file(const std::string& reason) const { throw FileError(source_ + ": " + reason); }

  /// The value that follows the current field is none that it can have.
  [[noreturn]] void wrong_kind() const {
    if (metadata_) fail_file(fmt::format("__metadata__ entry '{}' is not a text", text_key_));
    if (field_ == Field::dtype) fail("dtype is not a text");
    if (field_ == Field::offsets) fail("data_offsets is not a pair of whole numbers");
    fail(level_ == 2 ? "shape is not a list" : "shape has an entry that is not a whole number");
  }

  void begin_entry(std::string& name) {
    metadata_ = name == safetensors_metadata_key;
    if (metadata_ && has_metadata_) fail_file("JSON key '__metadata__' is given twice");
    has_metadata_ = has_metadata_ || metadata_;
    entry_ = {};
    entry_.name = std::move(name);
  }

  void begin_field(const std::string& name) {
    const auto* found = std::find(fields.begin(), fields.end(), name);
    if (found == fields.end()) fail("its description has keys other than dtype, shape and data_offsets");
    field_ = static_cast<Field>(found - fields.begin());
    bool& seen = seen_[static_cast<std::size_t>(field_)];
    if (seen) fail(fmt::format("JSON key '{}' is given twice", name));
    seen = true;
  }

  void finish_entry() {
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (!seen_[i]) fail(fmt::format("its description has no {}", fields[i]));
    check_size();
    entry_.dims.shrink_to_fit();
    header_.entries.push_back(std::move(entry_));
  }

  void check_size() const {
    const TensorPlace place{source_, entry_.name};
    if (entry_.begin > entry_.end) fail(fmt::format("data_offsets [{}, {}] run backwards", entry_.begin, entry_.end));
    std::uint64_t bits = bits_of(entry_.type);
    for (const std::int64_t extent : entry_.dims)
      bits = checked_product(bits, static_cast<std::uint64_t>(extent), place);
    if (bits % 8 != 0)
      fail(fmt::format("shape [{}] of {} does not fill whole bytes", fmt::join(entry_.dims, ", "),
                       name_of(entry_.type)));
    if (bits / 8 != entry_.end - entry_.begin)
      fail(fmt::format("shape [{}] of {} takes {} bytes, data_offsets [{}, {}] hold {}", fmt::join(entry_.dims, ", "),
                       name_of(entry_.type), bits / 8, entry_.begin, entry_.end, entry_.end - entry_.begin));
  }

  void add_text(const JsonScalar& value) {
    if (value.kind != JsonScalar::Kind::text) wrong_kind();
    if (!header_.metadata.emplace(text_key_, std::move(*value.text)).second)
      fail_file(fmt::format("JSON key '{}' is given twice", text_key_));
  }

  void set_dtype(const JsonScalar& value) {
    if (field_ != Field::dtype || value.kind != JsonScalar::Kind::text) wrong_kind();
    const auto type = element_named(*value.text);
    if (!type) fail(fmt::format("unknown dtype '{}'", *value.text));
    entry_.type = *type;
  }

  void add_number(const JsonScalar& value) {
    if (value.kind != JsonScalar::Kind::whole) wrong_kind();
    if (field_ == Field::offsets) {
      if (offsets_ == 2) wrong_kind();
      (offsets_++ == 0 ? entry_.begin : entry_.end) = value.whole;
      return;
    }
    if (value.whole > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      fail("its size overflows 64 bits");
    if (entry_.dims.size() == most_axes) fail(fmt::format("more than {} axes", most_axes));
    entry_.dims.push_back(static_cast<std::int64_t>(value.whole));
  }

  TensorFileHeader& header_;
  const std::string& source_;
  int level_ = 0; ///< 1: names, 2: fields or metadata, 3: lists
  bool metadata_ = false;
  bool has_metadata_ = false;
  std::string text_key_;
  TensorEntry entry_;
  Field field_ = Field::dtype;
  std::array<bool, 3> seen_{};
  int offsets_ = 0;
};

void check_names(const std::vector<TensorEntry>& entries, const std::string& source) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const TensorEntry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw FileError(fmt::format("{}: JSON key '{}' is given twice", source, *twice));
}

/// Ranges must follow each other from 0 to the end of the data, without overlap or hole.
void check_ranges(const std::vector<TensorEntry>& entries, std::uint64_t data_bytes, const std::string& source) {
  std::uint64_t at = 0;
  for (const TensorEntry& entry : entries) {
    const TensorPlace place{source, entry.name};
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

} // namespace

std::uint64_t safetensors_header_length(ByteView front, std::uint64_t file_bytes, const std::string& source) {
  if (file_bytes < safetensors_length_bytes)
    throw FileError(fmt::format("{}: not a safetensors file: {} bytes, at least 8 are needed", source, file_bytes));
  std::uint64_t length = 0;
  std::memcpy(&length, front.data(), safetensors_length_bytes);
  // Only where no header can be: 640 bytes of one begin as a pickle does.
  const bool impossible = length > safetensors_max_header || length > file_bytes - safetensors_length_bytes;
  if (const std::string_view is = foreign_format(front); impossible && !is.empty())
    throw FileError(fmt::format("{}: {}", source, is));
  if (length > safetensors_max_header)
    throw FileError(fmt::format("{}: not a safetensors file: header of {} bytes, at most {} are allowed", source,
                                length, safetensors_max_header));
  if (length > file_bytes - safetensors_length_bytes)
    throw FileError(fmt::format("{}: truncated: the header has {} bytes, the file only {} after its length", source,
                                length, file_bytes - safetensors_length_bytes));
  return length;
}

TensorFileHeader parse_safetensors_header(std::string_view text, std::uint64_t file_bytes, const std::string& source) {
  TensorFileHeader header;
  header.data_begin = safetensors_length_bytes + text.size();
  HeaderReader reader(header, source);
  walk_json(text, source, reader);
  check_names(header.entries, source);
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  check_ranges(header.entries, file_bytes - header.data_begin, source);
  return header;
}

TensorFileHeader read_safetensors_header(const InputFile& file) {
  std::array<std::uint8_t, safetensors_length_bytes> front{};
  if (file.size() >= front.size()) file.read(0, front.data(), front.size());
  std::string text(static_cast<std::size_t>(safetensors_header_length(front, file.size(), file.path())), '\0');
  file.read(safetensors_length_bytes, text.data(), text.size());
  return parse_safetensors_header(text, file.size(), file.path());
}

TensorFileHeader read_safetensors_header(const std::string& path) { return read_safetensors_header(InputFile(path)); }

} // namespace eg::data
