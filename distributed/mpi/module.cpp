// The functions of mpi_table.h on one MPI.

#include "distributed/mpi_table.h"

#include <mpi.h>

#include <climits>
#include <memory>
#include <string>

namespace eg::distributed {

struct MpiRequest {
  MPI_Request handle = MPI_REQUEST_NULL;
};
struct MpiMessage {
  MPI_Message handle = MPI_MESSAGE_NULL;
};

namespace {

std::string last_failure;

Failure failure_of(const char* what, int code) {
  if (code == MPI_SUCCESS) return nullptr;
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  last_failure = std::string(what) + ": " + text;
  return last_failure.c_str();
}

Failure refused(const std::string& why) {
  last_failure = why;
  return last_failure.c_str();
}

const char* version() {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  return text;
}

Failure start(int* rank, int* size) {
  int provided = MPI_THREAD_SINGLE;
  // The calling thread is the one that uses MPI, for which MPI_THREAD_FUNNELED is made.
  if (const Failure f =
          failure_of("MPI_Init_thread", MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided)))
    return f;
  if (provided < MPI_THREAD_FUNNELED) return refused("this MPI was built without threads (MPI_THREAD_FUNNELED)");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (const Failure f = failure_of("MPI_Comm_rank", MPI_Comm_rank(MPI_COMM_WORLD, rank))) return f;
  return failure_of("MPI_Comm_size", MPI_Comm_size(MPI_COMM_WORLD, size));
}

Failure send(int to, int tag, const void* data, std::int64_t bytes, MpiRequest** request) {
  if (bytes < 0 || bytes > INT_MAX) return refused("a message is larger than MPI's 2 GiB");
  auto made = std::make_unique<MpiRequest>();
  if (const Failure f = failure_of(
          "MPI_Isend", MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD, &made->handle)))
    return f;
  *request = made.release();
  return nullptr;
}

Failure probe(int from, bool* found, int* tag, std::int64_t* bytes, MpiMessage** message) {
  MPI_Status status;
  int flag = 0;
  MPI_Message handle = MPI_MESSAGE_NULL;
  if (const Failure f =
          failure_of("MPI_Improbe", MPI_Improbe(from, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &handle, &status)))
    return f;
  *found = flag != 0;
  if (!*found) return nullptr;
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  *tag = status.MPI_TAG;
  *bytes = count;
  *message = new MpiMessage{handle};
  return nullptr;
}

Failure receive(MpiMessage* message, void* data, std::int64_t bytes, MpiRequest** request) {
  const std::unique_ptr<MpiMessage> owned(message);
  auto made = std::make_unique<MpiRequest>();
  if (const Failure f =
          failure_of("MPI_Imrecv", MPI_Imrecv(data, static_cast<int>(bytes), MPI_BYTE, &owned->handle, &made->handle)))
    return f;
  *request = made.release();
  return nullptr;
}

Failure test(MpiRequest* request, bool* done) {
  int flag = 0;
  const Failure f = failure_of("MPI_Test", MPI_Test(&request->handle, &flag, MPI_STATUS_IGNORE));
  *done = flag != 0;
  if (*done) delete request;
  return f;
}

Failure finish() { return failure_of("MPI_Finalize", MPI_Finalize()); }

void abort_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

#ifdef OPEN_MPI
constexpr const char* name = "Open MPI";
#else
constexpr const char* name = "MPICH";
#endif

constexpr MpiTable table = {mpi_layout, name, version, start, send, probe, receive, test, finish, abort_all};

} // namespace
} // namespace eg::distributed

extern "C" __attribute__((visibility("default"))) const eg::distributed::MpiTable* equigrad_mpi_table() {
  return &eg::distributed::table;
}
