#pragma once
// Declares recorders that pauses do not concern.

#include "core/call.h"

namespace eg {

/// Hears every call on its thread, also those made while recording is paused (PauseRecording without a recorder): what
/// must know where a value comes from, whoever else may not. The work within an operation or a user's forward function
/// stays unheard.
class UnpausedRecorder : public Recorder {};

} // namespace eg
