#include "permute/key_file.h"

#include "core/base/input_file.h"

namespace eg::permute {

bool is_key_file(const std::string& path) {
  const InputFile file(path);
  std::array<unsigned char, key_file_magic.size()> begin{};
  if (file.size() < begin.size()) return false;
  file.read(0, begin.data(), begin.size());
  return begin == key_file_magic;
}

} // namespace eg::permute
