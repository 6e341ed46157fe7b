#include "distributed/mpi.h"

#include "core/base/file_descriptor.h"
#include "core/base/write_all.h"
#include "distributed/error.h"
#include "distributed/mpi_table.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <optional>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace eg::distributed {
namespace {

namespace fs = std::filesystem;

constexpr const char* variable = "EQUIGRAD_MPI_MODULE";
constexpr const char* files[] = {"libequigrad_openmpi.so", "libequigrad_mpich.so"};

std::vector<fs::path> places_of(const std::string& file) {
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  std::vector<fs::path> places;
  for (const char* relative : {".", "mpi", "../mpi", "../../mpi", "../lib/equigrad"})
    places.push_back((folder / relative).lexically_normal() / file);
  return places;
}

/// The table of a module, or why there is none.
struct Opened {
  const MpiTable* table = nullptr;
  std::string failure = {};
};

/// `mode`: of dlopen.
Opened open_file(const std::string& path, int mode) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return {.failure = "no such file"};
  void* const library = dlopen(fs::absolute(path, ignored).c_str(), RTLD_NOW | mode);
  if (library == nullptr) return {.failure = dlerror()};
  const auto function = reinterpret_cast<MpiTableFunction>(dlsym(library, mpi_table_symbol));
  if (function == nullptr) return {.failure = fmt::format("has no {}: it is no MPI module", mpi_table_symbol)};
  const MpiTable* const table = function();
  if (table == nullptr || table->layout != mpi_layout) return {.failure = "was built for another equigrad"};
  return {.table = table};
}

/// What `say` returns in a child process that ends then; "" where it ends before, or takes ten seconds.
std::string said_by_child(const std::function<std::string()>& say) {
  int ends[2] = {};
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const FileDescriptor reading(ends[0]);
  std::optional<FileDescriptor> writing(std::in_place, ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return {};
  if (child == 0) {
    try {
      write_all(ends[1], say(), "pipe");
    } catch (...) { // the parent sees that nothing came
    }
    ::_exit(0);
  }
  writing.reset();
  std::string text;
  std::array<char, 1024> part{};
  for (pollfd waited{reading.get(), POLLIN, 0};;) {
    const int ready = ::poll(&waited, 1, 10'000);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    const ssize_t got = ::read(reading.get(), part.data(), part.size());
    if (got <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return text;
}

void require(Failure failure) {
  if (failure != nullptr) throw DistributedError(fmt::format("MPI: {}", failure));
}

/// "Open MPI 4.1.4" of "Open MPI v4.1.4, package: Debian OpenMPI, ident: ..." or of MPICH's table of lines.
std::string short_version(const std::string& name, const std::string& library) {
  const std::size_t digit = library.find_first_of("0123456789");
  if (digit == std::string::npos) return name;
  return fmt::format("{} {}", name, library.substr(digit, library.find_first_of(", \n\t", digit) - digit));
}

class MpiTransport final : public Transport {
public:
  explicit MpiTransport(const MpiTable& table) : table_(table) {
    require(table_.start(&rank_, &size_));
    name_ = short_version(table_.name, table_.version());
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return name_; }
  std::unique_ptr<Request> send(int to, int tag, const void* data, std::int64_t bytes) override {
    MpiRequest* request = nullptr;
    require(table_.send(to, tag, data, bytes, &request));
    return std::make_unique<OneRequest>(table_, request);
  }
  std::optional<Arrival> probe(int from) override {
    bool found = false;
    Arrival arrival;
    MpiMessage* message = nullptr;
    require(table_.probe(from, &found, &arrival.tag, &arrival.bytes, &message));
    if (!found) return {};
    arrival.handle = std::shared_ptr<void>(message, [](void*) {}); // receive() passes it on
    return arrival;
  }
  std::unique_ptr<Request> receive(Arrival arrival, void* data) override {
    MpiRequest* request = nullptr;
    require(table_.receive(static_cast<MpiMessage*>(arrival.handle.get()), data, arrival.bytes, &request));
    return std::make_unique<OneRequest>(table_, request);
  }
  void finish() override { require(table_.finish()); }
  void abort(int code) noexcept override { table_.abort(code); }

private:
  class OneRequest final : public Request {
  public:
    OneRequest(const MpiTable& table, MpiRequest* request) : table_(table), request_(request) {}
    bool done() override {
      if (request_ == nullptr) return true;
      bool finished = false;
      require(table_.test(request_, &finished));
      if (finished) request_ = nullptr;
      return finished;
    }

  private:
    const MpiTable& table_;
    MpiRequest* request_;
  };

  const MpiTable& table_;
  int rank_ = 0, size_ = 1;
  std::string name_;
};

} // namespace

std::unique_ptr<Transport> open_mpi(const Launch& launch) {
  std::string failures;
  const auto transport_of = [&](const std::string& path) -> std::unique_ptr<Transport> {
    // Open MPI's own plug-ins look for its symbols among the program's.
    const Opened opened = open_file(path, RTLD_GLOBAL);
    if (opened.table == nullptr) {
      failures += fmt::format("; {}: {}", path, opened.failure);
      return nullptr;
    }
    return std::make_unique<MpiTransport>(*opened.table);
  };
  if (const char* const wished = std::getenv(variable); wished != nullptr && *wished != '\0') {
    if (auto transport = transport_of(wished)) return transport;
  } else {
    failures += fmt::format("; {}: not set", variable);
    for (const fs::path& place : places_of(files[launch.launcher == "MPICH" ? 1 : 0]))
      if (auto transport = transport_of(place.string())) return transport;
  }
  throw DistributedError(fmt::format("this process was started by {}, and there is no module for it{}; "
                                     "docs/distributed.md says how to build one",
                                     launch.launcher, failures));
}

std::vector<MpiModule> mpi_modules() {
  std::vector<MpiModule> modules;
  for (const char* file : files) {
    MpiModule module{.file = file, .path = {}, .version = {}, .error = {}};
    for (const fs::path& place : places_of(file)) {
      std::error_code ignored;
      if (!fs::is_regular_file(place, ignored)) continue;
      module.path = place.string();
      break;
    }
    if (module.path.empty()) {
      module.error = "not built: there was no MPI of this kind, or EQUIGRAD_MPI=OFF";
    } else {
      // Two MPIs in one process would share the names of their functions. Under a launcher this one has an MPI already,
      // behind which the module's own must be looked up.
      const int mode = launch() ? RTLD_LOCAL | RTLD_DEEPBIND : RTLD_LOCAL;
      const std::string answer = said_by_child([&] {
        const Opened opened = open_file(module.path, mode);
        return opened.table == nullptr ? "-" + opened.failure
                                       : "+" + short_version(opened.table->name, opened.table->version());
      });
      std::string& field = answer.starts_with('+') ? module.version : module.error;
      field = answer.empty() ? "it ends the process that opens it" : answer.substr(1);
    }
    modules.push_back(std::move(module));
  }
  return modules;
}

} // namespace eg::distributed
