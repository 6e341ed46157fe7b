#include "training/elsewhere.h"

#include "training/checkpoint_state.h"
#include "training/option.h"

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
  option_table(o).check_split(o);
  if (split.ending == Ending::rekeyed && !permutes_columns(mode))
    throw ValueError("train: finish with another key needs permuted columns: there is no key to change");
}

} // namespace eg::permute
