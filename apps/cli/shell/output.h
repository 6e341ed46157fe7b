#pragma once
// Writes results, and checks their destinations before the work begins.

#include "apps/cli/shell/verb.h"

#include <string>
#include <string_view>
#include <vector>

namespace eg::cli {

/// Whether a result could be written at `path`, without touching what is there. Files are written beside their place
/// and renamed (AtomicFile), so that the folder must be writable; what stands there must be a file that could be
/// opened for writing, a pipe or a character device. Nothing for "" and "-". Throws FileError: `path: cannot be
/// written: why`.
void require_writable(const std::string& path);

/// Writes a whole text as AtomicFile does; Ctrl-C ends a wait for the reader of a pipe. Throws FileError.
void write_result(const std::string& path, std::string_view text);

/// Prints to stdout and flushes. Never throws: a reader that has gone away must not end the work; the exit code tells
/// in the end that output was lost.
void say(const std::string& text);

/// The same for text of a model or a tokenizer: on a terminal control characters other than line ends and tabs become
/// \xNN, so that it obeys no text; pipes and files get the text itself.
void say_text(std::string_view text);

/// Hands what was printed to the system; whether something that was printed could not be written.
bool output_is_lost();
/// What is said of it, with the reason.
std::string output_trouble();
/// Throws FileError when something that was printed is lost: ends work whose result nobody receives.
void require_output();

/// Many lines for stdout, printed in large pieces. Between them Ctrl-C ends the work (Interrupted), and so does output
/// that is lost (FileError).
class LongOutput {
public:
  void add(std::string_view text);
  /// Prints the rest.
  void finish();

private:
  std::string text_;
};

/// From here on, writing to a pipe that nobody reads, or beyond the largest file that is allowed, fails with an error
/// that can be told, instead of ending the process by SIGPIPE or SIGXFSZ.
void fail_on_broken_output();

} // namespace eg::cli
