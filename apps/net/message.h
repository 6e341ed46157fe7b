#pragma once
// Defines the messages between users of transformer blocks and the cloud that holds them. README.md has the table.

#include "apps/net/errors.h"
#include "core/tensor.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace eg::net {

enum class MessageKind : std::uint16_t {
  open = 1,
  opened,
  put,
  begin,
  forward,
  backward,
  evaluate,
  save,
  fetch,
  features,
  gradients,
  weight,
  done,
  refused,
  advance,
};
/// "forward", ...; "?" for no kind.
std::string_view name_of(MessageKind kind);
/// Whether it is for the cloud.
bool is_request(MessageKind kind);

struct NamedTensor {
  std::string name;
  Tensor value;
};

/// One message; a kind has some of the fields and leaves the others empty.
struct Message {
  MessageKind kind = MessageKind::refused;
  std::uint64_t serial = 0; ///< of the request; an answer has its request's. 0: open, and what answers no request
  std::uint64_t step = 0;   ///< training steps, or tokens of a text, that came before
  RefusalCode code{};       ///< of a refusal, else 0
  std::string text = {};
  std::vector<NamedTensor> tensors = {};

  /// The tensor called so, or an undefined one.
  Tensor tensor(std::string_view name) const;
};

/// Throws the error of a refusal: NoRoomError for no_room, ProtocolError with its code otherwise. Nothing for other
/// kinds.
void require_not_refused(const Message& answer);

/// Throws ProtocolError (malformed) unless the message has the fields of its kind: which tensors, text, code.
void check_form(const Message& message);

} // namespace eg::net
