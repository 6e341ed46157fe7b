#pragma once
// Writes what went wrong: kernel, block and thread, and the file and line of a place or of an instruction.

#include "core/cuda/emulator/running.h"

#include <map>
#include <string>
#include <variant>
#include <vector>

namespace eg::emulator {

/// Words with instructions between them, which are looked up when the finding is reported, on the host's stack.
struct Finding {
  std::vector<std::variant<std::string, const void*>> parts;

  Finding() = default;
  Finding(std::string words) { parts.emplace_back(std::move(words)); } // NOLINT(google-explicit-constructor)
  Finding& operator<<(std::string words) {
    parts.emplace_back(std::move(words));
    return *this;
  }
  Finding& operator<<(const char* words) { return *this << std::string(words); }
  Finding& operator<<(const void* instruction) {
    parts.emplace_back(instruction);
    return *this;
  }
  bool empty() const { return parts.empty(); }
};

/// "(1,0,0)".
std::string words_of(const Extent& extent);
/// "load4 at kernels.cu:12", or "kernels.cu:12" where nothing is called.
std::string words_of(const Place& place);
/// The name without the parentheses that commas need.
std::string kernel_name(const Place& place);

/// The memory that a program or shared library takes.
struct Image {
  const std::byte *begin = nullptr, *end = nullptr, *base = nullptr;
  std::string path;
  bool contains(const void* at) const { return at >= begin && at < end; }
};

/// Looks up images and lines of code, and remembers what it found.
class Reporter {
public:
  /// The program or library that holds `at`; empty where none does.
  const Image& image_of(const void* at);
  /// "kernels.cu:12 in softmax", by addr2line; for inlined code "gpu.h:3 in kernels.cu:12 in softmax".
  std::string code(const void* return_address);
  std::string text(const Finding& finding);

private:
  std::vector<Image> images_;
  Image nothing_;
  std::map<const void*, std::string> codes_;
};

} // namespace eg::emulator
