#pragma once
// Downloads files: resumes earlier attempts, and names a file only when its checksum is right.

#include "core/base/interrupt.h"
#include "data/dataset.h"

#include <cstdint>
#include <functional>
#include <string>

namespace eg::fetch {

/// A file that is known before it is downloaded.
struct RemoteFile {
  std::string url;    ///< http or https
  std::string sha256; ///< 64 hexadecimal digits, small letters
  std::int64_t bytes = 0;
};

struct DownloadOptions {
  StopFlag stop = nullptr;
  /// Called now and then with the bytes received, of file.bytes.
  std::function<void(std::int64_t done)> on_progress = {};
  int tries = 3;                     ///< connections in all, each of which resumes where the one before ended
  std::int64_t silence_seconds = 30; ///< a connection on which nothing comes for so long counts as ended
};

/// Makes `path` hold the file. What was received is in path + ".part" until it is whole: a later call asks the server
/// for the rest. An existing file with the right checksum is left alone. Throws FileError that names the
/// url when the server cannot be reached, answers with an error, sends more than file.bytes, or what came has another
/// checksum (it is removed then); Interrupted when `stop` becomes true (what has come stays).
void download(const RemoteFile& file, const std::string& path, const DownloadOptions& options = {});

/// SHA-256 (FIPS 180-4) of a file in hexadecimal digits. Throws FileError.
std::string sha256_of_file(const std::string& path);

} // namespace eg::fetch
