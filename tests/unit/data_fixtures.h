#pragma once
// What the tests of the data room share.

#include "core/base/bytes.h"
#include "data/unpack.h"
#include "support/message.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace eg::test {

inline std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

inline std::vector<std::string> lines_of(const std::string& path) {
  const Bytes bytes = data::read_unpacked(path);
  return split(std::string(bytes.begin(), bytes.end()), '\n');
}

/// Writes a file without waiting for the disk, as write_file does: for tests that write thousands.
inline void write_quickly(const std::string& path, ByteView bytes) {
  std::filesystem::remove(path); // ext4 waits for the disk where a file is cut and written again
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

} // namespace eg::test
