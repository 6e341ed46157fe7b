// Memory that runs out while a file is decoded is told apart from a damaged file, whatever allocation fails.

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "data/dataset.h"
#include "data/image.h"
#include "data/text/text.h"
#include "data/unpack.h"
#include "data_samples.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

#include <csignal>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace eg;
using namespace eg::data;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

/// Notes that a test does not run where memory cannot be limited.
bool not_limited() {
  if (sanitized) test::skip("out of memory", "a sanitizer reserves the address space itself");
  return sanitized;
}

enum Ending : int { whole = 0, memory_error = 1, called_corrupt = 2, other = 3 };

/// What is done, and what the message about memory has to begin with and to contain.
struct Work {
  std::string front, words;
  std::function<void()> run;
};

/// How `work` ends in a process of its own that may have `more` bytes of addresses beyond what it has already.
Ending with_memory(std::size_t more, const Work& work) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t bytes = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + more;
    const rlimit limit{bytes, bytes};
    Ending ending = other;
    try {
      if (::setrlimit(RLIMIT_AS, &limit) == 0) {
        work.run();
        ending = whole;
      }
    } catch (const MemoryError& e) {
      const std::string words = e.what();
      const auto has = [&](const std::string& part) { return words.find(part) != std::string::npos; };
      ending = words.starts_with(work.front) && has(work.words) && has("ulimit -v") ? memory_error : other;
    } catch (const FileError&) {
      ending = called_corrupt;
    } catch (...) {
    }
    ::_exit(ending);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? static_cast<Ending>(WEXITSTATUS(status)) : other;
}

/// Every amount from nothing to what is enough: some fail, none is called damage.
void sweep(std::size_t most, const Work& work) {
  int failed = 0;
  int passed = 0;
  constexpr std::size_t steps = 60;
  for (std::size_t i = 0; i <= steps; ++i) {
    const Ending ending = with_memory(most / steps * i, work);
    CAPTURE(i);
    CHECK(ending != called_corrupt);
    CHECK(ending != other);
    failed += ending == memory_error ? 1 : 0;
    passed += ending == whole ? 1 : 0;
  }
  CHECK(failed > 5);
  CHECK(passed > 0);
}

} // namespace

TEST_CASE("out of memory: a picture and packed files, at every amount of memory") {
  if (not_limited()) return;
  Image image{1200, 1100, 3, std::vector<std::uint8_t>(std::size_t{1200} * 1100 * 3)};
  for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<std::uint8_t>(i / 977 * 31);
  const Bytes png = encode_png(image);
  sweep(std::size_t{24} << 20, {"it.png: ", "out of memory: ", [&] { decode_image(png, "it.png", 3); }});
  sweep(std::size_t{24} << 20, {"it.xz: ", "out of memory: ", [&] { unpack(test::xz_sample(), "it.xz"); }});
  const Bytes content(std::size_t{4} << 20, 7);
  const Bytes packed = test::gzip(content);
  sweep(std::size_t{40} << 20, {"it.gz: ", "out of memory: ", [&] { unpack(packed, "it.gz"); }});
}

TEST_CASE("out of memory: texts and image folders, with the size that was wanted") {
  if (not_limited()) return;
  const test::TemporaryFolder folder;
  const std::string path = folder.path("long.txt");
  write_file(path, std::string(std::size_t{8} << 20, 'x'));
  const std::string wanted = " more bytes could not be had; ";
  sweep(std::size_t{24} << 20, {path + ": ", std::to_string(std::size_t{8} << 20) + wanted, [&] { read_text(path); }});
  for (int i = 0; i < 4; ++i) {
    std::filesystem::create_directories(folder.path("pets/cat"));
    write_file(folder.path("pets/cat/" + std::to_string(i) + ".png"), encode_png({1, 1, 3, {1, 2, 3}}));
  }
  const std::string pets = folder.path("pets");
  const auto read = [&] { read_image_folder(pets, pets, 1000); };
  sweep(std::size_t{48} << 20, {pets, "out of memory: ", read});
}
