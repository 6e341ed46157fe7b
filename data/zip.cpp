// The directory of a zip archive. Every number in it is compared with the file before it is used.

#include "data/zip.h"

#include "core/base/error.h"
#include "core/base/words.h"
#include "data/zip_format.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <string_view>

namespace eg::data {
namespace {

using namespace zip_format;

constexpr std::uint32_t end64_mark = 0x06064B50;     // its zip64 form
constexpr std::uint32_t locator64_mark = 0x07064B50; // where that is
constexpr std::size_t end_bytes = 22;
constexpr std::size_t end64_bytes = 56;
constexpr std::size_t locator64_bytes = 20;
constexpr std::size_t entry_bytes = 46;
constexpr std::uint64_t max_directory = 64 << 20;
constexpr std::uint64_t deflate_ratio = 1032; // 258 bytes for 2 bits

[[noreturn]] void fail(const InputFile& file, std::string_view reason) {
  throw FileError(fmt::format("{}: {}", file.path(), reason));
}

/// Little-endian numbers one after another; the caller has made sure that they exist.
class Fields {
public:
  explicit Fields(ByteView bytes) : bytes_(bytes) {}
  std::uint64_t next(std::size_t width) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < width; ++i) value |= std::uint64_t{bytes_[at_ + i]} << (8 * i);
    at_ += width;
    return value;
  }
  void skip(std::size_t bytes) { at_ += bytes; }
  std::size_t left() const { return bytes_.size() - at_; }
  ByteView take(std::size_t bytes) {
    const ByteView part = bytes_.subspan(at_, bytes);
    at_ += bytes;
    return part;
  }

private:
  ByteView bytes_;
  std::size_t at_ = 0;
};

/// Where the directory is and how many members it has.
struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t members = 0;
  std::uint64_t end = 0; ///< where what follows the directory begins
};

Bytes read_part(const InputFile& file, std::uint64_t offset, std::size_t bytes) {
  Bytes part(bytes);
  file.read(offset, part.data(), bytes);
  return part;
}

/// The end record is the last part of the file but for a comment whose length it gives.
std::uint64_t find_end(const InputFile& file) {
  constexpr std::uint64_t longest = end_bytes + 0xFFFF;
  if (file.size() < end_bytes) fail(file, "not a whole zip archive: it has no directory");
  const auto tail = static_cast<std::size_t>(std::min(file.size(), longest));
  const Bytes bytes = read_part(file, file.size() - tail, tail);
  for (std::size_t at = tail - end_bytes + 1; at-- > 0;) {
    Fields fields(ByteView(bytes).subspan(at));
    if (fields.next(4) != end_mark) continue;
    fields.skip(16);
    if (fields.next(2) == tail - at - end_bytes) return file.size() - tail + at;
  }
  fail(file, "not a whole zip archive: it has no directory");
}

/// The zip64 record, if there is one before the end record at `end`.
std::optional<Directory> read_end64(const InputFile& file, std::uint64_t end) {
  if (end < locator64_bytes) return {};
  const Bytes locator = read_part(file, end - locator64_bytes, locator64_bytes);
  Fields place(locator);
  if (place.next(4) != locator64_mark) return {};
  place.skip(4);
  const std::uint64_t at = place.next(8);
  if (at > end - locator64_bytes || end - locator64_bytes - at < end64_bytes)
    fail(file, "corrupt zip archive: its zip64 record lies outside");
  const Bytes record = read_part(file, at, end64_bytes);
  Fields fields(record);
  if (fields.next(4) != end64_mark) fail(file, "corrupt zip archive: it has no zip64 record");
  fields.skip(8 + 2 + 2);
  const std::uint64_t parts = fields.next(4) + fields.next(4);
  Directory found;
  const std::uint64_t members_here = fields.next(8);
  found.members = fields.next(8);
  found.bytes = fields.next(8);
  found.offset = fields.next(8);
  found.end = at;
  if (parts != 0 || members_here != found.members) fail(file, "zip archives of several parts are not read");
  return found;
}

Directory find_directory(const InputFile& file) {
  const std::uint64_t end = find_end(file);
  const Bytes record = read_part(file, end, end_bytes);
  Fields fields(record);
  fields.skip(4);
  const std::uint64_t parts = fields.next(2) + fields.next(2);
  const std::uint64_t members_here = fields.next(2);
  Directory found;
  found.members = fields.next(2);
  found.bytes = fields.next(4);
  found.offset = fields.next(4);
  found.end = end;
  if (const auto large = read_end64(file, end))
    found = *large;
  else if (parts != 0 || members_here != found.members)
    fail(file, "zip archives of several parts are not read");
  if (found.offset > found.end || found.end - found.offset != found.bytes)
    fail(file, "corrupt zip archive: its directory does not lie where it should");
  if (found.bytes > max_directory) fail(file, fmt::format("zip directory of {} bytes is too large", found.bytes));
  if (found.members > found.bytes / entry_bytes) fail(file, "corrupt zip archive: more members than its directory has");
  return found;
}

