#include "training/elsewhere.h"

#include "training/checkpoint_state.h"
#include "training/option_fields.h"

#include <nlohmann/json.hpp>

namespace eg::training {

RandomKey dropout_key(std::uint64_t seed, std::int64_t step) {
  constexpr std::uint64_t draw_dropout = 4; // of a run's sequences
  return RandomKey{seed, 0}.fold(draw_dropout).fold(static_cast<std::uint64_t>(step));
}

} // namespace eg::training

namespace eg::permute {

std::string_view name_of(Ending ending) {
  return ending == Ending::decrypted ? "decrypt" : ending == Ending::encrypted ? "encrypted" : "key";
}

std::optional<Ending> ending_of_run(const std::string& folder) {
  const nlohmann::json state = training::newest_state(folder);
  if (!state.is_object() || !state.contains("finish")) return {};
  for (const Ending ending : {Ending::decrypted, Ending::encrypted, Ending::rekeyed})
    if (state["finish"] == name_of(ending)) return ending;
  return {};
}

void check_split(const training::RunOptions& o, TrainMode mode, const SplitTraining& split) {
  using training::need;
  need(o.accumulate == 1, "accumulate",
       "must be 1 with the encoder elsewhere: a step is one round trip there and back");
  need(o.clip == 0.0, "clip", "needs the joint norm of all gradients, and no side has them all");
  need(o.layer_decay == 1.0, "layer_decay", "counts blocks from the head, and no side has all");
  need(o.ema == 0.0, "ema", "needs all weights here");
  need(o.on_divergence == training::OnDivergence::stop, "on_divergence",
       "must be stop with the encoder elsewhere, which has taken its step when a gradient here turns out infinite");
  need(split.ending != Ending::rekeyed || permutes_columns(mode), "finish",
       "with another key needs permuted columns: there is no key to change");
}

} // namespace eg::permute
