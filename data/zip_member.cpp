// One member of a zip archive: read and checked against its directory entry, or written.

#include "data/zip.h"

#include "core/base/error.h"
#include "core/base/words.h"
#include "data/inflate.h"
#include "data/zip_format.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace eg::data {
namespace {

using namespace zip_format;

std::uint64_t number_at(ByteView bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) value |= std::uint64_t{bytes[at + i]} << (8 * i);
  return value;
}

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(i < 8 ? value >> (8 * i) & 0xFFU : 0U);
}

} // namespace

/// The packed bytes of a member, piece by piece.
class ZipReader::Pieces {
public:
  Pieces(const InputFile& file, std::uint64_t offset, std::uint64_t bytes)
      : file_(file), at_(offset), end_(offset + bytes) {}

  ByteView next() {
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(piece_.size(), end_ - at_));
    if (bytes > 0) file_.read(at_, piece_.data(), bytes);
    at_ += bytes;
    return ByteView(piece_).first(bytes);
  }

private:
  const InputFile& file_;
  std::uint64_t at_, end_;
  Bytes piece_ = Bytes(std::size_t{1} << 16);
};

ZipReader::ZipReader(const InputFile& file, const ZipMember& member) : file_(file), member_(member) {
  std::array<std::uint8_t, local_bytes> front{};
  if (member.header > file.size() || file.size() - member.header < local_bytes) fail("its header lies outside");
  file.read(member.header, front.data(), front.size());
  const auto name_bytes = static_cast<std::size_t>(number_at(front, 26, 2));
  const std::uint64_t before = local_bytes + name_bytes + number_at(front, 28, 2);
  if (number_at(front, 0, 4) != local_mark || number_at(front, 8, 2) != (member.deflated ? 8U : 0U) ||
      name_bytes != member.name.size())
    fail("its header contradicts the directory");
  std::string name(name_bytes, '\0');
  at_ = member.header + before;
  if (at_ > file.size() || file.size() - at_ < member.packed) fail("its bytes lie outside the archive");
  file.read(member.header + local_bytes, name.data(), name.size());
  if (name != member.name) fail("its header contradicts the directory");
  if (!member.deflated) return;
  pieces_ = std::make_unique<Pieces>(file, at_, member.packed);
  inflater_ = std::make_unique<Inflater>([pieces = pieces_.get()] { return pieces->next(); },
                                         fmt::format("{}: member '{}'", file.path(), printable(member.name)));
}

ZipReader::~ZipReader() = default;

void ZipReader::fail(const std::string& reason) const {
  throw FileError(fmt::format("{}: member '{}': {}", file_.path(), printable(member_.name), reason));
}

void ZipReader::read(void* to, std::size_t bytes) {
  if (bytes > member_.size - done_) fail(fmt::format("truncated after {} bytes", member_.size));
  auto* out = static_cast<std::uint8_t*>(to);
  if (!inflater_) {
    file_.read(at_, out, bytes);
    at_ += bytes;
  } else {
    const std::size_t got = inflater_->read(out, bytes);
    if (got < bytes) fail(fmt::format("its packed data end after {} of {} bytes", done_ + got, member_.size));
  }
  crc_ = crc32({out, bytes}, crc_);
  done_ += bytes;
}

void ZipReader::finish() {
  if (done_ != member_.size) fail(fmt::format("{} bytes after what belongs there", member_.size - done_));
  std::uint8_t more = 0;
  if (inflater_ && inflater_->read(&more, 1) != 0)
    fail("its packed data are corrupt: they unpack to more than it says");
  if (crc_ != member_.crc) fail("checksum does not match: it is corrupt");
}

void ZipWriter::begin(const std::string& name, std::uint64_t size, std::uint32_t crc) {
  constexpr std::uint64_t most = 0xFFFFFFFE;
  constexpr std::size_t most_members = 0xFFFE;
  if (size > most || at_ > most - size || name.size() > 0xFFFF)
    throw ValueError("save_npz: more than 4 GiB do not fit: save them as safetensors");
  if (members_.size() == most_members) throw ValueError("save_npz: more tensors than a zip archive holds");
  members_.push_back({name, at_, size, size, crc, false});
  std::string header;
  put(header, local_mark, 4);
  put(header, 20, 2);      // version needed: 2.0
  put(header, 1 << 11, 2); // names are UTF-8
  put(header, 0, 2);       // stored
  put(header, 0, 2);       // time: none, so that the same tensors make the same file
  put(header, 0x21, 2);    // 1 January 1980
  put(header, crc, 4);
  put(header, size, 4);
  put(header, size, 4);
  put(header, name.size(), 2);
  put(header, 0, 2);
  header += name;
  write(header.data(), header.size());
}

void ZipWriter::write(const void* data, std::size_t bytes) {
  file_.write(data, bytes);
  at_ += bytes;
}

void ZipWriter::finish() {
  std::string directory;
  for (const ZipMember& member : members_) {
    put(directory, entry_mark, 4);
    put(directory, 20, 2); // made by, and needed: version 2.0
    put(directory, 20, 2);
    put(directory, 1 << 11, 2); // names are UTF-8
    put(directory, 0, 2);       // stored
    put(directory, 0, 2);       // midnight
    put(directory, 0x21, 2);    // 1 January 1980
    put(directory, member.crc, 4);
    put(directory, member.size, 4);
    put(directory, member.size, 4);
    put(directory, member.name.size(), 2);
    put(directory, 0, 12); // no extra field, comment, other part, attributes
    put(directory, member.header, 4);
    directory += member.name;
  }
  const std::uint64_t offset = at_;
  if (offset + directory.size() > 0xFFFFFFFE)
    throw ValueError("save_npz: more than 4 GiB do not fit: save them as safetensors");
  const std::size_t bytes = directory.size();
  put(directory, end_mark, 4);
  put(directory, 0, 4);
  put(directory, members_.size(), 2);
  put(directory, members_.size(), 2);
  put(directory, bytes, 4);
  put(directory, offset, 4);
  put(directory, 0, 2);
  write(directory.data(), directory.size());
}

} // namespace eg::data
