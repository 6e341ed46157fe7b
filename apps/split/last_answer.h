#pragma once
// Stores the last answer of a run on the cloud's disk. If the cloud ends before the edge has received it, the restarted
// cloud sends it again.

#include "core/base/bytes.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace eg::split_learning {

/// An answer, and the request that it belongs to.
struct LastAnswer {
  std::int64_t step = 0;                  ///< steps that the run had taken then
  std::uint64_t serial = 0;               ///< of the request
  std::array<unsigned char, 32> digest{}; ///< BLAKE2b of the request's frame
  Bytes answer;                           ///< a frame
};

/// Writes FOLDER/last_answer, complete or not at all. Throws FileError.
void write_last_answer(const std::string& folder, const LastAnswer& last);
/// Removes it, if there is one.
void remove_last_answer(const std::string& folder);
/// Empty when there is none or when it is damaged. Throws FileError when it cannot be read.
std::optional<LastAnswer> read_last_answer(const std::string& folder);

} // namespace eg::split_learning
