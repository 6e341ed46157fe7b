#pragma once
// Where results go, looked at before the work begins.

#include <string>

namespace eg::cli {

/// Whether a file could be written at `path`, without touching what is there: a file is opened for writing but not cut,
/// a missing one needs a folder in which files can be made. Nothing for "" and "-". `replaced`: it is written beside
/// its place and renamed, so that the folder must be writable in any case. Throws FileError: `path: cannot be written:
/// why`.
void require_writable(const std::string& path, bool replaced = false);

/// Prints to stdout and flushes. Never throws: a reader that has gone away must not end the work; the exit code tells
/// in the end that output was lost.
void say(const std::string& text);

/// From here on, writing to a pipe that nobody reads fails instead of ending the process.
void survive_broken_pipes();

} // namespace eg::cli
