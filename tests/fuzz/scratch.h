#pragma once
// Files for readers that take a path: in memory, so that a fuzzer is not slowed down by the disk.

#include "core/base/bytes.h"
#include "data/safetensors.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace eg::fuzz {

/// A file without a folder.
class ScratchFile {
public:
  ScratchFile() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (descriptor_ < 0) std::abort();
  }
  ~ScratchFile() { ::close(descriptor_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  void write(ByteView bytes) const {
    if (::ftruncate(descriptor_, 0) != 0 ||
        ::pwrite(descriptor_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
      std::abort();
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

private:
  int descriptor_;
};

/// A folder with one.safetensors (tensors a and b), two.safetensors (c) and an index, which is a link to a ScratchFile.
class ScratchShards {
public:
  ScratchShards() {
    std::string name = (std::filesystem::temp_directory_path() / "equigrad-fuzz-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
    data::save_safetensors(folder_ + "/one.safetensors", {{"a", Tensor::ones({2})}, {"b", Tensor::ones({3})}});
    data::save_safetensors(folder_ + "/two.safetensors", {{"c", Tensor::ones({1})}});
    std::filesystem::create_symlink(index_.path(), index());
  }
  ~ScratchShards() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  ScratchShards(const ScratchShards&) = delete;
  ScratchShards& operator=(const ScratchShards&) = delete;

  void write_index(ByteView bytes) const { index_.write(bytes); }
  std::string index() const { return folder_ + "/model.safetensors.index.json"; }

private:
  std::string folder_;
  ScratchFile index_;
};

} // namespace eg::fuzz
