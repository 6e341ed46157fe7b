#include "apps/fetch/download.h"

#include "core/base/bytes.h"
#include "core/base/error.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <sodium.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

namespace eg::fetch {
namespace {

namespace fs = std::filesystem;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

/// libcurl, opened at the first download, not linked: it brings thirty libraries, which every start would load.
struct Curl {
  decltype(&curl_easy_init) init;
  decltype(&curl_easy_cleanup) cleanup;
  CURLcode (*set)(CURL*, CURLoption, ...);
  decltype(&curl_easy_perform) perform;
  CURLcode (*get)(CURL*, CURLINFO, ...);
  decltype(&curl_easy_strerror) reason;

  Curl() {
    void* library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw Error(fmt::format("download: libcurl cannot be opened: {}", dlerror()));
    const auto find = [&]<class F>(F& function, const char* name) {
      function = reinterpret_cast<F>(dlsym(library, name));
      if (function == nullptr) throw Error(fmt::format("download: libcurl.so.4 has no {}", name));
    };
    find(init, "curl_easy_init");
    find(cleanup, "curl_easy_cleanup");
    find(set, "curl_easy_setopt");
    find(perform, "curl_easy_perform");
    find(get, "curl_easy_getinfo");
    find(reason, "curl_easy_strerror");
    decltype(&curl_global_init) start;
    find(start, "curl_global_init");
    start(CURL_GLOBAL_DEFAULT);
  }
};

const Curl& curl() {
  static const Curl library;
  return library;
}

struct CloseCurl {
  void operator()(CURL* handle) const { curl().cleanup(handle); }
};

[[noreturn]] void fail_on(const std::string& path) {
  throw FileError(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
}

std::int64_t size_of_file(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

/// One connection: what its callbacks need.
struct Transfer {
  const RemoteFile& file;
  const DownloadOptions& options;
  std::FILE* out = nullptr;
  std::int64_t done = 0;
  bool too_long = false, disk_failed = false;
  int disk_error = 0;

  bool stopped() const { return options.stop != nullptr && options.stop->load(); }
};

std::size_t write_part(char* bytes, std::size_t, std::size_t count, void* user) {
  auto& t = *static_cast<Transfer*>(user);
  if (t.done + static_cast<std::int64_t>(count) > t.file.bytes) {
    t.too_long = true;
    return 0;
  }
  if (std::fwrite(bytes, 1, count, t.out) != count) {
    t.disk_failed = true;
    t.disk_error = errno;
    return 0;
  }
  t.done += static_cast<std::int64_t>(count);
  if (t.options.on_progress) t.options.on_progress(t.done);
  return count;
}

int look_up(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const Transfer*>(user)->stopped() ? 1 : 0;
}

void set_up(CURL* handle, Transfer& t, char* reason) {
  curl().set(handle, CURLOPT_URL, t.file.url.c_str());
  curl().set(handle, CURLOPT_ERRORBUFFER, reason);
  curl().set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl().set(handle, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl().set(handle, CURLOPT_FOLLOWLOCATION, 1L);
  curl().set(handle, CURLOPT_MAXREDIRS, 5L);
  curl().set(handle, CURLOPT_FAILONERROR, 1L);
  curl().set(handle, CURLOPT_NOSIGNAL, 1L);
  curl().set(handle, CURLOPT_CONNECTTIMEOUT, 30L);
  curl().set(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl().set(handle, CURLOPT_LOW_SPEED_TIME, static_cast<long>(t.options.silence_seconds));
  curl().set(handle, CURLOPT_USERAGENT, "equigrad");
  curl().set(handle, CURLOPT_WRITEFUNCTION, write_part);
  curl().set(handle, CURLOPT_WRITEDATA, &t);
  curl().set(handle, CURLOPT_NOPROGRESS, 0L);
  curl().set(handle, CURLOPT_XFERINFOFUNCTION, look_up);
  curl().set(handle, CURLOPT_XFERINFODATA, &t);
  if (t.done > 0) curl().set(handle, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(t.done));
}

/// One connection, from the end of what was received. Returns "" when the server has sent everything, else the reason.
std::string connect_once(const RemoteFile& file, const std::string& part, const DownloadOptions& options) {
  const std::unique_ptr<CURL, CloseCurl> handle(curl().init());
  if (!handle) throw FileError(file.url + ": libcurl cannot be started");
  const File out(std::fopen(part.c_str(), "ab"));
  if (!out) fail_on(part);
  Transfer transfer{.file = file, .options = options, .out = out.get(), .done = size_of_file(part)};
  std::array<char, CURL_ERROR_SIZE> reason{};
  set_up(handle.get(), transfer, reason.data());
  const CURLcode code = curl().perform(handle.get());
  const bool flushed = std::fflush(out.get()) == 0;
  if (transfer.done == 0) std::remove(part.c_str()); // nothing to resume
  if (transfer.stopped())
    throw Interrupted(transfer.done > 0 ? fmt::format("download: interrupted; {} keeps {} bytes", part, transfer.done)
                                        : std::string("download: interrupted"));
  if (transfer.disk_failed || !flushed) {
    if (transfer.disk_failed) errno = transfer.disk_error;
    fail_on(part);
  }
  if (transfer.too_long) {
    fs::remove(part);
    throw FileError(fmt::format("{}: is longer than the {} bytes that are known of it", file.url, file.bytes));
  }
  if (code == CURLE_OK) return {};
  long status = 0;
  curl().get(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  if (transfer.done > 0 && (code == CURLE_RANGE_ERROR || status == 416)) fs::resize_file(part, 0); // start over
  if (code == CURLE_HTTP_RETURNED_ERROR && status >= 400 && status < 500 && status != 416)
    throw FileError(fmt::format("{}: {}", file.url, reason.data()));
  return reason[0] != '\0' ? reason.data() : curl().reason(code);
}

} // namespace

std::string sha256_of_file(const std::string& path) {
  const File in(std::fopen(path.c_str(), "rb"));
  if (!in) throw FileError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  std::vector<unsigned char> block(1 << 20);
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), in.get()))
    crypto_hash_sha256_update(&state, block.data(), count);
  if (std::ferror(in.get()) != 0) throw FileError(path + ": cannot be read");
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256_final(&state, digest.data());
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

void download(const RemoteFile& file, const std::string& path, const DownloadOptions& options) {
  if (file_exists(path) && size_of_file(path) == file.bytes && sha256_of_file(path) == file.sha256) return;
  const std::string part = path + ".part";
  if (size_of_file(part) > file.bytes) fs::remove(part);
  std::string reason = "the connection ended too early";
  for (int i = 0; i < options.tries && size_of_file(part) < file.bytes; ++i) {
    const std::string found = connect_once(file, part, options);
    if (!found.empty()) reason = found;
  }
  if (const std::int64_t came = size_of_file(part); came < file.bytes)
    throw FileError(fmt::format("{}: {}; {} of {} bytes came in {} tries{}", file.url, reason, came, file.bytes,
                                options.tries, came > 0 ? " and are kept in " + part : ""));
  if (const std::string sum = sha256_of_file(part); sum != file.sha256) {
    fs::remove(part);
    throw FileError(fmt::format("{}: its SHA-256 is {}, not {}: it was changed on the way or at its place, and is "
                                "not kept",
                                file.url, sum, file.sha256));
  }
  fs::rename(part, path);
}

} // namespace eg::fetch
