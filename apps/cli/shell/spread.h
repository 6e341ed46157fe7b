#pragma once
// Spreads the parts of a verb over the processes that a launcher started, and gathers what they give.

#include "apps/cli/shell/verb.h"

#include "distributed/error.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace eg::cli {

/// What becomes of a part's result on its way to another process: CBOR, which keeps every bit of a number, infinite
/// ones too.
std::string packed(const nlohmann::json& record);
/// Throws DistributedError for what is no CBOR.
nlohmann::json unpacked(const std::string& bytes);

/// What becomes of a part's result when another process needs it.
template <class Result> struct RecordForm {
  nlohmann::json (*to_record)(const Result& result);
  Result (*from_record)(const nlohmann::json& record); ///< may throw nlohmann::json::exception, eg::Error
};

/// What spread() calls beside its work; all may be empty.
template <class Result> struct SpreadOptions {
  std::vector<double> costs = {}; ///< estimates, in any unit: several processes begin with the dearest parts
  std::function<void(const Result& result)> on_result = {}; ///< on the first process, in the parts' order
  std::function<void(std::size_t done)> on_progress = {};   ///< there too, now and then
};

/// Whether no other process shares the work.
bool alone(const CommonOptions& common);
/// Whether this process is the one that speaks and writes.
bool speaks(const CommonOptions& common);

/// For a verb whose results hold times, where several processes compute on one host: "4 processes share the 2
/// processors of node7: their times are longer than those of one". "" elsewhere.
std::string sharing_words(const CommonOptions& common);
/// Prints it as a note.
void say_sharing(const CommonOptions& common);

/// Each record that `run` returns for parts 0 to `parts` - 1, in their order, on every process; each part is computed
/// by one of them (distributed/deal.h). Checks that all processes were given the same command. `on_result` and
/// `on_progress` are for the first process. Throws what deal() throws, Interrupted after Ctrl-C.
std::vector<std::string> spread_records(const CommonOptions& common, std::size_t parts,
                                        const std::function<std::string(std::size_t part)>& run,
                                        const SpreadOptions<std::string>& options);

/// What `run` returns for each part, in their order. One process alone computes them one after another, and what they
/// throw passes through. Several share them: spread_records().
template <class Result>
std::vector<Result> spread(const CommonOptions& common, std::size_t parts,
                           const std::function<Result(std::size_t part)>& run, const RecordForm<Result>& form,
                           const SpreadOptions<Result>& options = {}) {
  std::vector<Result> results;
  if (alone(common)) {
    for (std::size_t part = 0; part < parts; ++part) {
      if (options.on_progress) options.on_progress(part);
      results.push_back(run(part));
      if (options.on_result) options.on_result(results.back());
    }
    return results;
  }
  const auto read = [&form](const std::string& bytes) {
    try {
      return form.from_record(unpacked(bytes));
    } catch (const nlohmann::json::exception& error) {
      throw distributed::DistributedError(std::string("a result of another process cannot be read: ") + error.what());
    }
  };
  SpreadOptions<std::string> raw{.costs = options.costs, .on_result = {}, .on_progress = options.on_progress};
  if (options.on_result) raw.on_result = [&](const std::string& bytes) { options.on_result(read(bytes)); };
  const auto run_packed = [&](std::size_t part) { return packed(form.to_record(run(part))); };
  for (const std::string& bytes : spread_records(common, parts, run_packed, raw)) results.push_back(read(bytes));
  return results;
}

} // namespace eg::cli
