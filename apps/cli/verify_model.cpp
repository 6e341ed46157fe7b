#include "apps/cli/verify_model.h"

#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/progress.h"
#include "apps/cli/shell/verb.h"
#include "core/device/device.h"
#include "core/ops.h"
#include "nn/bert.h"
#include "nn/decoder.h"
#include "nn/hub/folder.h"
#include "nn/vit.h"
#include "permute/catalogue/given_blocks.h"

#include <algorithm>
#include <fmt/format.h>

namespace eg::cli {
namespace {

struct Embedded {
  const nn::Blocks* blocks;
  Tensor z; ///< [batch, tokens, dim]
};

Tensor random_ids(const permute::VerifyOptions& o, std::int64_t positions, std::int64_t vocabulary) {
  return random_integers({o.batch, std::min(o.tokens, positions)}, {o.seed, 1}, 0, vocabulary);
}

Embedded embedded(const nn::Module& module, const permute::VerifyOptions& o) {
  if (const auto* vit = dynamic_cast<const nn::Vit*>(&module)) {
    const nn::VitConfig& c = vit->config;
    const Tensor images =
        random_normal({o.batch, c.channels, c.height(), c.width()}, {o.seed, 1}, 0.0, 1.0, DType::f64);
    return {&vit->blocks, vit->embed(images)};
  }
  if (const auto* bert = dynamic_cast<const nn::Bert*>(&module))
    return {&bert->blocks, bert->embed({.ids = random_ids(o, bert->config.positions, bert->config.vocabulary)})};
  if (const auto* decoder = dynamic_cast<const nn::Decoder*>(&module))
    return {&decoder->blocks,
            decoder->embed({.ids = random_ids(o, decoder->config.positions, decoder->config.vocabulary)})};
  throw UsageError("verify: --model: this model has no blocks to check");
}

} // namespace

std::vector<permute::VerifyResult> verify_model(const std::string& folder, permute::VerifyOptions options,
                                                const std::vector<DType>& dtypes, bool show_progress) {
  const hub::LoadedModel loaded = hub::load_model(folder, {.dtype = DType::f64});
  loaded.model->module().to(options.device);
  const DeviceScope there(options.device); // where Z is made
  const auto [blocks, z] = embedded(loaded.model->module(), options);
  const std::vector<permute::Identity> rows = permute::block_identities(*blocks, z);
  Progress progress(show_progress);
  std::vector<permute::VerifyResult> all;
  for (const DType dtype : dtypes)
    for (const permute::Identity& row : rows) {
      if (!permute::matches(row, options.filter)) continue;
      options.dtype = dtype;
      progress.show(static_cast<double>(all.size()), static_cast<double>(rows.size() * dtypes.size()),
                    {{fmt::format("{} {}", name_of(dtype), row.id), 1}});
      all.push_back(permute::verify(row, options));
      throw_if_stopped();
    }
  if (all.empty()) throw UsageError(fmt::format("verify: no row for models fits the filter '{}'", options.filter));
  return all;
}

} // namespace eg::cli
