// The page "catalogue": permute::verify on any row.

#include "permute/catalogue/catalogue.h"

#include "apps/explore/pages.h"

#include "core/base/words.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg::explore {

using nlohmann::json;

void list_rows(Question& question, Reply& reply, Session&) {
  question.finish();
  json& rows = reply.body["rows"] = json::array();
  for (const permute::Identity& row : permute::catalogue())
    rows.push_back({{"id", row.id},
                    {"title", row.title},
                    {"paper", row.paper},
                    {"equation", row.equation},
                    {"kind", name_of(row.kind)},
                    {"statement", row.statement},
                    {"tex", row.tex},
                    {"sharp", row.sharp}});
}

void run_row(Question& question, Reply& reply, Session&) {
  const std::string id = question.text("id", "", 100);
  permute::VerifyOptions options;
  const Precision precision = question.precision();
  options.dtype = precision.dtype;
  options.exact = precision.exact;
  options.seed = static_cast<std::uint64_t>(question.whole("seed", 1, 0, 1'000'000));
  options.batch = question.whole("batch", options.batch, 1, 8);
  options.tokens = question.whole("tokens", options.tokens, 1, 32);
  options.dim = question.whole("dim", options.dim, 1, 64);
  options.heads = question.whole("heads", options.heads, 1, 8);
  options.hidden = question.whole("hidden", options.hidden, 1, 128);
  options.layers = question.whole("layers", options.layers, 1, 6);
  options.steps = question.whole("steps", options.steps, 1, 200);
  question.finish();
  permute::check(options);
  const auto& rows = permute::catalogue();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const permute::Identity& r) { return r.id == id; });
  if (row == rows.end()) throw ValueError(fmt::format("the catalogue has no row '{}'", printable(id)));
  const permute::VerifyResult result = permute::verify(*row, options);
  reply.body = json::parse(permute::to_json({result}))["results"][0];
}

} // namespace eg::explore
