#include "data/npy_checks.h"
#include "data/zip.h"

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/base/words.h"
#include "core/device/transfer.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <set>

namespace eg::data {
namespace {

constexpr std::string_view extension = ".npy";

std::string member_source(const InputFile& file, const ZipMember& member) {
  return fmt::format("{}: member '{}'", file.path(), printable(member.name));
}

/// Reads the npy header at the beginning of a member.
NpyHeader read_header(ZipReader& reader, const ZipMember& member, const std::string& source) {
  constexpr std::size_t front = 12;
  if (member.size < front) throw FileError(source + ": not an npy file");
  Bytes bytes(front);
  reader.read(bytes.data(), front);
  const std::uint64_t whole = npy_header_bytes(bytes, source);
  if (whole > member.size || whole < front) throw FileError(source + ": truncated in the npy header");
  bytes.resize(static_cast<std::size_t>(whole));
  reader.read(bytes.data() + front, bytes.size() - front);
  NpyHeader header = parse_npy_header(bytes, source);
  if (header.data_bytes != member.size - whole)
    throw FileError(fmt::format("{}: the values take {} bytes, the member has {} after its header", source,
                                header.data_bytes, member.size - whole));
  return header;
}

class NpzSource final : public TensorReader::Source {
public:
  explicit NpzSource(std::unique_ptr<const InputFile> file)
      : file_(std::move(file)), members_(read_zip_directory(*file_)) {}

  Tensor read(std::size_t i, const TensorInfo& info, const LoadOptions& options) const override {
    const TensorPlace place{file_->path(), info.name};
    checked_type(info.type, options.widen, place);
    ZipReader reader(*file_, members_[i]);
    const NpyHeader header = read_header(reader, members_[i], member_source(*file_, members_[i]));
    if (header.type != info.type || header.dims != info.dims) place.fail("changed since the file was opened");
    const NpyLayout layout = npy_layout(header, place);
    const auto next = [&](std::byte* to, std::size_t bytes) { reader.read(to, bytes); };
    Tensor values = read_elements(next, header.type, header.big_endian, layout.file_shape, options.widen, place);
    reader.finish();
    return in_row_major(values, header, layout.shape);
  }

  /// Reads the header of every member.
  void list(TensorReader::Contents& contents) const {
    for (const ZipMember& member : members_) {
      const std::string source = member_source(*file_, member);
      if (!is_utf8(member.name) || member.name.find('\0') != std::string::npos)
        throw FileError(source + ": its name is not UTF-8, or has a zero in it");
      if (member.name.ends_with(".pkl"))
        throw FileError(source + ": a pickle, as in PyTorch's files, which can run any program and is not read: save "
                                 "the tensors as safetensors");
      if (!member.name.ends_with(extension) || member.name.size() == extension.size())
        throw FileError(source + ": not an npy file by its name");
      ZipReader reader(*file_, member);
      const NpyHeader header = read_header(reader, member, source);
      contents.tensors.push_back({member.name.substr(0, member.name.size() - extension.size()), header.type,
                                  header.dims, header.data_bytes, 0});
    }
  }

private:
  std::unique_ptr<const InputFile> file_;
  std::vector<ZipMember> members_;
};

void check_names(const NamedTensors& tensors) {
  std::set<std::string> seen;
  for (const auto& [name, tensor] : tensors) {
    if (name.empty()) throw ValueError("save_npz: a tensor has an empty name");
    if (!is_utf8(name) || name.find('\0') != std::string::npos)
      throw ValueError("save_npz: a name is not UTF-8, or has a zero in it");
    if (!seen.insert(name).second) throw ValueError(fmt::format("save_npz: two tensors are called '{}'", name));
    if (!tensor.has_storage()) throw ValueError(fmt::format("save_npz: tensor '{}' has no values", name));
  }
}

ByteView bytes_of(const void* data, std::size_t bytes) { return {static_cast<const std::uint8_t*>(data), bytes}; }

} // namespace

TensorReader open_npz(std::unique_ptr<const InputFile> file) {
  TensorReader::Contents contents;
  contents.path = file->path();
  contents.format = "npz";
  contents.files = {file->path()};
  auto source = std::make_unique<NpzSource>(std::move(file));
  source->list(contents);
  return {std::move(contents), std::move(source)};
}

NamedTensors load_npz(const std::string& path, const LoadOptions& options) {
  const TensorReader reader = open_npz(std::make_unique<InputFile>(path));
  NamedTensors tensors;
  for (std::size_t i = 0; i < reader.tensors().size(); ++i)
    tensors.emplace_back(reader.tensors()[i].name, reader.read(i, options));
  return tensors;
}

void save_npz(const std::string& path, const NamedTensors& tensors) {
  check_names(tensors);
  AtomicFile file(path);
  ZipWriter zip(file);
  for (const auto& [name, tensor] : tensors) {
    const std::string header = npy_header_text(tensor, name);
    const Tensor here = device::on_cpu(tensor);
    const Tensor packed = here.is_contiguous() ? here : here.clone();
    const std::size_t bytes = packed.nbytes();
    const ByteView values = bytes > 0 ? bytes_of(packed.bytes(), bytes) : ByteView();
    zip.begin(name + std::string(extension), header.size() + bytes,
              crc32(values, crc32(bytes_of(header.data(), header.size()))));
    zip.write(header.data(), header.size());
    zip.write(values.data(), values.size());
  }
  zip.finish();
  file.commit();
}

} // namespace eg::data
