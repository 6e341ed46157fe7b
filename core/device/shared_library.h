#pragma once
// Checks that a file is a whole shared library before the loader maps it.

#include <string>

namespace eg::device {

/// Says why the file is no whole ELF library for this machine: its headers name bytes behind its end, or it is none.
/// Empty where it is one. dlopen() of a file that was cut short would end the process by SIGBUS.
std::string why_no_whole_library(const std::string& file);

} // namespace eg::device
