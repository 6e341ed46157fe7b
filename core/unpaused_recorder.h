#pragma once
// Declares recorders that pauses do not concern.

#include "core/call.h"

namespace eg {

/// Records every call on its thread, also during pauses (PauseRecording without a recorder). It is for those who must
/// know where each value comes from. Calls within an operation or a user's forward function are not recorded.
class UnpausedRecorder : public Recorder {
public:
  /// True: a call of this row, which has a body, is one event, and the calls in the body are none. The body is skipped
  /// when the inputs are meta tensors and no other recorder is open.
  virtual bool records_whole(const OpDef&) const { return false; }
};

} // namespace eg
