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

/// For `equigrad doctor`: each module with its path, or why it cannot be opened.
struct MpiModule {
  std::string file;  ///< "libequigrad_openmpi.so"
  std::string path;  ///< "" where there is none
  std::string error; ///< why it cannot be opened; ""
};
std::vector<MpiModule> mpi_modules();

} // namespace eg::distributed
