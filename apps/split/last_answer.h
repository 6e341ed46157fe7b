#pragma once
// Stores the last answer of a run on the cloud's disk. An edge whose answer was lost when the cloud ended gets it from
// the next one.

#include "core/base/bytes.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace eg::split_learning {

struct LastAnswer {
  std::int64_t step = 0;    ///< steps that the run had taken then
  std::uint64_t serial = 0; ///< of the request
  std::array<unsigned char, 32> digest{};
  Bytes answer; ///< a frame
};

/// FOLDER/last_answer, atomically. Throws FileError.
void write_last_answer(const std::string& folder, const LastAnswer& last);
/// Removes it, if there is one.
void remove_last_answer(const std::string& folder);
/// Nothing when there is none, and when its checksum does not fit. Throws FileError when it cannot be read.
std::optional<LastAnswer> read_last_answer(const std::string& folder);

} // namespace eg::split_learning
