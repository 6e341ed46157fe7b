#include "faults/faulty_process.h"

#include "core/base/bytes.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace eg::test {

FaultyProcess::FaultyProcess(const std::vector<std::string>& command, const Unkindness& unkindness) : pid_(fork()) {
  if (pid_ > 0) return;
  setenv("LD_PRELOAD", FAULT_SHIM, 1);
  if (!unkindness.fault.empty()) setenv("EQUIGRAD_FAULT", unkindness.fault.c_str(), 1);
  if (!unkindness.calls.empty()) setenv("EQUIGRAD_CALLS", unkindness.calls.c_str(), 1);
  if (unkindness.largest != RLIM_INFINITY) {
    std::signal(SIGXFSZ, SIG_IGN); // the write fails with EFBIG instead
    const rlimit limit{unkindness.largest, unkindness.largest};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  dup2(open(unkindness.err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  _exit(127);
}

void FaultyProcess::kill() const { ::kill(pid_, SIGKILL); }

int FaultyProcess::wait() const {
  int status = 0;
  waitpid(pid_, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> all(1);
  for (const std::uint8_t byte : read_file(path))
    if (byte == '\n')
      all.emplace_back();
    else
      all.back() += static_cast<char>(byte);
  all.pop_back();
  return all;
}

} // namespace eg::test
