#include "permute/permutation_file.h"

#include "permute/file_errors.h"

#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

namespace eg::permute {
namespace {

constexpr const char* format_name = "equigrad-permutations";
constexpr std::uintmax_t largest_file = 1U << 28;

std::string read_text(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) fail(path, "cannot read the permutation file: " + error.message());
  if (size > largest_file) fail(path, fmt::format("too large for a permutation file: {} bytes", size));
  std::ifstream in(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(size), '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(size))) fail(path, "cannot read the permutation file");
  return text;
}

} // namespace

void save_permutations(const std::filesystem::path& path, const PermutationSet& permutations) {
  nlohmann::ordered_json groups = nlohmann::ordered_json::object();
  for (const auto& [group, p] : permutations) groups[group] = p.gather();
  nlohmann::ordered_json file = {{"format", format_name}, {"version", 1}};
  file["groups"] = std::move(groups);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << file.dump() << '\n';
  out.close();
  if (!out) fail(path, "cannot write the permutation file");
}

PermutationSet load_permutations(const std::filesystem::path& path) {
  PermutationSet result;
  try {
    const nlohmann::json file = nlohmann::json::parse(read_text(path));
    if (file.at("format") != format_name) fail(path, "not a file of permutations");
    if (file.at("version") != 1)
      fail(path, "version " + file.at("version").dump() + " is not known; this program reads 1");
    for (const auto& [group, gather] : file.at("groups").items())
      result.emplace(group, Permutation(gather.get<std::vector<std::int64_t>>()));
  } catch (const nlohmann::json::exception& error) {
    fail(path, fmt::format("not a file of permutations: {}", error.what()));
  } catch (const ValueError& error) {
    fail(path, error.what());
  }
  return result;
}

} // namespace eg::permute
