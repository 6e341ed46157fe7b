#pragma once
// A process to which the system is unkind.

#include <string>
#include <sys/resource.h>
#include <sys/types.h>
#include <vector>

namespace eg::test {

constexpr int died = 137;   ///< by SIGKILL
constexpr int reported = 2; ///< an error with its message
constexpr int finished = 0;

/// What shall go wrong.
struct Unkindness {
  std::string fault = {};         ///< EQUIGRAD_FAULT of the shim
  std::string calls = {};         ///< file for the names of its calls
  std::string err = "/dev/null";  ///< where stderr goes
  rlim_t largest = RLIM_INFINITY; ///< bytes that a file may have
};

class FaultyProcess {
public:
  FaultyProcess(const std::vector<std::string>& command, const Unkindness& unkindness);
  void kill() const;
  /// Its exit code, or 128 + signal.
  int wait() const;

private:
  pid_t pid_;
};

/// The lines of a file that end.
std::vector<std::string> lines_of(const std::string& path);

} // namespace eg::test
