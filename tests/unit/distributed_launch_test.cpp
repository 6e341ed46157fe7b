// What the environment says of the launcher that started this process.

#include "distributed/launch.h"

#include "support/message.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <string>

using namespace eg;
using namespace eg::distributed;
using namespace eg::test;

namespace {

constexpr const char* variables[] = {
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK", "SLURM_STEP_NUM_TASKS"};

/// What launch() finds where these variables alone are set; they are away afterwards.
std::optional<Launch> launch_with(const std::map<std::string, std::string>& environment) {
  struct Cleared {
    Cleared() { clear(); }
    ~Cleared() { clear(); }
    static void clear() {
      for (const char* name : variables) ::unsetenv(name);
    }
  } cleared;
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  return launch();
}

} // namespace

TEST_CASE("a process that no launcher started has no launch") { CHECK_FALSE(launch_with({})); }

TEST_CASE("launchers are known by their variables") {
  const auto open_mpi = launch_with({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "2"}});
  REQUIRE(open_mpi);
  CHECK(open_mpi->launcher == "Open MPI");
  CHECK(open_mpi->rank == 2);
  CHECK(open_mpi->size == 4);
  const auto mpich = launch_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}});
  REQUIRE(mpich);
  CHECK(mpich->launcher == "MPICH");
  CHECK(mpich->size == 1);
  const auto pmix = launch_with({{"PMIX_RANK", "3"}});
  REQUIRE(pmix);
  CHECK(pmix->launcher == "PMIx");
  CHECK(pmix->rank == 3);
  CHECK(pmix->size == 0);
  CHECK(launch_with({{"PMIX_RANK", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}})->size == 4);
  CHECK(launch_with({{"PMIX_RANK", "3"}, {"SLURM_STEP_NUM_TASKS", "1"}})->size == 0);
  CHECK_FALSE(launch_with({{"SLURM_STEP_NUM_TASKS", "4"}}));
}

TEST_CASE("what no launcher sets is refused with the variable's name") {
  for (const char* value : {"", "-1", "two", "1x", " 1", "99999999999999999999"})
    CHECK(message_of<ValueError>([&] { launch_with({{"PMI_RANK", value}}); }).find("PMI_RANK is '") == 0);
  CHECK(message_of<ValueError>([] {
          launch_with({{"PMI_RANK", "4"}, {"PMI_SIZE", "4"}});
        }) == "PMI_RANK is 4, and PMI_SIZE is 4");
  CHECK(message_of<ValueError>([] { launch_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "many"}}); }).find("PMI_SIZE") == 0);
}
