#include "core/device/shared_library.h"

#include <cstdint>
#include <cstring>
#include <elf.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <vector>

namespace eg::device {
namespace {

/// Reads `count` structures at a place of the file; empty where they do not fit into it.
template <class T>
std::vector<T> read_at(std::ifstream& in, std::uint64_t size, std::uint64_t at, std::uint64_t count) {
  std::vector<T> all;
  if (at > size || count > (size - at) / sizeof(T)) return all;
  all.resize(count);
  in.seekg(static_cast<std::streamoff>(at));
  in.read(reinterpret_cast<char*>(all.data()), static_cast<std::streamsize>(count * sizeof(T)));
  if (!in) all.clear();
  return all;
}

} // namespace

std::string why_no_whole_library(const std::string& file) {
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(file, error);
  std::ifstream in(file, std::ios::binary);
  if (error || !in) return "cannot be read";
  const auto cut = [&](std::uint64_t end) {
    return fmt::format("is cut short: it has {} bytes, its headers name {}", size, end);
  };
  const std::vector<Elf64_Ehdr> headers = read_at<Elf64_Ehdr>(in, size, 0, 1);
  if (headers.empty())
    return size == 0 ? std::string("is empty") : fmt::format("is no shared library: it has {} bytes", size);
  const Elf64_Ehdr& h = headers[0];
  if (std::memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_type != ET_DYN ||
      h.e_phentsize != sizeof(Elf64_Phdr) || h.e_phnum == 0)
    return "is no shared library of 64 bits";
  const std::vector<Elf64_Phdr> segments = read_at<Elf64_Phdr>(in, size, h.e_phoff, h.e_phnum);
  if (segments.empty()) return cut(h.e_phoff + std::uint64_t{h.e_phnum} * sizeof(Elf64_Phdr));
  std::uint64_t end = 0;
  const auto reaches = [&](std::uint64_t offset, std::uint64_t bytes) {
    const std::uint64_t last = bytes > UINT64_MAX - offset ? UINT64_MAX : offset + bytes;
    end = last > end ? last : end;
  };
  for (const Elf64_Phdr& segment : segments) reaches(segment.p_offset, segment.p_filesz);
  // Sections are not mapped, but a file that lacks some was cut: the table of them is its end.
  if (h.e_shnum > 0) reaches(h.e_shoff, std::uint64_t{h.e_shnum} * sizeof(Elf64_Shdr));
  return end > size ? cut(end) : std::string();
}

} // namespace eg::device
