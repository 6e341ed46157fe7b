#include "distributed/launch.h"

#include "core/base/error.h"

#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>

namespace eg::distributed {
namespace {

/// The number in a variable; nothing where it is not set.
std::optional<int> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return {};
  const std::string_view word = text;
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < 0)
    throw ValueError(fmt::format("{} is '{}', not the number that a launcher of MPI sets", variable, word));
  return value;
}

} // namespace

std::optional<Launch> launch() {
  struct Names {
    const char *launcher, *rank, *size;
  };
  for (const Names& names :
       {Names{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, Names{"MPICH", "PMI_RANK", "PMI_SIZE"},
        Names{"PMIx", "PMIX_RANK", "SLURM_STEP_NUM_TASKS"}}) {
    const std::optional<int> rank = number_in(names.rank);
    if (!rank) continue;
    int size = number_in(names.size).value_or(0);
    if (size == 1 && names.launcher == std::string_view("PMIx")) size = 0; // of a Slurm step whose shell starts more
    if (size > 0 && *rank >= size)
      throw ValueError(fmt::format("{} is {}, and {} is {}", names.rank, *rank, names.size, size));
    return Launch{names.launcher, *rank, size};
  }
  return {};
}

} // namespace eg::distributed
