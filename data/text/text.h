#pragma once
// Reads plain text for language models.

#include "core/base/interrupt.h"
#include "data/dataset.h"
#include "data/text/tokenizer.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace eg::data {

/// The path of the text called `name`: `tinyshakespeare` in `data_dir` (empty: EQUIGRAD_DATA), anything else is a path
/// (./tinyshakespeare too).
/// Throws FileError when the file is missing; it says what was looked for.
std::string find_text(const std::string& name, const std::string& data_dir);

/// A whole text, unpacked when it is .gz or .xz, without a byte-order mark. Throws FileError when it cannot be read or
/// is not UTF-8 (which byte).
std::string read_text(const std::string& path);

/// Cuts a text in two: the first part, and the last `share` of its characters, in (0, 1), to test with. The cut is
/// between two characters.
std::pair<std::string_view, std::string_view> held_out(std::string_view text, double share);

/// The tokens of a long text, without those that a template adds. Throws what Tokenizer::encode does, Interrupted when
/// `stop` becomes true.
std::vector<std::int32_t> token_ids(const Tokenizer& tokenizer, std::string_view text, StopFlag stop = nullptr);

} // namespace eg::data
