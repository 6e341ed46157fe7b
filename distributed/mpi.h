#pragma once
// Opens the module of the MPI whose launcher started this process.

#include "distributed/launch.h"
#include "distributed/transport.h"

#include <memory>
#include <string>
#include <vector>

namespace eg::distributed {

/// Starts MPI through the module of the launcher's kind: the file that EQUIGRAD_MPI_MODULE names, else
/// libequigrad_openmpi.so or libequigrad_mpich.so beside the program, in mpi/ beside it, or in ../lib/equigrad. Throws
/// DistributedError that lists what was tried. To be called once, by the thread that will use the transport.
std::unique_ptr<Transport> open_mpi(const Launch& launch);

/// A module and the MPI that it was linked with.
struct MpiModule {
  std::string file;    ///< "libequigrad_openmpi.so"
  std::string path;    ///< "" where there is none
  std::string version; ///< "Open MPI 4.1.4"; "" where it cannot be opened
  std::string error;   ///< why it cannot be opened; ""
};
/// Each module that there may be, opened in a child process of its own.
std::vector<MpiModule> mpi_modules();

} // namespace eg::distributed
