// For builds without OpenBLAS, which is a shared library: refuses. Products are our own kernel's there.

#include "core/base/error.h"
#include "core/gemm/openblas.h"

namespace eg::blas::openblas {
namespace {

[[noreturn]] void refuse() { throw Error("blas: this build has no OpenBLAS; its products are the own kernel's"); }

} // namespace

template <class T>
void gemm(int, std::int64_t, std::int64_t, std::int64_t, T, Matrix<T>, Matrix<T>, T, T*, std::int64_t) {
  refuse();
}

template void gemm<float>(int, std::int64_t, std::int64_t, std::int64_t, float, Matrix<float>, Matrix<float>, float,
                          float*, std::int64_t);
template void gemm<double>(int, std::int64_t, std::int64_t, std::int64_t, double, Matrix<double>, Matrix<double>,
                           double, double*, std::int64_t);

void with_own_threads(int, FunctionRef<void()>) { refuse(); }
std::string description() { return "none in this build"; }
bool opens() { return false; }
void* find(const char*) { refuse(); }
void call_alone(FunctionRef<void()>) { refuse(); }

} // namespace eg::blas::openblas
