#pragma once
// Declares the functions through which the program reaches an MPI that it never links.

#include <cstdint>

namespace eg::distributed {

/// nullptr when a function of the module succeeded; else what failed, valid until the next call.
using Failure = const char*;

/// Opaque handles of the module.
struct MpiRequest;
struct MpiMessage;

/// What a module (distributed/mpi) gives. Every function must be called by the thread that called start().
struct MpiTable {
  std::uint64_t layout; ///< mpi_layout: of a module for this program
  const char* name;     ///< "Open MPI" or "MPICH"
  /// The words of MPI_Get_library_version, before start() too.
  const char* (*version)();
  /// Starts MPI.
  Failure (*start)(int* rank, int* size);
  /// Begins to send; `data` must stay until the request is done.
  Failure (*send)(int to, int tag, const void* data, std::int64_t bytes, MpiRequest** request);
  /// Looks for the next message of one process. When there is one: its tag, size and handle.
  Failure (*probe)(int from, bool* found, int* tag, std::int64_t* bytes, MpiMessage** message);
  /// Begins to receive a message that was found; `data` must stay until the request is done.
  Failure (*receive)(MpiMessage* message, void* data, std::int64_t bytes, MpiRequest** request);
  /// Whether a request is done; if so it is freed.
  Failure (*test)(MpiRequest* request, bool* done);
  /// Waits for every process, then ends MPI.
  Failure (*finish)();
  /// Ends every process with that exit code.
  void (*abort)(int code);
};

inline constexpr std::uint64_t mpi_layout = 0x6571'6d70'6900'0002;
inline constexpr const char* mpi_table_symbol = "equigrad_mpi_table";
using MpiTableFunction = const MpiTable* (*)();

} // namespace eg::distributed
