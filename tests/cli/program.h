#pragma once
// Running the program and looking at what it did.

#include "support/temporary_folder.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace eg::test {

struct Outcome {
  int code = -1; ///< exit code, or 128 + signal
  std::string out, err;
};

/// Runs `equigrad ARGS...` in `folder` and waits.
Outcome run_program(const std::vector<std::string>& args, const std::string& folder = ".");
/// The same with stdout going to a device (/dev/full); Outcome::out is empty.
Outcome run_program_into(const std::string& device, const std::vector<std::string>& args);

/// An environment variable of the programs that are started while it lives.
class Variable {
public:
  Variable(const char* name, const std::string& value);
  ~Variable();
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

private:
  const char* name_;
  std::optional<std::string> before_;
};

/// The same with stderr, or stdout, on a terminal of `columns` columns, of the kind `term`; what was written there.
enum class OnTerminal : std::uint8_t { err, out };
std::string run_program_on_terminal(const std::vector<std::string>& args, int columns,
                                    OnTerminal stream = OnTerminal::err, const std::string& term = "xterm");

/// A program that runs while the test goes on.
class RunningProgram {
public:
  /// `device`: where stdout goes; empty: it is kept for wait().
  RunningProgram(const std::vector<std::string>& args, const std::string& folder, const std::string& device = "");
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;
  void signal(int number) const;
  int pid() const { return pid_; }
  /// What it has printed on stderr so far.
  std::string err() const;
  Outcome wait();
  bool running() const;
  /// Looks every 2 ms until `holds()` or the program has ended, two minutes at most. Returns whether it holds.
  template <class F> bool wait_until(F&& holds) const {
    for (int i = 0; i < 60'000; ++i) {
      const bool ended = !running(); // first: what it did last is seen
      if (holds()) return true;
      if (ended) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }

private:
  int pid_ = -1;
  TemporaryFolder streams_;
  std::string out_path_, err_path_;
  bool waited_ = false;
};

std::string read_text(const std::string& path);
void write_text(const std::string& path, const std::string& text);

} // namespace eg::test
