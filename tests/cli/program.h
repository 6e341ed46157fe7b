#pragma once
// Running the program and looking at what it did.

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace eg::test {

struct Outcome {
  int code = -1; ///< exit code, or 128 + signal
  std::string out, err;
};

/// Runs `equigrad ARGS...` in `folder` and waits.
Outcome run_program(const std::vector<std::string>& args, const std::string& folder = ".");

/// A program that runs while the test goes on.
class RunningProgram {
public:
  RunningProgram(const std::vector<std::string>& args, const std::string& folder);
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;
  void signal(int number) const;
  Outcome wait();
  bool running() const;

private:
  int pid_ = -1;
  std::string out_path_, err_path_;
  bool waited_ = false;
};

/// A folder that goes when the test ends.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(const std::string& name = "") const { return name.empty() ? path_ : path_ + "/" + name; }

private:
  std::string path_;
};

std::string read_text(const std::string& path);
void write_text(const std::string& path, const std::string& text);

} // namespace eg::test
