#include "apps/net/service.h"

#include "core/call.h"
#include "core/ops.h"

#include <fmt/format.h>

#include <new>

namespace eg::net {

Message refusal(std::uint64_t serial, RefusalCode code, const std::string& words) {
  return {.kind = MessageKind::refused, .serial = serial, .code = code, .text = words};
}

Message Service::own_failure(std::uint64_t serial, RefusalCode code, const char* what, const std::string& words) const {
  if (trouble_) trouble_(what);
  return refusal(serial, code, words);
}

Message Service::refused_or(std::uint64_t serial, FunctionRef<Message()> work) const {
  try {
    return work();
  } catch (const ProtocolError& e) {
    return refusal(serial, e.code(), e.what());
  } catch (const MemoryError& e) {
    return own_failure(serial, RefusalCode::no_room, e.what(), e.what());
  } catch (const std::bad_alloc&) {
    return own_failure(serial, RefusalCode::no_room, "no memory is left", "net: the cloud has no more memory");
  } catch (const FileError& e) {
    return own_failure(serial, RefusalCode::internal, e.what(), "net: the cloud cannot use its files");
  } catch (const Error& e) {
    return refusal(serial, RefusalCode::wrong_tensor, e.what());
  } catch (const std::exception& e) {
    return own_failure(serial, RefusalCode::internal, e.what(), "net: the cloud failed");
  }
}

Bytes Service::answer_frame(const Message& answer) const {
  Bytes frame;
  const Message failed = refused_or(answer.serial, [&]() -> Message {
    frame = frame_of(answer);
    return {};
  });
  return frame.empty() ? frame_of(failed) : frame;
}

void require_finite(const Tensor& x, const char* what) {
  const PauseRecording pause;
  if (all(isfinite(x)).item() == 0.0)
    throw ProtocolError(RefusalCode::not_finite, fmt::format("net: {} holds NaN or infinite values", what));
}

} // namespace eg::net
