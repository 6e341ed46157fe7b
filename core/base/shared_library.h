#pragma once
// Opens shared libraries at run time.

#include <string>

namespace eg {

/// The handle of a library, as dlopen gives it. Where the program around us has it already (NumPy's OpenBLAS), a second
/// instance from a copy of the file in memory, so that its settings are ours alone; the one that is there where the
/// system allows no such copy. nullptr where it cannot be opened; dlerror() gives the reason.
void* open_library(const std::string& name);

} // namespace eg
