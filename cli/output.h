#pragma once
// Where results go, looked at before the work begins.

#include "cli/verb.h"

#include <string>
#include <string_view>
#include <vector>

namespace eg::cli {

/// Whether a file could be written at `path`, without touching what is there: a file is opened for writing but not cut,
/// a missing one needs a folder in which files can be made. Nothing for "" and "-". `replaced`: it is written beside
/// its place and renamed, so that the folder must be writable in any case, and only a regular file may be there. Throws
/// FileError: `path: cannot be written: why`.
void require_writable(const std::string& path, bool replaced = false);

/// Throws FileError when a file of `written`, --json's or --profile's is one of `read` or stands there twice, whatever
/// path leads to it: a result must not cost what it was made from. Nothing for "", "-" and what is no regular file
/// (/dev/null, a pipe).
void require_apart(const CommonOptions& common, std::vector<std::string> written, const std::vector<std::string>& read);

/// Prints to stdout and flushes. Never throws: a reader that has gone away must not end the work; the exit code tells
/// in the end that output was lost.
void say(const std::string& text);

/// The same for text of a model or a tokenizer: on a terminal control characters other than line ends and tabs become
/// \xNN, so that it obeys no text; pipes and files get the text itself.
void say_text(std::string_view text);

/// Whether something that was printed could not be written.
bool output_is_lost();
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

/// From here on, writing to a pipe that nobody reads, or beyond the largest file that is allowed, fails instead of
/// ending the process.
void survive_broken_pipes();

} // namespace eg::cli
