#pragma once
// Encodes and decodes the records of TensorBoard's event files.
//
// A file is a row of frames (TFRecord): 8 bytes length, 4 bytes masked CRC-32C of them, the data, 4 bytes masked
// CRC-32C of the data, little-endian; masked: ((crc >> 15) | (crc << 17)) + 0xa282ead8. The data of each is a protocol
// buffer:
//   Event      wall_time = 1 double, step = 2 int64, file_version = 3 string, summary = 5, session_log = 7
//   Summary    value = 1 repeated: tag = 1 string, simple_value = 2 float
//   SessionLog status = 1: START = 1
// (tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto).

#include "core/base/bytes.h"
#include "core/base/function_ref.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace eg::training {

/// `data` in its frame.
std::string event_frame(std::string_view data);

/// What an event file begins with: {wall_time, file_version "brain.Event:2"}, framed.
std::string version_event(double wall_time);
/// A process begins at `step`: what was recorded for it and later steps is void, framed.
std::string start_event(double wall_time, std::int64_t step);
/// Values by tag, framed.
std::string scalars_event(double wall_time, std::int64_t step,
                          const std::vector<std::pair<std::string, float>>& values);

/// One event as it was read.
struct EventRead {
  std::int64_t step = 0;
  double wall_time = 0.0;
  std::vector<std::pair<std::string, float>> values;
  std::size_t end = 0; ///< where its frame ends in the file
};

/// Calls visit for the events of a file's bytes, ending at the first that is torn, damaged (by its checksums) or no
/// Event.
void each_event(ByteView file, FunctionRef<void(const EventRead&)> visit);

} // namespace eg::training
