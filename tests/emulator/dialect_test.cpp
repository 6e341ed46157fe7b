// The dialect: one header asks which compiler it is, and nvcc compiles what the emulator runs.

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

bool asks_for_nvcc(const std::string& text) { return text.find(std::string("__CUDA") + "CC__") != std::string::npos; }

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Sources below a root that ask whether nvcc compiles them.
std::vector<std::string> askers(const fs::path& root, std::size_t& read) {
  std::vector<std::string> found;
  for (auto at = fs::recursive_directory_iterator(root); at != fs::end(at); ++at) {
    const std::string name = at->path().filename().string(), extension = at->path().extension().string();
    if (at->is_directory() && (name == "build" || name == "out" || name.starts_with('.')))
      at.disable_recursion_pending();
    if (extension != ".h" && extension != ".cpp" && extension != ".cu" && extension != ".cuh") continue;
    ++read;
    if (asks_for_nvcc(text_of(at->path()))) found.push_back(fs::relative(at->path(), root).generic_string());
  }
  return found;
}

TEST_CASE("dialect: gpu.h alone asks which compiler it is") {
  std::size_t read = 0;
  CHECK(askers(EQUIGRAD_SOURCE_DIR, read) == std::vector<std::string>{"core/cuda/gpu.h"});
  CHECK(read > 500);
  CHECK(asks_for_nvcc(std::string("#if defined(__CUDA") + "CC__)"));
}

/// What nvcc prints about a source.
std::string nvcc_words(const std::string& nvcc, const fs::path& source) {
  const std::string command = fmt::format(
      "{} -std=c++20 -O3 -fmad=false -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 "
      "-Xcompiler -Wall,-Wextra -I{} -c {} -o /dev/null 2>&1",
      nvcc, EQUIGRAD_SOURCE_DIR, source.string());
  std::string words;
  FILE* const pipe = popen(command.c_str(), "r");
  for (char part[256]; std::fgets(part, sizeof part, pipe) != nullptr;) words += part;
  if (pclose(pipe) != 0) words += "\nnvcc failed";
  return words;
}

TEST_CASE("dialect: nvcc compiles the kernels without a warning") {
  const char* const named = std::getenv("EQUIGRAD_NVCC");
  const std::string nvcc = named != nullptr ? named : "/usr/local/cuda/bin/nvcc";
  if (!fs::exists(nvcc)) {
    MESSAGE("there is no " << nvcc << "; EQUIGRAD_NVCC names another");
    return;
  }
  const fs::path folder = EQUIGRAD_SOURCE_DIR "/tests/emulator";
  for (const char* const source : {"elements.cu", "matmul.cu", "planted.cu", "rows.cu"})
    CHECK(nvcc_words(nvcc, folder / source) == "");
  const std::string words = nvcc_words(nvcc, folder / "refused.cu");
  CHECK(words.find("Cannot store to pointer that points to constant memory") != std::string::npos);
  CHECK(words.find("uses too much shared data") != std::string::npos);
}

} // namespace
