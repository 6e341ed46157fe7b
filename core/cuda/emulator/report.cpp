#include "core/cuda/emulator/report.h"

#include <cstdio>
#include <link.h>
#include <string_view>
#include <unistd.h>

namespace eg::emulator {

namespace {

/// Without namespaces that have no name, and without parameters.
std::string function_name(std::string name) {
  constexpr std::string_view unnamed = "(anonymous namespace)::";
  for (std::size_t at = 0; (at = name.find(unnamed)) != std::string::npos;) name.erase(at, unnamed.size());
  return name.substr(0, name.find('('));
}

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

Image image_around(const void* at) {
  struct Search {
    const std::byte* at;
    Image found;
  } search{static_cast<const std::byte*>(at), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        const auto* const base = reinterpret_cast<const std::byte*>(info->dlpi_addr);
        const std::byte *begin = nullptr, *end = nullptr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD) continue;
          const std::byte* const from = base + segment.p_vaddr;
          if (begin == nullptr) begin = from;
          end = from + segment.p_memsz;
        }
        if (begin == nullptr || wanted.at < begin || wanted.at >= end) return 0;
        wanted.found = {begin, end, base, info->dlpi_name};
        return 1;
      },
      &search);
  if (search.found.begin != nullptr && search.found.path.empty())
    search.found.path = "/proc/" + std::to_string(getpid()) + "/exe";
  return search.found;
}

/// The lines that a command prints.
std::vector<std::string> output_of(const std::string& command) {
  std::vector<std::string> lines;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return lines;
  std::string text;
  for (char part[256]; std::fgets(part, sizeof part, pipe) != nullptr;) {
    text += part;
    if (text.ends_with('\n')) {
      text.pop_back();
      lines.push_back(text);
      text.clear();
    }
  }
  pclose(pipe);
  return lines;
}

} // namespace

std::string words_of(const Extent& extent) {
  return "(" + std::to_string(extent.x) + "," + std::to_string(extent.y) + "," + std::to_string(extent.z) + ")";
}

std::string words_of(const Place& place) {
  const std::string what(place.what);
  return (what.empty() ? "" : what + " at ") + base_name(place.file) + ":" + std::to_string(place.line);
}

std::string kernel_name(const Place& place) {
  const std::string name(place.what);
  return name.starts_with('(') && name.ends_with(')') ? name.substr(1, name.size() - 2) : name;
}

const Image& Reporter::image_of(const void* at) {
  for (const Image& image : images_)
    if (image.contains(at)) return image;
  Image found = image_around(at);
  if (found.begin == nullptr) return nothing_;
  images_.push_back(std::move(found));
  return images_.back();
}

std::string Reporter::code(const void* return_address) {
  if (const auto known = codes_.find(return_address); known != codes_.end()) return known->second;
  const Image image = image_of(return_address);
  char offset[32];
  std::snprintf(offset, sizeof offset, "0x%zx",
                static_cast<std::size_t>(static_cast<const std::byte*>(return_address) - image.base - 1));
  std::string words;
  if (image.begin != nullptr) {
    // Pairs of lines: a function, and FILE:LINE; what is inlined comes first.
    const std::vector<std::string> lines = output_of("addr2line -f -i -C -e '" + image.path + "' " + offset);
    for (std::size_t i = 0; i + 1 < lines.size(); i += 2) {
      std::string place = base_name(lines[i + 1]);
      place = place.substr(0, place.find(' ')); // "(discriminator 2)"
      if (place.starts_with('?')) continue;
      words += (words.empty() ? "" : " in ") + place;
      if (i + 2 >= lines.size()) words += " in " + function_name(lines[i]);
    }
  }
  if (words.empty()) words = base_name(image.path) + "+" + offset;
  return codes_[return_address] = words;
}

std::string Reporter::text(const Finding& finding) {
  std::string all;
  for (const auto& part : finding.parts)
    all += std::holds_alternative<std::string>(part) ? std::get<std::string>(part) : code(std::get<const void*>(part));
  return all;
}

} // namespace eg::emulator
