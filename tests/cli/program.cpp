#include "cli/program.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace eg::test {
namespace {

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

void redirect(const std::string& path, int descriptor) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || dup2(file, descriptor) < 0) _exit(126);
  close(file);
}

} // namespace

RunningProgram::RunningProgram(const std::vector<std::string>& args, const std::string& folder,
                               const std::string& device) {
  out_path_ = streams_.path("out");
  err_path_ = streams_.path("err");
  std::vector<char*> argv{const_cast<char*>(EQUIGRAD_PROGRAM)};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("cannot fork");
  if (pid_ == 0) {
    if (chdir(folder.c_str()) != 0) _exit(126);
    redirect(device.empty() ? out_path_ : device, STDOUT_FILENO);
    redirect(err_path_, STDERR_FILENO);
    execv(EQUIGRAD_PROGRAM, argv.data());
    _exit(127);
  }
}

RunningProgram::~RunningProgram() {
  if (!waited_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

void RunningProgram::signal(int number) const { kill(pid_, number); }

bool RunningProgram::running() const {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

std::string RunningProgram::err() const { return read_text(err_path_); }

Outcome RunningProgram::wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  waited_ = true;
  return {code_of(status), read_text(out_path_), read_text(err_path_)};
}

Outcome run_program(const std::vector<std::string>& args, const std::string& folder) {
  return RunningProgram(args, folder).wait();
}

Outcome run_program_into(const std::string& device, const std::vector<std::string>& args) {
  return RunningProgram(args, ".", device).wait();
}

Variable::Variable(const char* name, const std::string& value) : name_(name) {
  if (const char* before = std::getenv(name)) before_ = before;
  setenv(name, value.c_str(), 1);
}

Variable::~Variable() {
  if (before_)
    setenv(name_, before_->c_str(), 1);
  else
    unsetenv(name_);
}

std::string run_program_on_terminal(const std::vector<std::string>& args, int columns, OnTerminal stream,
                                    const std::string& term) {
  const Variable kind("TERM", term);
  const bool err = stream == OnTerminal::err;
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  const winsize size{24, static_cast<unsigned short>(columns), 0, 0};
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0 || ioctl(terminal, TIOCSWINSZ, &size) != 0)
    throw std::runtime_error("no pseudo-terminal");
  const std::string name = ptsname(terminal);
  const int side = open(name.c_str(), O_RDWR | O_NOCTTY);
  const pid_t pid = fork();
  if (pid == 0) {
    redirect("/dev/null", err ? STDOUT_FILENO : STDERR_FILENO);
    if (dup2(side, err ? STDERR_FILENO : STDOUT_FILENO) < 0) _exit(126);
    std::vector<char*> argv{const_cast<char*>(EQUIGRAD_PROGRAM)};
    for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
    argv.push_back(nullptr);
    execv(EQUIGRAD_PROGRAM, argv.data());
    _exit(127);
  }
  close(side);
  std::string shown;
  std::array<char, 4096> part{};
  for (ssize_t got = 0; (got = read(terminal, part.data(), part.size())) > 0;)
    shown.append(part.data(), static_cast<std::size_t>(got));
  close(terminal);
  waitpid(pid, nullptr, 0);
  return shown;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_text(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

} // namespace eg::test
