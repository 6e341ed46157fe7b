// equigrad stip demonstrate: permuting tokens instead of features, which fails (paper 004, section 4).

#include "apps/cli/model_files.h"
#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/stip/stip.h"

#include "apps/attacks/failed_rows.h"
#include "core/ops.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>

namespace eg::cli {
namespace {

/// Embeddings of drawn ids, [1, tokens, dim].
Tensor embedded(const permute::BlockWeights& weights, std::int64_t tokens, RandomKey key) {
  if (!weights.text) throw ValueError(weights.name + ": has no texts");
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < tokens; ++i)
    ids.push_back(static_cast<std::int64_t>(uniform_at(key, static_cast<std::uint64_t>(i)) *
                                            static_cast<double>(weights.text->vocabulary)));
  return weights.text->embed(Tensor::from<std::int64_t>(ids, {1, tokens}));
}

int demonstrate(const std::string& model, std::int64_t tokens, const CommonOptions& common) {
  const StopScope stopping;
  add_model(*common.files, model);
  common.files->check();
  const RandomKey key{common.seed, 9};
  const permute::BlockWeights weights =
      model.empty() ? permute::random_text_model(key) : permute::open_block_weights(model, key);
  const attacks::FailedRows f =
      attacks::demonstrate_failed_rows(weights, embedded(weights, tokens, key.fold(1)), key.fold(2));
  // What the paper says, as numbers: wrong, right, and given away.
  const bool holds =
      f.with_plain_mask > 1e-3 && f.with_permuted_mask < 1e-9 && f.recovered == 1.0 && f.without_mask < 1e-9;
  if (common.talks())
    say(fmt::format("{}, {} tokens in a secret order, differences relative to the plain output in that order:\n"
                    "  causal mask as it is        {:.2e}  wrong: who is masked depends on the order\n"
                    "  causal mask permuted along  {:.2e}  right\n"
                    "  what the cloud reads off that mask: {:.0f} % of the order\n"
                    "  no mask (an encoder)        {:.2e}  right\n",
                    weights.name, f.tokens, f.with_plain_mask, f.with_permuted_mask, 100.0 * f.recovered,
                    f.without_mask));
  write_json(common, {{"model", weights.name},
                      {"tokens", f.tokens},
                      {"with_plain_mask", f.with_plain_mask},
                      {"with_permuted_mask", f.with_permuted_mask},
                      {"recovered", f.recovered},
                      {"without_mask", f.without_mask},
                      {"holds", holds}});
  return holds ? done : check_failed;
}

} // namespace

Job declare_stip_demonstrate(CLI::App& app, const CommonOptions& common) {
  struct Options {
    std::string model;
    std::int64_t tokens = 32;
  };
  auto o = std::make_shared<Options>();
  common.files
      ->input(
          app.add_option("--model", o->model, "A decoder: model folder or llama2.c checkpoint (default: a drawn one)"))
      ->type_name("DIR");
  app.add_option("--tokens", o->tokens, "Tokens of a drawn text")->check(whole_number(2, 4096))->capture_default_str();
  app.footer("Exit code 1: the numbers are not what theory says.");
  return [o, &common]() -> int { return demonstrate(o->model, o->tokens, common); };
}

} // namespace eg::cli
