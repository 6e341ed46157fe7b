#include "apps/cli/main_job/doctor_processes.h"

#include "core/base/words.h"
#include "core/threads/parallel.h"
#include "distributed/communicator.h"
#include "distributed/launch.h"
#include "distributed/mpi.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <unistd.h>

namespace eg::cli {
namespace {

int online_processors() {
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  return static_cast<int>(std::max(1L, online));
}

std::string binding_words(const ProcessLine& p) {
  if (!p.bound()) return fmt::format("not bound: all {} processors of the host", p.online);
  return fmt::format("bound to {} of the host's {} processors", p.processors, p.online);
}

/// What to know where processes share processors.
std::string sharing_line(const std::vector<ProcessLine>& processes) {
  const auto shares = std::find_if(processes.begin(), processes.end(), [](const auto& p) { return p.sharing > 1; });
  if (shares == processes.end()) return {};
  return fmt::format("{} processes share processors {} of {}: {} divided by {} is a process's number of threads, at "
                     "least 1, unless --threads or EQUIGRAD_THREADS gives another",
                     shares->sharing, shares->affinity, shares->host, shares->processors, shares->sharing);
}

} // namespace

std::vector<ProcessLine> process_lines(const CommonOptions& common) {
  const std::string mine = fmt::format("{} {}", parallel::threads(), online_processors());
  const distributed::Process self = distributed::this_process();
  const std::vector<distributed::Process> all =
      common.processes == nullptr ? std::vector{self} : common.processes->processes();
  const std::vector<std::string> numbers =
      common.processes == nullptr ? std::vector{mine} : common.processes->gather(mine);
  std::vector<ProcessLine> lines;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const distributed::Process& p = all[rank];
    ProcessLine line{.rank = static_cast<int>(rank),
                     .host = p.host,
                     .pid = p.pid,
                     .affinity = p.affinity,
                     .processors = p.processors};
    const std::size_t space = numbers[rank].find(' ');
    if (space == std::string::npos) throw distributed::DistributedError(p.words(line.rank) + " sent no numbers");
    line.threads = std::atoi(numbers[rank].c_str());
    line.online = std::atoi(numbers[rank].c_str() + space);
    line.sharing = static_cast<int>(std::count_if(
        all.begin(), all.end(), [&](const auto& o) { return o.host == p.host && o.affinity == p.affinity; }));
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::pair<std::string, std::string>> mpi_lines(const CommonOptions& common,
                                                           const std::vector<ProcessLine>& processes) {
  std::vector<std::pair<std::string, std::string>> lines;
  const auto add = [&](const std::string& text) { lines.emplace_back(lines.empty() ? "MPI" : "", text); };
  for (const distributed::MpiModule& module : distributed::mpi_modules()) {
    if (module.error.empty())
      add(fmt::format("{} by {}", module.version, module.path));
    else if (module.path.empty())
      add(fmt::format("no {}: {}", module.file, module.error));
    else
      add(fmt::format("{} cannot be opened: {}", module.path, module.error));
  }
  const std::optional<distributed::Launch> launch = distributed::launch();
  if (!launch) {
    lines.emplace_back("processes", "1; no launcher started it (mpirun -n N equigrad ...)");
    return lines;
  }
  lines.emplace_back("processes", fmt::format("{}, by {}", processes.size(), common.processes->transport()));
  std::size_t host = 4, affinity = 10;
  for (const ProcessLine& p : processes) {
    host = std::max(host, p.host.size());
    affinity = std::max(affinity, p.affinity.size());
  }
  lines.emplace_back("", fmt::format("{:>4}  {:<{}}  {:>8}  {:>7}  {:<{}}  {}", "rank", "host", host, "pid", "threads",
                                     "processors", affinity, "binding"));
  for (const ProcessLine& p : processes)
    lines.emplace_back("", fmt::format("{:>4}  {:<{}}  {:>8}  {:>7}  {:<{}}  {}", p.rank, printable(p.host), host,
                                       p.pid, p.threads, p.affinity, affinity, binding_words(p)));
  if (const std::string words = sharing_line(processes); !words.empty()) lines.emplace_back("", words);
  return lines;
}

nlohmann::json mpi_json(const CommonOptions& common) {
  nlohmann::json json = {{"modules", nlohmann::json::array()}, {"launcher", nullptr}, {"library", nullptr}};
  for (const distributed::MpiModule& m : distributed::mpi_modules()) {
    const auto or_null = [](const std::string& text) {
      return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
    };
    json["modules"].push_back(
        {{"file", m.file}, {"path", or_null(m.path)}, {"version", or_null(m.version)}, {"error", or_null(m.error)}});
  }
  if (const std::optional<distributed::Launch> launch = distributed::launch()) json["launcher"] = launch->launcher;
  if (common.processes != nullptr) json["library"] = common.processes->transport();
  return json;
}

nlohmann::json processes_json(const std::vector<ProcessLine>& processes) {
  nlohmann::json json = nlohmann::json::array();
  for (const ProcessLine& p : processes)
    json.push_back({{"rank", p.rank},
                    {"host", p.host},
                    {"pid", p.pid},
                    {"threads", p.threads},
                    {"affinity", p.affinity},
                    {"processors", p.processors},
                    {"host_processors", p.online},
                    {"sharing", p.sharing},
                    {"bound", p.bound()}});
  return json;
}

} // namespace eg::cli
