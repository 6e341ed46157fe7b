// Stands before libc (LD_PRELOAD) and lets one call go wrong. EQUIGRAD_FAULT: "CALL N WHAT": call number N (from 1) of
// write, fsync or rename. WHAT: a number that errno becomes, "kill" (the process dies before the call), "after" (it
// dies after it), "half" (half of a write is done, then it dies), "short" (half of a write is done; no fault). A fourth
// word, "lasting": so does every later call of that name. EQUIGRAD_CALLS: file that gets a line a call.

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

namespace {

template <class F> F next(const char* name) {
  // dlsym gives an object pointer for a function.
  F function = nullptr;
  void* found = dlsym(RTLD_NEXT, name);
  std::memcpy(&function, &found, sizeof function);
  return function;
}

using Write = ssize_t (*)(int, const void*, size_t);
using Fsync = int (*)(int);
using Rename = int (*)(const char*, const char*);

void note(const char* call) {
  const char* path = std::getenv("EQUIGRAD_CALLS");
  if (path == nullptr) return;
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  static const auto write_ = next<Write>("write");
  if (file < 0 || write_(file, call, std::strlen(call)) < 0 || write_(file, "\n", 1) < 0) std::abort();
  close(file);
}

/// What shall happen to this call; "" for nothing.
const char* fault(const char* call) {
  static char wanted[16], what[16];
  static int left = -1;
  static bool lasting = false;
  if (left < 0) {
    const char* text = std::getenv("EQUIGRAD_FAULT");
    char more[16] = "";
    if (text == nullptr || std::sscanf(text, "%15s %d %15s %15s", wanted, &left, what, more) < 3) left = 0;
    lasting = std::strcmp(more, "lasting") == 0;
  }
  if (std::strcmp(call, wanted) != 0 || left <= 0 || (left > 1 && --left > 0)) return "";
  if (!lasting) left = 0;
  return what;
}

/// Dies or sets errno where that is asked for; true when the call shall fail.
bool fails(const char* what) {
  if (std::strcmp(what, "kill") == 0) std::raise(SIGKILL);
  const int number = std::atoi(what);
  if (number > 0) errno = number;
  return number > 0;
}

void after(const char* what) {
  if (std::strcmp(what, "after") == 0) std::raise(SIGKILL);
}

} // namespace

extern "C" ssize_t write(int file, const void* data, size_t size) {
  static const auto real = next<Write>("write");
  if (file <= STDERR_FILENO) return real(file, data, size);
  note("write");
  const char* what = fault("write");
  if (fails(what)) return -1;
  const bool half = std::strcmp(what, "half") == 0;
  const bool partly = half || std::strcmp(what, "short") == 0;
  const ssize_t put = real(file, data, partly && size > 1 ? size / 2 : size);
  if (half) std::raise(SIGKILL);
  after(what);
  return put;
}

extern "C" int fsync(int file) {
  static const auto real = next<Fsync>("fsync");
  note("fsync");
  const char* what = fault("fsync");
  if (fails(what)) return -1;
  const int code = real(file);
  after(what);
  return code;
}

extern "C" int rename(const char* from, const char* to) {
  static const auto real = next<Rename>("rename");
  note("rename");
  const char* what = fault("rename");
  if (fails(what)) return -1;
  const int code = real(from, to);
  after(what);
  return code;
}
