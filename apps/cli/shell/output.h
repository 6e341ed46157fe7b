#pragma once
// Writes results, and checks their destinations before the work begins.

#include "apps/cli/shell/verb.h"

#include <string>
#include <string_view>
#include <vector>

namespace eg::cli {

/// Checks that a result can be written at `path`, without touching what is there. Files are written beside their place
/// and renamed (AtomicFile), so the folder must be writable. What exists at `path` must be a regular file that can be
/// opened for writing, a pipe or a character device. "" and "-" pass. Throws FileError: `path: cannot be written: why`.
void require_writable(const std::string& path);

/// Writes a whole text as AtomicFile does. Throws FileError; Interrupted when Ctrl-C ends a wait for the reader of a
/// pipe.
void write_result(const std::string& path, std::string_view text);

/// Prints to stdout and flushes. Never throws: a reader that has gone away must not end the work. Output that is lost
/// shows in output_is_lost() and, at the end, in the exit code.
void say(const std::string& text);

/// The same for text of a model or a tokenizer. On a terminal, control characters other than line ends and tabs are
/// printed as \xNN, so that the text cannot control the terminal; pipes and files get the text itself.
void say_text(std::string_view text);

/// Flushes stdout. True when something that was printed could not be written.
bool output_is_lost();
/// The error message for lost output, with the reason that the system gave for the first loss.
std::string output_trouble();
/// Throws FileError with that message when output is lost: ends work whose result nobody receives.
void require_output();

/// Collects many lines for stdout and prints them in pieces of 64 KiB. After each piece it throws FileError when output
/// is lost, and before it Interrupted after Ctrl-C.
class LongOutput {
public:
  void add(std::string_view text);
  /// Prints the rest. Throws FileError when output is lost.
  void finish();

private:
  std::string text_;
};

/// Ignores SIGPIPE and SIGXFSZ from here on. Writing to a pipe that nobody reads, or beyond the largest file that is
/// allowed, then fails with an error instead of ending the process.
void fail_on_broken_output();

} // namespace eg::cli
