#include "apps/cli/main_job/verify_job.h"

#include "apps/cli/main_job/verify_record.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/shell/verb.h"
#include "core/base/words.h"
#include "permute/catalogue/equations.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <limits>
#include <unistd.h>

namespace eg::cli {
namespace {

/// The beginning and the end of a text that is longer than `width`: titles differ at their ends.
std::string shortened(const std::string& text, std::size_t width) {
  if (text.size() <= width) return text;
  const std::size_t head = (width - 3) / 3;
  return text.substr(0, head) + "..." + text.substr(text.size() - (width - 3 - head));
}

/// Elements compared, and how many differ in bits without and with exact reductions.
std::string bits_of(const permute::VerifyResult& r) {
  if (!r.differing_exact) return {};
  return fmt::format("  {:>8}  {:>6}  {:>5}", r.compared, r.differing, *r.differing_exact);
}

/// The sums of those columns.
void print_bits(const std::vector<permute::VerifyResult>& results) {
  std::int64_t compared = 0, fast = 0, exact = 0, formulas = 0;
  for (const permute::VerifyResult& r : results) {
    compared += r.compared;
    fast += r.differing;
    exact += r.differing_exact.value_or(0);
    const auto row = std::find_if(permute::catalogue().begin(), permute::catalogue().end(),
                                  [&](const permute::Identity& identity) { return identity.id == r.id; });
    if (row->two_formulas) formulas += r.differing_exact.value_or(0);
  }
  say(fmt::format(
      "Of {} elements {} differ in bits with ordinary reductions and {} with exact ones; {} of these belong to "
      "rows whose sides are two formulas.\n",
      compared, fast, exact, formulas));
}

/// "Entries: CVPR 78, 001 40, new 12."
void print_papers(const std::vector<permute::VerifyResult>& results) {
  std::vector<std::string> parts;
  for (const auto& [paper, entries] : permute::entries_by_paper(results))
    parts.push_back(fmt::format("{} {}", paper, entries));
  say(fmt::format("Entries by paper (new: in none): {}.\n", fmt::join(parts, ", ")));
}

} // namespace

std::vector<const permute::Identity*> identities_meant(const std::string& filter) {
  std::vector<const permute::Identity*> meant;
  std::vector<std::string> ids;
  for (const permute::Identity& identity : permute::catalogue()) {
    ids.push_back(identity.id);
    if (permute::matches(identity, filter)) meant.push_back(&identity);
  }
  if (!meant.empty()) return meant;
  if (permute::numbered_equation(filter)) throw UsageError("verify: " + permute::why_nothing_fits(filter));
  std::string word = filter;
  std::erase_if(word, [](char c) { return c == '*' || c == '?'; });
  std::vector<std::string> near = near_words(word, ids, 8);
  for (const std::string& id : ids)
    if (near.size() < 8 && !word.empty() && id.find(word) != std::string::npos &&
        std::find(near.begin(), near.end(), id) == near.end())
      near.push_back(id);
  throw UsageError(fmt::format("verify: no identity fits the filter '{}'; {}", filter,
                               near.empty() ? "the ids are those of docs/catalogue.md, and 'equigrad verify' lists them"
                                            : fmt::format("ids near it: {}", fmt::join(near, ", "))));
}

std::vector<const permute::Identity*> identities_left_out(const permute::VerifyOptions& options) {
  std::vector<const permute::Identity*> meant = identities_meant(options.filter);
  std::erase_if(meant, [&](const permute::Identity* row) { return permute::why_not_on(*row, options.device).empty(); });
  return meant;
}

std::vector<permute::VerifyResult> verify_rows(const std::vector<const permute::Identity*>& rows,
                                               const permute::VerifyOptions& options, const std::vector<DType>& dtypes,
                                               const CommonOptions& common) {
  const std::size_t parts = rows.size() * dtypes.size();
  Progress progress(!common.quiet);
  const StopScope stopping;
  std::string latest;
  const auto show = [&](std::size_t done) {
    if (!latest.empty()) progress.show(static_cast<double>(done), static_cast<double>(parts), {{latest, 1}});
  };
  SpreadOptions<permute::VerifyResult> how;
  how.on_progress = show;
  for (std::size_t part = 0; part < parts; ++part) {
    const permute::Gate gate = rows[part % rows.size()]->gate;
    how.costs.push_back(gate == permute::Gate::training ? 2 : gate == permute::Gate::whole_model ? 1 : 0);
  }
  const auto check = [&](std::size_t part) {
    const permute::Identity& row = *rows[part % rows.size()];
    permute::VerifyOptions mine = options;
    mine.dtype = dtypes[part / rows.size()];
    permute::VerifyResult result = permute::verify(row, mine);
    latest = fmt::format("{} {}", name_of(mine.dtype), row.id);
    throw_if_stopped();
    return result;
  };
  return spread<permute::VerifyResult>(common, parts, check, verify_record, how);
}

std::vector<permute::VerifyResult> verify_all(const permute::VerifyOptions& options, const std::vector<DType>& dtypes,
                                              const CommonOptions& common) {
  permute::check(options);
  std::vector<const permute::Identity*> rows = identities_meant(options.filter);
  std::erase_if(rows, [&](const permute::Identity* row) { return !permute::why_not_on(*row, options.device).empty(); });
  return verify_rows(rows, options, dtypes, common);
}

void print_table(const std::vector<permute::VerifyResult>& results) {
  std::size_t id = 2;
  std::size_t title = 4;
  for (const permute::VerifyResult& r : results) {
    id = std::max(id, r.id.size());
    title = std::max(title, r.title.size());
  }
  const bool exact = std::any_of(results.begin(), results.end(),
                                 [](const permute::VerifyResult& r) { return r.differing_exact.has_value(); });
  const std::size_t other_columns = exact ? 67 : 42;
  const std::size_t width = terminal_width(STDOUT_FILENO, std::numeric_limits<std::size_t>::max());
  title = std::clamp(width - std::min(width, id + other_columns), std::min<std::size_t>(title, 16), title);
  say(fmt::format("{:<{}}  type  {:<{}}  {:>7}  {:>5}  {:>7}{}\n", "id", id, "what", title, "error", "gate", "control",
                  exact ? "  elements  differ  exact" : ""));
  for (const permute::VerifyResult& r : results) {
    if (!r.skipped.empty()) {
      say(fmt::format("{:<{}}  {:<4}  {:<{}}  skipped: {}\n", r.id, id, name_of(r.dtype), shortened(r.title, title),
                      title, r.skipped));
      continue;
    }
    say(fmt::format("{:<{}}  {:<4}  {:<{}}  {:>7.1e}  {:>5.0e}  {:>7.1e}{}  {}\n", r.id, id, name_of(r.dtype),
                    shortened(r.title, title), title, r.error, r.tolerance, r.control.error, bits_of(r),
                    r.pass ? "pass" : "FAIL"));
    if (!r.pass && !r.detail.empty()) say(fmt::format("  {}\n", r.detail));
  }
  const int failed = failures(results);
  if (exact) print_bits(results);
  const Device device = results.front().device;
  const auto skipped =
      static_cast<int>(std::count_if(results.begin(), results.end(), [](const auto& r) { return !r.skipped.empty(); }));
  const int measured = static_cast<int>(results.size()) - skipped;
  say(fmt::format("{} of {} identities hold {}within their gates with controls that fail as they must{}.\n",
                  measured - failed, measured, device.is_cpu() ? "" : "on " + device.str() + " ",
                  skipped == 0 ? "" : fmt::format("; {} were skipped, which need larger sizes", skipped)));
  print_papers(results);
}

int failures(const std::vector<permute::VerifyResult>& results) {
  return static_cast<int>(std::count_if(results.begin(), results.end(),
                                        [](const permute::VerifyResult& result) { return result.failed(); }));
}

} // namespace eg::cli
