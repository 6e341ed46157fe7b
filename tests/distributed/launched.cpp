#include "distributed/launched.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace eg::test {
namespace {

namespace fs = std::filesystem;

void redirect(const std::string& path, int descriptor) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || dup2(file, descriptor) < 0) _exit(126);
  close(file);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<int> children_of(int pid) {
  std::vector<int> children;
  std::error_code gone;
  for (const auto& task : fs::directory_iterator("/proc/" + std::to_string(pid) + "/task", gone)) {
    std::ifstream list(task.path() / "children");
    for (int child = 0; list >> child;) children.push_back(child);
  }
  return children;
}

void add_running(int pid, const fs::path& program, std::vector<int>& found) {
  for (const int child : children_of(pid)) {
    std::error_code gone;
    if (fs::read_symlink("/proc/" + std::to_string(child) + "/exe", gone) == program) found.push_back(child);
    add_running(child, program, found);
  }
}

} // namespace

const std::vector<Launcher>& launchers() {
  static const std::vector<Launcher> all = [] {
    std::vector<Launcher> found;
#ifdef EQUIGRAD_MPIRUN_MPICH
    found.push_back({"mpich", {EQUIGRAD_MPIRUN_MPICH, "-n"}});
#endif
#ifdef EQUIGRAD_MPIRUN_OPENMPI
    found.push_back({"openmpi", {EQUIGRAD_MPIRUN_OPENMPI, "--oversubscribe", "-n"}});
#endif
    if (found.empty()) throw std::logic_error("neither mpirun.openmpi nor mpirun.mpich is there");
    return found;
  }();
  return all;
}

LaunchedProgram::LaunchedProgram(const Launcher* launcher, int processes, const std::vector<std::string>& args,
                                 const LaunchOptions& options)
    : program_(options.program.empty() ? EQUIGRAD_PROGRAM : options.program), timeout_(options.timeout),
      start_(std::chrono::steady_clock::now()) {
  std::vector<std::string> words;
  if (launcher != nullptr) {
    words = launcher->words;
    words.push_back(std::to_string(processes));
  }
  words.push_back(program_);
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string out = streams_.path("out"), err = streams_.path("err");
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("cannot fork");
  if (pid_ > 0) return;
  setpgid(0, 0); // wait() kills all of it
  if (chdir(options.folder.c_str()) != 0) _exit(126);
  redirect(out, STDOUT_FILENO);
  redirect(err, STDERR_FILENO);
  redirect("/dev/null", STDIN_FILENO);
  // Open MPI refuses to be started by root, as in a container of CI.
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  for (const auto& [name, value] : options.variables) setenv(name.c_str(), value.c_str(), 1);
  execv(argv.front(), argv.data());
  _exit(127);
}

LaunchedProgram::~LaunchedProgram() {
  if (waited_) return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void LaunchedProgram::signal(int number) const { kill(pid_, number); }

std::vector<int> LaunchedProgram::processes() const {
  std::vector<int> found;
  std::error_code ignored;
  add_running(pid_, fs::canonical(program_, ignored), found);
  return found;
}

std::string LaunchedProgram::out() const { return text_of(streams_.path("out")); }
std::string LaunchedProgram::err() const { return text_of(streams_.path("err")); }

bool LaunchedProgram::running() const {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

Launched LaunchedProgram::wait() {
  Launched result;
  while (running()) {
    if (std::chrono::steady_clock::now() - start_ > timeout_) {
      result.timed_out = true;
      for (const int process : processes()) kill(process, SIGKILL);
      kill(-pid_, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  waited_ = true;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = out();
  result.err = err();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  return result;
}

Launched run_processes(const Launcher* launcher, int processes, const std::vector<std::string>& args,
                       const LaunchOptions& options) {
  return LaunchedProgram(launcher, processes, args, options).wait();
}

} // namespace eg::test
