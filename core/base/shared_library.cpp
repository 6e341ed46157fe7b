#include "core/base/shared_library.h"

#include "core/base/file_descriptor.h"

#include <cstddef>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

namespace eg {
namespace {

constexpr int flags = RTLD_NOW | RTLD_LOCAL;

/// The file of a library that is open.
std::string file_of(void* library) {
  const link_map* map = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : std::string();
}

/// The loader takes a file for one that it knows by device and inode, which a copy in memory does not share. nullptr
/// where the system refuses.
void* open_copy(const std::string& file) {
  const FileDescriptor source(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  const FileDescriptor copy(memfd_create("equigrad", MFD_CLOEXEC));
  struct stat status {};
  if (source.get() < 0 || copy.get() < 0 || fstat(source.get(), &status) != 0) return nullptr;
  for (off_t sent = 0; sent < status.st_size;)
    if (sendfile(copy.get(), source.get(), &sent, static_cast<std::size_t>(status.st_size - sent)) <= 0) return nullptr;
  return dlopen(("/proc/self/fd/" + std::to_string(copy.get())).c_str(), flags);
}

} // namespace

void* open_library(const std::string& name) {
  void* shared = dlopen(name.c_str(), flags | RTLD_NOLOAD);
  if (shared == nullptr) return dlopen(name.c_str(), flags);
  if (void* own = open_copy(file_of(shared)); own != nullptr) {
    dlclose(shared);
    return own;
  }
  return shared;
}

} // namespace eg
