#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/file_descriptor.h"
#include "data/unpack.h"
#include "data_fixtures.h"
#include "data_samples.h"

#include <cstdio>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

using namespace eg;
using namespace eg::data;
using namespace eg::test;

namespace {

std::map<std::string, Bytes> members_of(ByteView bytes) {
  std::map<std::string, Bytes> out;
  read_tar_bytes(bytes, "a.tar", [&](const ArchiveMember& m) { out[m.name] = Bytes(m.bytes.begin(), m.bytes.end()); });
  return out;
}

std::string unpack_refusal(const Bytes& bytes, std::uint64_t limit = default_byte_limit) {
  return message_of<FileError>([&] { unpack(bytes, "a.gz", limit); });
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 0777U;
}

/// A standard stream of this process that appends to a file while it lives.
class Redirected {
public:
  Redirected(FILE* stream, const std::string& path) : stream_(stream), before_(::dup(::fileno(stream))) {
    std::fflush(stream_);
    const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    ::dup2(file.get(), ::fileno(stream_));
  }
  ~Redirected() {
    std::fflush(stream_);
    ::dup2(before_.get(), ::fileno(stream_));
  }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

private:
  FILE* stream_;
  FileDescriptor before_;
};

} // namespace

TEST_CASE("bytes: files are read whole or refused by name") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a");
  write_file(path, std::string_view("hello"));
  CHECK(read_file(path) == text("hello"));
  CHECK(read_unpacked(path) == text("hello"));
  CHECK(message_of<FileError>([&] { read_file(path, 4); }) == path + ": 5 bytes, more than the 4 that are read");
  CHECK(message_of<FileError>([&] { read_file(path + "b"); }) == path + "b: cannot open: No such file or directory");
  CHECK(message_of<FileError>([&] { read_file(folder.path()); }) == folder.path() + ": not a regular file");
  REQUIRE(::mkfifo(folder.path("pipe").c_str(), 0600) == 0);
  CHECK(message_of<FileError>([&] { read_file(folder.path("pipe")); }).ends_with("pipe: not a regular file"));
  CHECK(join_path("", "b") == "b");
  CHECK(join_path("a/", "b") == "a/b");
  CHECK(join_path("a", "b") == "a/b");
}

TEST_CASE("bytes: an atomic file appears complete or not at all") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a");
  {
    AtomicFile file(path);
    file.write("unfinished");
  }
  CHECK(folder.names().empty());
  write_file(path, std::string_view("first"));
  {
    AtomicFile one(path);
    AtomicFile two(path); // two writers do not share a temporary file
    one.write("one");
    two.write("two");
    CHECK(read_file(path) == text("first"));
    two.commit();
    one.commit();
  }
  CHECK(read_file(path) == text("one"));
  CHECK(folder.names() == std::vector<std::string>{"a"});
}

TEST_CASE("bytes: a new file has the mode of the one whose place it takes, also while it is written") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a");
  const mode_t before = ::umask(022);
  write_file(path, std::string_view("new"));
  CHECK(mode_of(path) == 0644);
  for (const mode_t mode : {0600U, 0640U, 0755U, 0666U, 0400U}) {
    CAPTURE(mode);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    AtomicFile file(path);
    file.write("again");
    for (const std::string& name : folder.names()) CHECK((mode_of(folder.path(name)) & ~mode) == 0);
    file.commit();
    CHECK(mode_of(path) == mode);
  }
  ::umask(before);
  CHECK(folder.names() == std::vector<std::string>{"a"});
}

TEST_CASE("bytes: a file that stdout or stderr goes to is written to, not replaced") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a");
  for (FILE* stream : {stdout, stderr})
    for (const std::string& name : {std::string(stream == stdout ? "/dev/stdout" : "/dev/stderr"), path}) {
      CAPTURE(name);
      std::filesystem::remove(path);
      write_file(path, std::string_view("old\n"));
      {
        const Redirected redirected(stream, path);
        std::fputs("before\n", stream);
        write_file(name, std::string_view("it\n"));
        std::fputs("behind\n", stream);
      }
      CHECK(read_file(path) == text("old\nbefore\nit\nbehind\n"));
      CHECK(folder.names() == std::vector<std::string>{"a"});
    }
  write_file(path, std::string_view("replaced"));
  CHECK(read_file(path) == text("replaced"));
}

TEST_CASE("bytes: CRC-32 of known texts") {
  CHECK(crc32(text("")) == 0U);
  CHECK(crc32(text("123456789")) == 0xCBF43926U);
  const Bytes long_text = text("The quick brown fox jumps over the lazy dog");
  CHECK(crc32(long_text) == 0x414FA339U);
  CHECK(crc32(ByteView(long_text).subspan(20), crc32(ByteView(long_text).first(20))) == 0x414FA339U);
}

