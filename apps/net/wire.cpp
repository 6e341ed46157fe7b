#include "apps/net/wire.h"

#include "core/base/utf8.h"
#include "core/call.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <limits>

namespace eg::net {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors go over the wire as they lie in memory");

constexpr std::array<std::uint8_t, 4> magic = {'E', 'Q', 'S', 'L'};
constexpr std::size_t most_name = 256;
constexpr int most_rank = 8;

/// Element types by their number on the wire.
constexpr std::array wire_types = {DType::f32, DType::f64, DType::i64, DType::u8, DType::boolean};

[[noreturn]] void malformed(const std::string& what) {
  throw ProtocolError(RefusalCode::malformed, "net: a message that cannot be read: " + what);
}

class Writer {
public:
  explicit Writer(std::size_t expected) { out_.reserve(expected); }
  template <class T> void number(T value) { bytes(&value, sizeof value); }
  void bytes(const void* from, std::size_t count) {
    const auto* first = static_cast<const std::uint8_t*>(from);
    out_.insert(out_.end(), first, first + count);
  }
  Bytes finish() { return std::move(out_); }

private:
  Bytes out_;
};

class Reader {
public:
  explicit Reader(ByteView in) : in_(in) {}
  template <class T> T number() {
    T value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  ByteView take(std::uint64_t count) {
    if (count > in_.size()) malformed("it ends too soon");
    const ByteView part = in_.first(static_cast<std::size_t>(count));
    in_ = in_.subspan(static_cast<std::size_t>(count));
    return part;
  }
  std::string text(std::uint64_t count) {
    const ByteView part = take(count);
    std::string text(reinterpret_cast<const char*>(part.data()), part.size());
    if (!is_utf8(text)) malformed("its text is not UTF-8");
    return text;
  }
  std::size_t left() const { return in_.size(); }

private:
  ByteView in_;
};

std::uint8_t type_number(DType dtype) {
  for (std::size_t i = 0; i < wire_types.size(); ++i)
    if (wire_types[i] == dtype) return static_cast<std::uint8_t>(i + 1);
  malformed(fmt::format("{} is no type of a message", name_of(dtype)));
}

void write_tensor(Writer& to, const NamedTensor& t) {
  if (t.name.size() > most_name) malformed("a name is too long");
  to.number(static_cast<std::uint16_t>(t.name.size()));
  to.bytes(t.name.data(), t.name.size());
  to.number(type_number(t.value.dtype()));
  to.number(static_cast<std::uint8_t>(t.value.rank()));
  for (int axis = 0; axis < t.value.rank(); ++axis) to.number(static_cast<std::uint64_t>(t.value.size(axis)));
  const PauseRecording pause;
  const Tensor packed = t.value.contiguous();
  if (packed.nbytes() > 0) to.bytes(packed.bytes(), packed.nbytes());
}

NamedTensor read_tensor(Reader& from) {
  NamedTensor t;
  const auto length = from.number<std::uint16_t>();
  if (length > most_name) malformed("a name is too long");
  t.name = from.text(length);
  const auto type = from.number<std::uint8_t>();
  if (type < 1 || type > wire_types.size()) malformed(fmt::format("element type {} is not known", type));
  const DType dtype = wire_types[type - 1U];
  const int rank = from.number<std::uint8_t>();
  if (rank > most_rank) malformed(fmt::format("a tensor of {} axes", rank));
  std::vector<std::int64_t> extents;
  std::uint64_t bytes = size_of(dtype);
  for (int axis = 0; axis < rank; ++axis) {
    const auto extent = from.number<std::uint64_t>();
    // Empty tensors have no use here; without them a product that stays below the bytes there are cannot overflow.
    if (extent == 0 || extent > from.left() / bytes) malformed("a tensor is larger than its message, or empty");
    bytes *= extent;
    extents.push_back(static_cast<std::int64_t>(extent));
  }
  const ByteView values = from.take(bytes);
  if (dtype == DType::boolean)
    for (const std::uint8_t value : values)
      if (value > 1) malformed("a truth value that is neither 0 nor 1");
  t.value = Tensor::empty(Shape(std::span<const std::int64_t>(extents)), dtype);
  std::memcpy(t.value.mutable_bytes("receive"), values.data(), values.size());
  return t;
}

} // namespace

FrameHeader parse_header(ByteView bytes, const FrameLimits& limits) {
  Reader from(bytes);
  if (std::memcmp(from.take(magic.size()).data(), magic.data(), magic.size()) != 0)
    malformed("it does not begin as one");
  const auto version = from.number<std::uint16_t>();
  if (version != protocol_version)
    throw ProtocolError(RefusalCode::version,
                        fmt::format("net: the other side speaks version {} of the protocol, this program version {}",
                                    version, protocol_version));
  FrameHeader header;
  header.kind = static_cast<MessageKind>(from.number<std::uint16_t>());
  header.body = from.number<std::uint64_t>();
  if (header.body > limits.body)
    throw ProtocolError(RefusalCode::too_large,
                        fmt::format("net: a message of {} bytes; {} are the most", header.body, limits.body));
  return header;
}

Message parse_body(const FrameHeader& header, ByteView body, const FrameLimits& limits) {
  if (body.size() != header.body) malformed("it has another length than it says");
  Reader from(body);
  Message m;
  m.kind = header.kind;
  m.serial = from.number<std::uint64_t>();
  m.step = from.number<std::uint64_t>();
  if (m.step > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) malformed("its step is no step");
  m.code = static_cast<RefusalCode>(from.number<std::uint16_t>());
  const auto length = from.number<std::uint32_t>();
  if (length > limits.text)
    throw ProtocolError(RefusalCode::too_large,
                        fmt::format("net: a text of {} bytes; {} are the most", length, limits.text));
  m.text = from.text(length);
  const auto count = from.number<std::uint16_t>();
  if (count > 2) malformed(fmt::format("it has {} tensors", count));
  for (int i = 0; i < count; ++i) m.tensors.push_back(read_tensor(from));
  if (from.left() != 0) malformed("something follows its end");
  check_form(m);
  return m;
}

Message parse_frame(ByteView frame, const FrameLimits& limits) {
  if (frame.size() < header_bytes) malformed("it ends too soon");
  return parse_body(parse_header(frame.first(header_bytes), limits), frame.subspan(header_bytes), limits);
}

Bytes frame_of(const Message& m) {
  check_form(m);
  std::size_t expected = 64 + m.text.size();
  for (const NamedTensor& t : m.tensors) expected += 128 + t.name.size() + t.value.nbytes();
  Writer to(expected);
  to.bytes(magic.data(), magic.size());
  to.number(protocol_version);
  to.number(static_cast<std::uint16_t>(m.kind));
  to.number(std::uint64_t{0});
  to.number(m.serial);
  to.number(m.step);
  to.number(static_cast<std::uint16_t>(m.code));
  to.number(static_cast<std::uint32_t>(m.text.size()));
  to.bytes(m.text.data(), m.text.size());
  to.number(static_cast<std::uint16_t>(m.tensors.size()));
  for (const NamedTensor& t : m.tensors) write_tensor(to, t);
  Bytes frame = to.finish();
  const std::uint64_t body = frame.size() - header_bytes;
  std::memcpy(frame.data() + 8, &body, sizeof body);
  return frame;
}

} // namespace eg::net
