#pragma once
// Describes an option of a training run, whatever its type and whichever struct holds it.

#include <cstdint>

namespace eg::training {

/// What a path that an option names stands for.
enum class OptionPath : std::uint8_t {
  none,        ///< it names no path
  data,        ///< what is learnt from, where it is no data set's name
  start,       ///< the model that a run begins from
  input,       ///< another file or folder that is read
  data_folder, ///< the folder with the datasets
  run          ///< a run's own folder
};

/// Whether the value may differ between a checkpoint and the run that is resumed from it.
enum class OnResume : std::uint8_t {
  same,         ///< it must be the same
  same_content, ///< a path: the task compares its content; whether there is one must not differ
  free,   ///< it does not change what was computed, is compared by a fingerprint, or the processor has a say in it
  beside, ///< free, and says only where the run is or what it leaves beside its result
  once    ///< beside, and about one call: config.json and checkpoints hold its default
};

struct OptionInfo {
  const char* key = "";  ///< in JSON; the flag has '-' for '_'
  const char* help = ""; ///< one line
  OptionPath path = OptionPath::none;
  OnResume resume = OnResume::same;
  bool flag = true;       ///< --key is a flag of `train MODEL`
  bool recipe = false;    ///< the party that holds the encoder's blocks must have the same
  bool completed = false; ///< a run replaces the empty value by what it found in its data
};

template <class Options> class OptionTable;

} // namespace eg::training