/// Sizes and place that do not fit 32 bits are in an extra field, in this order.
void read_zip64_field(const InputFile& file, ByteView extra, ZipMember& member) {
  constexpr std::uint64_t elsewhere = 0xFFFFFFFF;
  Fields fields(extra);
  while (fields.left() >= 4) {
    const std::uint64_t kind = fields.next(2);
    const std::uint64_t bytes = fields.next(2);
    if (bytes > fields.left()) break;
    Fields field(fields.take(static_cast<std::size_t>(bytes)));
    if (kind != 1) continue;
    for (std::uint64_t* value : {&member.size, &member.packed, &member.header})
      if (*value == elsewhere) {
        if (field.left() < 8) fail(file, fmt::format("member '{}': corrupt zip64 field", printable(member.name)));
        *value = field.next(8);
      }
    return;
  }
}

void check_member(const InputFile& file, const ZipMember& member, const Directory& directory) {
  const auto refuse = [&](const std::string& reason) {
    fail(file, fmt::format("member '{}': {}", printable(member.name), reason));
  };
  if (member.header > directory.offset || directory.offset - member.header < local_bytes ||
      directory.offset - member.header - local_bytes < member.packed)
    refuse("its bytes lie outside the archive");
  if (!member.deflated && member.size != member.packed)
    refuse(fmt::format("stored, but of {} bytes and {} unpacked", member.packed, member.size));
  if (member.deflated && member.size / deflate_ratio > member.packed)
    refuse(fmt::format("{} bytes cannot unpack to {}", member.packed, member.size));
}

ZipMember read_entry(const InputFile& file, Fields& fields, const Directory& directory) {
  const auto corrupt = [&]() { fail(file, "corrupt zip archive: its directory ends within an entry"); };
  if (fields.left() < entry_bytes) corrupt();
  if (fields.next(4) != entry_mark) fail(file, "corrupt zip archive: no entry where one should be in its directory");
  fields.skip(4);
  const std::uint64_t flags = fields.next(2);
  const std::uint64_t method = fields.next(2);
  fields.skip(4);
  ZipMember member;
  member.crc = static_cast<std::uint32_t>(fields.next(4));
  member.packed = fields.next(4);
  member.size = fields.next(4);
  const auto name = static_cast<std::size_t>(fields.next(2));
  const auto extra = static_cast<std::size_t>(fields.next(2));
  const auto comment = static_cast<std::size_t>(fields.next(2));
  fields.skip(8);
  member.header = fields.next(4);
  if (fields.left() < name + extra + comment) corrupt();
  const ByteView text = fields.take(name);
  member.name.assign(text.begin(), text.end());
  read_zip64_field(file, fields.take(extra), member);
  fields.skip(comment);
  constexpr std::uint64_t encrypted = 1 | 1 << 6 | 1 << 13;
  if ((flags & encrypted) != 0) fail(file, fmt::format("member '{}': encrypted", printable(member.name)));
  if (method != 0 && method != 8)
    fail(file, fmt::format("member '{}': packed by method {}; stored and deflated (8) are read", printable(member.name),
                           method));
  member.deflated = method == 8;
  check_member(file, member, directory);
  return member;
}

void check_all(const InputFile& file, const std::vector<ZipMember>& members) {
  std::vector<const ZipMember*> order;
  order.reserve(members.size());
  for (const ZipMember& member : members) order.push_back(&member);
  const auto refuse = [&](const ZipMember& member, std::string_view reason) {
    fail(file, fmt::format("member '{}': {}", printable(member.name), reason));
  };
  std::sort(order.begin(), order.end(), [](const ZipMember* a, const ZipMember* b) { return a->name < b->name; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i - 1]->name == order[i]->name) refuse(*order[i], "given twice");
  std::sort(order.begin(), order.end(), [](const ZipMember* a, const ZipMember* b) { return a->header < b->header; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i]->header - order[i - 1]->header < local_bytes + order[i - 1]->packed)
      refuse(*order[i], "its bytes overlap those of another member");
}

} // namespace

std::vector<ZipMember> read_zip_directory(const InputFile& file) {
  const Directory directory = find_directory(file);
  const Bytes bytes = read_part(file, directory.offset, static_cast<std::size_t>(directory.bytes));
  Fields fields(bytes);
  std::vector<ZipMember> members;
  for (std::uint64_t i = 0; i < directory.members; ++i) members.push_back(read_entry(file, fields, directory));
  if (fields.left() != 0) fail(file, "corrupt zip archive: its directory has more than its members");
  check_all(file, members);
  return members;
}

} // namespace eg::data
