#include "apps/split/last_answer.h"

#include "permute/digest.h"

#include <cstring>
#include <filesystem>

namespace eg::split_learning {
namespace {

// Magic, step, serial and digest (little-endian, as the machines are that this is built for), the answer, a checksum.
constexpr std::string_view magic = "EQGLAST1";
constexpr std::size_t head_bytes = 8 + 8 + 8 + 32, checksum_bytes = 32;

std::string path_of(const std::string& folder) { return join_path(folder, "last_answer"); }

permute::DigestBytes checksum_of(ByteView bytes) { return permute::digest_of(bytes, "split learning"); }

} // namespace

void write_last_answer(const std::string& folder, const LastAnswer& last) {
  Bytes bytes(head_bytes);
  std::memcpy(bytes.data(), magic.data(), magic.size());
  std::memcpy(bytes.data() + 8, &last.step, 8);
  std::memcpy(bytes.data() + 16, &last.serial, 8);
  std::memcpy(bytes.data() + 24, last.digest.data(), last.digest.size());
  bytes.insert(bytes.end(), last.answer.begin(), last.answer.end());
  const auto sum = checksum_of(bytes);
  bytes.insert(bytes.end(), sum.begin(), sum.end());
  write_file(path_of(folder), ByteView(bytes));
}

void remove_last_answer(const std::string& folder) {
  std::error_code gone;
  std::filesystem::remove(path_of(folder), gone);
}

std::optional<LastAnswer> read_last_answer(const std::string& folder) {
  if (!file_exists(path_of(folder))) return {};
  const Bytes bytes = read_file(path_of(folder));
  if (bytes.size() < head_bytes + checksum_bytes || std::memcmp(bytes.data(), magic.data(), magic.size()) != 0)
    return {};
  const std::size_t end = bytes.size() - checksum_bytes;
  const auto sum = checksum_of(ByteView(bytes).first(end));
  if (std::memcmp(sum.data(), bytes.data() + end, checksum_bytes) != 0) return {};
  LastAnswer last;
  std::memcpy(&last.step, bytes.data() + 8, 8);
  std::memcpy(&last.serial, bytes.data() + 16, 8);
  std::memcpy(last.digest.data(), bytes.data() + 24, last.digest.size());
  last.answer.assign(bytes.begin() + head_bytes, bytes.begin() + static_cast<std::ptrdiff_t>(end));
  return last;
}

} // namespace eg::split_learning
