#include "apps/cli/shell/spread.h"

#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"

#include "core/threads/parallel.h"
#include "distributed/communicator.h"
#include "distributed/deal.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace eg::cli {

std::string packed(const nlohmann::json& record) {
  std::string bytes;
  nlohmann::json::to_cbor(record, bytes);
  return bytes;
}

nlohmann::json unpacked(const std::string& bytes) {
  nlohmann::json record = nlohmann::json::from_cbor(bytes, true, false);
  if (record.is_discarded()) throw distributed::DistributedError("a result of another process is no CBOR");
  return record;
}

bool alone(const CommonOptions& common) { return common.processes == nullptr || common.processes->alone(); }

bool speaks(const CommonOptions& common) { return common.processes == nullptr || common.processes->first(); }

std::string sharing_words(const CommonOptions& common) {
  if (alone(common)) return {};
  const std::vector<distributed::Process>& all = common.processes->processes();
  const distributed::Process& first = all.front();
  const auto there = std::count_if(all.begin(), all.end(), [&](const auto& p) { return p.host == first.host; });
  if (there < 2) return {};
  return fmt::format("{} processes with {} thread{} each share {}: times are longer than those of one process alone",
                     there, parallel::threads(), parallel::threads() == 1 ? "" : "s", first.host);
}

void say_sharing(const CommonOptions& common) {
  const std::string words = sharing_words(common);
  if (!words.empty() && common.talks()) say(fmt::format("note: {}\n", words));
}

std::vector<std::string> spread_records(const CommonOptions& common, std::size_t parts,
                                        const std::function<std::string(std::size_t part)>& run,
                                        const SpreadOptions<std::string>& options) {
  distributed::Communicator& processes = *common.processes;
  processes.require_same("the command", fmt::format("{}\n{}", EQUIGRAD_VERSION, fmt::join(common.words, "\n")));
  distributed::DealOptions deal{.costs = options.costs,
                                .on_progress = options.on_progress,
                                .check = [] { throw_if_stopped(); },
                                .stop = [] { ask_to_stop(); }};
  if (options.on_result) deal.on_result = [&](std::size_t, const std::string& record) { options.on_result(record); };
  return distributed::deal(processes, parts, run, deal);
}

} // namespace eg::cli