TEST_CASE("gzip: whole files are unpacked, damaged ones refused") {
  const Bytes content = text("some bytes that are not compressed at all");
  const Bytes good = gzip(content);
  CHECK(unpack(good, "a.gz") == content);
  CHECK(unpack(content, "plain") == content);
  CHECK(unpack(gzip({}), "a.gz").empty());
  CHECK(unpack_refusal(good, 10) == "a.gz: unpacks to more than 10 bytes");
  for (std::size_t size = 2; size < good.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(unpack(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)), "a.gz"), FileError);
  }
  for (std::size_t i = 10; i < good.size(); ++i) { // the ten header bytes hold nothing that matters
    Bytes bad = good;
    bad[i] ^= 0x04;
    CAPTURE(i);
    CHECK_THROWS_AS(unpack(bad, "a.gz"), FileError);
  }
  Bytes flipped = good;
  flipped[20] ^= 1;
  CHECK(unpack_refusal(flipped).starts_with("a.gz: gzip checksum does not match"));
}

TEST_CASE("tar: regular files are visited, everything else is refused") {
  const Bytes big(1500, 7);
  const Bytes good = tar({{"a/one.txt", text("one")}, {"b/big", big}, {"empty", {}}});
  CHECK(members_of(good) == std::map<std::string, Bytes>{{"a/one.txt", text("one")}, {"b/big", big}, {"empty", {}}});
  CHECK(members_of(unpack(gzip(good), "a.tar.gz")).size() == 3);
  const auto words = [](const Bytes& bytes) { return message_of<FileError>([&] { members_of(bytes); }); };
  CHECK(words({}) == "a.tar: truncated, or not a tar archive: its end marker is missing");
  CHECK(words(text("hello")) == "a.tar: truncated, or not a tar archive: its end marker is missing");
  CHECK(words(tar({{"link", {}}}, '2')) == "a.tar: member 'link': not a regular file");
  CHECK(words(tar({{"link", {}}}, '1')) == "a.tar: member 'link': not a regular file");
  CHECK(words(tar({{"device", {}}}, '3')) == "a.tar: member 'device': not a regular file");
  CHECK(members_of(tar({{"folder/", {}}}, '5')).empty());
  for (std::size_t size = 0; size < good.size(); size += 256)
    CHECK_THROWS_AS(members_of(ByteView(good).first(size)), FileError);
  Bytes bad = good;
  bad[3] ^= 1;
  CHECK_THROWS_AS(members_of(bad), FileError);
}

TEST_CASE("xz: a small file, every cut and every flipped byte") {
  CHECK(unpack(xz_sample(), "a.xz") == text("equigrad"));
  for (std::size_t size = 6; size < xz_sample().size(); ++size) {
    Bytes cut = xz_sample();
    cut.resize(size);
    CAPTURE(size);
    CHECK(message_of<FileError>([&] { unpack(std::move(cut), "a.xz"); }).starts_with("a.xz: truncated or corrupt: "));
  }
  for (std::size_t i = 6; i < xz_sample().size(); ++i) {
    Bytes bad = xz_sample();
    bad[i] ^= 0x10;
    CAPTURE(i);
    CHECK_THROWS_AS(unpack(std::move(bad), "a.xz"), FileError);
  }
}

TEST_CASE("xz: a real file, whole, cut and damaged") {
  const auto path =
      data_or_skip("xz: a real file, whole, cut and damaged", "cifar10/cifar10_lossless_test_1017.bin.xz");
  if (path.empty()) return;
  const Bytes packed = read_file(path.string());
  const Bytes whole = unpack(packed, "a.xz");
  CHECK(whole.size() == 1017 * 3073);
  CHECK_THROWS_AS(unpack(packed, "a.xz", 1 << 20), FileError);
  for (const std::size_t size :
       {std::size_t{6}, std::size_t{12}, std::size_t{100}, packed.size() / 2, packed.size() - 100, packed.size() - 1}) {
    CAPTURE(size);
    CHECK(message_of<FileError>([&] {
            unpack(Bytes(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size)), "a.xz");
          }).starts_with("a.xz: truncated or corrupt: "));
  }
  for (const std::size_t at : {std::size_t{7}, std::size_t{1000}, packed.size() / 2, packed.size() - 3}) {
    Bytes bad = packed;
    bad[at] ^= 0x20;
    CAPTURE(at);
    CHECK_THROWS_AS(unpack(std::move(bad), "a.xz"), FileError);
  }
}
