#pragma once
// Chooses who factorises matrices: LAPACK where OpenBLAS opens, else the plain loops of loops.h.
//
// LAPACK's blocked and divided algorithms are faster than plain loops from some ten rows on, 20 times (svd) to 100
// times (eigh) at 256. It cannot be relied on everywhere. WebAssembly opens no libraries, and a machine that has
// installed a wheel may have no OpenBLAS, since products do without it. There, and in exact mode, loops.h does the
// work: one implementation in plain C++. The environment variable EQUIGRAD_LINALG chooses: openblas or own.

#include <string>

namespace eg::linalg {

/// True for LAPACK. Throws ValueError for another value of EQUIGRAD_LINALG, Error where it says openblas and that does
/// not open.
bool uses_lapack();
/// "OpenBLAS's LAPACK" or "own loops".
std::string engine();

} // namespace eg::linalg
