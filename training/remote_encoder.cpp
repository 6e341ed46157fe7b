#include "training/remote_encoder.h"

#include "training/checkpoint_state.h"
#include "training/option.h"

#include <nlohmann/json.hpp>

namespace eg::training {

RandomKey dropout_key(std::uint64_t seed, std::int64_t step) {
  constexpr std::uint64_t draw_dropout = 4; // of a run's sequences
  return RandomKey{seed, 0}.fold(draw_dropout).fold(static_cast<std::uint64_t>(step));
}

} // namespace eg::training

namespace eg::training {

std::string_view name_of(FinalWeights final_weights) {
  return final_weights == FinalWeights::decrypted   ? "decrypt"
         : final_weights == FinalWeights::encrypted ? "encrypted"
                                                    : "key";
}

std::optional<FinalWeights> final_weights_of_run(const std::string& folder) {
  const nlohmann::json state = newest_state(folder);
  if (!state.is_object() || !state.contains("finish")) return {};
  for (const FinalWeights final_weights : {FinalWeights::decrypted, FinalWeights::encrypted, FinalWeights::rekeyed})
    if (state["finish"] == name_of(final_weights)) return final_weights;
  return {};
}

void check_split(const RunOptions& o, permute::PermuteMode mode, const SplitTraining& split) {
  option_table(o).check_split(o);
  if (split.final_weights == FinalWeights::rekeyed && !permute::permutes_columns(mode))
    throw ValueError("train: finish with another key needs permuted columns: there is no key to change");
}

} // namespace eg::training
