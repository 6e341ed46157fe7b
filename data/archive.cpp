// xz and tar through libarchive, which sees bytes in memory only and is offered no other format or filter.

#include "data/archives.h"

#include "core/base/error.h"
#include "core/base/out_of_memory.h"

#include <archive.h>
#include <archive_entry.h>
#include <cerrno>
#include <fmt/format.h>
#include <memory>

namespace eg::data {

namespace {

struct CloseArchive {
  void operator()(archive* a) const { archive_read_free(a); }
};
using Reader = std::unique_ptr<archive, CloseArchive>;

std::string reason_of(archive* a) {
  const char* text = archive_error_string(a);
  if (text == nullptr) return "unknown error";
  const std::string reason = text;
  return reason.find("No progress") != std::string::npos ? "the packed data end too early" : reason; // liblzma's words
}

/// Throws what libarchive's error is: MemoryError, or FileError with `what` and its reason.
[[noreturn]] void fail(archive* a, const std::string& source, const char* what) {
  if (archive_errno(a) == ENOMEM) fail_out_of_memory(fmt::format("{}: unpacking", source));
  throw FileError(fmt::format("{}: {}: {}", source, what, reason_of(a)));
}

void check(int status, archive* a, const std::string& source, const char* what) {
  if (status != ARCHIVE_OK) fail(a, source, what);
}

Reader new_reader(const std::string& source) {
  Reader reader(archive_read_new());
  if (!reader) fail_out_of_memory(fmt::format("{}: unpacking", source));
  return reader;
}

constexpr std::size_t block = std::size_t{1} << 20;

Bytes read_all(archive* a, const std::string& source, std::uint64_t limit) {
  Bytes out;
  std::size_t size = 0;
  for (;;) {
    if (out.size() - size < block)
      resize_for(fmt::format("{}: after {} bytes unpacked", source, size), out, size + size / 2 + block);
    const la_ssize_t got = archive_read_data(a, out.data() + size, out.size() - size);
    if (got < 0) fail(a, source, "truncated or corrupt");
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
    if (size > limit) throw FileError(fmt::format("{}: unpacks to more than {} bytes", source, limit));
  }
  out.resize(size);
  return out;
}

} // namespace

Bytes unpack_xz(ByteView packed, const std::string& source, std::uint64_t limit) {
  const Reader reader = new_reader(source);
  archive* a = reader.get();
  check(archive_read_support_filter_xz(a), a, source, "cannot unpack");
  check(archive_read_support_format_raw(a), a, source, "cannot unpack");
  check(archive_read_support_format_empty(a), a, source, "cannot unpack");
  check(archive_read_open_memory(a, packed.data(), packed.size()), a, source, "truncated or corrupt");
  archive_entry* entry = nullptr;
  const int status = archive_read_next_header(a, &entry);
  Bytes out;
  if (status != ARCHIVE_EOF) {
    check(status, a, source, "truncated or corrupt");
    out = read_all(a, source, limit);
  }
  return out;
}

namespace {

Bytes read_member(archive* a, archive_entry* entry, const std::string& source, std::size_t tar_size) {
  const char* path = archive_entry_pathname(entry);
  const std::string where = fmt::format("{}: member '{}'", source, path != nullptr ? path : "?");
  if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr)
    throw FileError(where + ": not a regular file");
  const auto size = archive_entry_size(entry);
  if (path == nullptr || size < 0 || static_cast<std::uint64_t>(size) > tar_size)
    throw FileError(where + ": corrupt header");
  Bytes bytes;
  resize_for(where, bytes, static_cast<std::size_t>(size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const la_ssize_t got = archive_read_data(a, bytes.data() + done, bytes.size() - done);
    if (got < 0) fail(a, where, "truncated or corrupt");
    if (got == 0) throw FileError(fmt::format("{}: truncated after {} of {} bytes", where, done, bytes.size()));
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

} // namespace

void read_tar_members(ByteView tar, const std::string& source, FunctionRef<void(const ArchiveMember&)> visit) {
  const Reader reader = new_reader(source);
  archive* a = reader.get();
  check(archive_read_support_format_tar(a), a, source, "cannot read the archive");
  check(archive_read_open_memory(a, tar.data(), tar.size()), a, source, "not a tar archive");
  for (;;) {
    archive_entry* entry = nullptr;
    const int status = archive_read_next_header(a, &entry);
    if (status == ARCHIVE_EOF) return;
    check(status, a, source, "truncated or corrupt archive");
    if (archive_entry_filetype(entry) == AE_IFDIR) continue;
    const Bytes bytes = read_member(a, entry, source, tar.size());
    visit({archive_entry_pathname(entry), bytes});
  }
}

} // namespace eg::data
