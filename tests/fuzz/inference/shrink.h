#pragma once
// Shrinks a program that fails to a small one that fails too.

#include "fuzz/inference/program.h"

#include <functional>

namespace eg::fuzz {

/// Whether a program shows the failure. One for which it throws an eg::Error does not.
using Fails = std::function<bool(const Program&)>;

/// Takes steps, outputs, inputs and leaves away as long as the program fails. It fails itself.
Program shrunk(Program program, const Fails& fails);

/// The program in which what reads output 0 of that step reads one of the step's inputs instead; one for each input of
/// the same shape and type. The leaves stay, also where nothing reads them.
std::vector<Program> without_step(const Program& program, std::size_t step);

} // namespace eg::fuzz
