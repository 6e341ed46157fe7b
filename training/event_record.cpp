#include "training/event_record.h"

#include "core/base/crc32c.h"

#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

namespace eg::training {
namespace {

constexpr std::size_t frame_head = 12, frame_tail = 4;

template <class T> void put_little(std::string& out, T value) {
  using Bits = std::make_unsigned_t<T>;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out += static_cast<char>(static_cast<std::uint8_t>(static_cast<Bits>(value) >> (8 * i)));
}

template <class T> T little_at(ByteView bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | static_cast<T>(bytes[at + i]) << (8 * i));
  return value;
}

std::uint32_t masked_crc(ByteView bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

ByteView bytes_of(std::string_view text) { return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}; }

// --- protocol buffers (protobuf.dev/programming-guides/encoding) ---

enum class Wire : std::uint8_t { varint = 0, eight_bytes = 1, bytes = 2, four_bytes = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(static_cast<std::uint8_t>(value | 128));
  out += static_cast<char>(static_cast<std::uint8_t>(value));
}
void put_tag(std::string& out, unsigned field, Wire wire) { put_varint(out, field << 3 | static_cast<unsigned>(wire)); }
void put_bytes(std::string& out, unsigned field, std::string_view bytes) {
  put_tag(out, field, Wire::bytes);
  put_varint(out, bytes.size());
  out += bytes;
}
void put_number(std::string& out, unsigned field, std::uint64_t value) {
  put_tag(out, field, Wire::varint);
  put_varint(out, value);
}

/// The fields of a message one after another.
class Fields {
public:
  explicit Fields(ByteView message) : rest_(message) {}

  struct Field {
    unsigned number = 0;
    Wire wire = Wire::varint;
    std::uint64_t value = 0; ///< of a number, its bits
    ByteView bytes = {};
  };
  /// The next one; nothing at the end, and after what is no message.
  std::optional<Field> next() {
    std::uint64_t tag = 0;
    if (rest_.empty() || !varint(tag)) return {};
    Field field{.number = static_cast<unsigned>(tag >> 3), .wire = static_cast<Wire>(tag & 7U)};
    std::uint64_t size = 0;
    switch (field.wire) {
    case Wire::varint:
      return varint(field.value) ? std::optional(field) : std::nullopt;
    case Wire::eight_bytes:
      if (!take(8, field.bytes)) return {};
      field.value = little_at<std::uint64_t>(field.bytes, 0);
      return field;
    case Wire::four_bytes:
      if (!take(4, field.bytes)) return {};
      field.value = little_at<std::uint32_t>(field.bytes, 0);
      return field;
    case Wire::bytes:
      if (!varint(size) || !take(size, field.bytes)) return {};
      return field;
    }
    sound_ = false;
    return {};
  }
  bool sound() const { return sound_; } ///< nothing but fields has been met

private:
  bool varint(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) return sound_ = false;
      const std::uint8_t byte = rest_.front();
      rest_ = rest_.subspan(1);
      value |= static_cast<std::uint64_t>(byte & 127U) << shift;
      if (byte < 128) return true;
    }
    return sound_ = false;
  }
  bool take(std::uint64_t size, ByteView& bytes) {
    if (size > rest_.size()) return sound_ = false;
    bytes = rest_.first(static_cast<std::size_t>(size));
    rest_ = rest_.subspan(static_cast<std::size_t>(size));
    return true;
  }

  ByteView rest_;
  bool sound_ = true;
};

std::string begin_event(double wall_time) {
  std::string event;
  put_tag(event, 1, Wire::eight_bytes);
  put_little(event, std::bit_cast<std::uint64_t>(wall_time));
  return event;
}

bool read_value(ByteView message, EventRead& event) {
  std::pair<std::string, float> value{"", std::numeric_limits<float>::quiet_NaN()};
  Fields fields(message);
  while (const auto field = fields.next()) {
    if (field->number == 1 && field->wire == Wire::bytes) value.first.assign(field->bytes.begin(), field->bytes.end());
    if (field->number == 2 && field->wire == Wire::four_bytes)
      value.second = std::bit_cast<float>(static_cast<std::uint32_t>(field->value));
  }
  event.values.push_back(std::move(value));
  return fields.sound();
}

bool read_summary(ByteView message, EventRead& event) {
  Fields fields(message);
  while (const auto field = fields.next())
    if (field->number == 1 && field->wire == Wire::bytes && !read_value(field->bytes, event)) return false;
  return fields.sound();
}

bool read_event(ByteView message, EventRead& event) {
  Fields fields(message);
  while (const auto field = fields.next()) {
    if (field->number == 1 && field->wire == Wire::eight_bytes) event.wall_time = std::bit_cast<double>(field->value);
    if (field->number == 2 && field->wire == Wire::varint) event.step = static_cast<std::int64_t>(field->value);
    if (field->number == 5 && field->wire == Wire::bytes && !read_summary(field->bytes, event)) return false;
  }
  return fields.sound();
}

/// The data of the frame at `at`; nothing when it is torn or damaged.
std::optional<ByteView> frame_at(ByteView file, std::size_t at) {
  if (file.size() - at < frame_head + frame_tail) return {};
  const ByteView length = file.subspan(at, 8);
  const auto size = little_at<std::uint64_t>(length, 0);
  if (little_at<std::uint32_t>(file, at + 8) != masked_crc(length)) return {};
  if (size > file.size() - at - frame_head - frame_tail) return {};
  const ByteView message = file.subspan(at + frame_head, static_cast<std::size_t>(size));
  if (little_at<std::uint32_t>(file, at + frame_head + message.size()) != masked_crc(message)) return {};
  return message;
}

} // namespace

std::string event_frame(std::string_view data) {
  std::string frame;
  put_little(frame, static_cast<std::uint64_t>(data.size()));
  put_little(frame, masked_crc(bytes_of(frame)));
  frame += data;
  put_little(frame, masked_crc(bytes_of(data)));
  return frame;
}

std::string version_event(double wall_time) {
  std::string event = begin_event(wall_time);
  put_bytes(event, 3, "brain.Event:2");
  return event_frame(event);
}

std::string start_event(double wall_time, std::int64_t step) {
  std::string log;
  put_number(log, 1, 1);
  std::string event = begin_event(wall_time);
  put_number(event, 2, static_cast<std::uint64_t>(step));
  put_bytes(event, 7, log);
  return event_frame(event);
}

std::string scalars_event(double wall_time, std::int64_t step,
                          const std::vector<std::pair<std::string, float>>& values) {
  std::string summary;
  for (const auto& [tag, number] : values) {
    std::string value;
    put_bytes(value, 1, tag);
    put_tag(value, 2, Wire::four_bytes);
    put_little(value, std::bit_cast<std::uint32_t>(number));
    put_bytes(summary, 1, value);
  }
  std::string event = begin_event(wall_time);
  put_number(event, 2, static_cast<std::uint64_t>(step));
  put_bytes(event, 5, summary);
  return event_frame(event);
}

void each_event(ByteView file, FunctionRef<void(const EventRead&)> visit) {
  for (std::size_t at = 0; at < file.size();) {
    const auto message = frame_at(file, at);
    EventRead event;
    if (!message || !read_event(*message, event)) return;
    at += frame_head + message->size() + frame_tail;
    event.end = at;
    visit(event);
  }
}

} // namespace eg::training
