// The only file that opens OpenBLAS. The library is opened at the first product, not linked: that costs nothing at
// start-up, takes whichever flavour (pthread, OpenMP, serial) the system has, and lets the kernels be chosen first.
// OpenBLAS 0.3.21 takes processors newer than itself for a Prescott and then runs five times slower (measured on a
// Xeon of 2023: 40 instead of 205 GF/s), so the core is named from what the processor can do.

#include "core/gemm/openblas.h"

#include "core/base/error.h"
#include "core/base/shared_library.h"
#include "core/threads/at_fork.h"
#include "core/threads/parallel.h"

#include <algorithm>
#include <cblas.h>
#include <cstdlib>
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>

namespace eg::blas::openblas {
namespace {

/// Name of the kernels for this processor, nullptr to let OpenBLAS choose.
const char* wanted_core() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return "SKYLAKEX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "HASWELL";
#endif
  return nullptr;
}

/// Sets an environment variable while it lives, unless the user has set it.
class TemporaryVariable {
public:
  TemporaryVariable(const char* name, const char* value) : name_(name), set_(value && std::getenv(name) == nullptr) {
    if (set_) setenv(name, value, 0);
  }
  ~TemporaryVariable() {
    if (set_) unsetenv(name_);
  }
  TemporaryVariable(const TemporaryVariable&) = delete;
  TemporaryVariable& operator=(const TemporaryVariable&) = delete;

private:
  const char* name_;
  bool set_;
};

/// Where OpenBLAS is.
std::string library_name() {
  const char* wished = std::getenv("EQUIGRAD_OPENBLAS");
  return wished == nullptr || *wished == '\0' ? "libopenblas.so.0" : wished;
}

/// OpenMP's number of threads, a setting of the calling thread. OpenBLAS's OpenMP flavour reads it at every call and
/// forgets its own setting; the other flavours leave both functions null.
struct OpenMp {
  void (*set)(int) = nullptr;
  int (*get)() = nullptr;
};

/// `count` OpenMP threads for the calling thread while it lives, then what the program around us had set.
class OpenMpThreads {
public:
  OpenMpThreads(const OpenMp& omp, int count) : omp_(omp), before_(omp.get != nullptr ? omp.get() : count) {
    if (before_ != count) omp_.set(count);
  }
  ~OpenMpThreads() {
    if (omp_.get != nullptr && omp_.get() != before_) omp_.set(before_);
  }
  OpenMpThreads(const OpenMpThreads&) = delete;
  OpenMpThreads& operator=(const OpenMpThreads&) = delete;

private:
  const OpenMp& omp_;
  int before_;
};

struct Library {
  decltype(&cblas_sgemm) sgemm;
  decltype(&cblas_dgemm) dgemm;
  void (*set_threads)(int);
  OpenMp omp;
  std::string description;

  void* handle;

  Library() : handle(open()) {
    void* library = handle;
    sgemm = reinterpret_cast<decltype(sgemm)>(symbol(library, "cblas_sgemm"));
    dgemm = reinterpret_cast<decltype(dgemm)>(symbol(library, "cblas_dgemm"));
    set_threads = reinterpret_cast<void (*)(int)>(symbol(library, "openblas_set_num_threads"));
    const auto text = [&](const char* name) { return reinterpret_cast<char* (*)()>(symbol(library, name))(); };
    const int kind = reinterpret_cast<int (*)()>(symbol(library, "openblas_get_parallel"))();
    if (kind == 2)
      omp = {reinterpret_cast<void (*)(int)>(symbol(library, "omp_set_num_threads")),
             reinterpret_cast<int (*)()>(symbol(library, "omp_get_max_threads"))};
    const OpenMpThreads kept(omp, 1); // set_threads also sets OpenMP's number
    set_threads(1);
    const std::string config = text("openblas_get_config"); // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
    const std::size_t end = config.find(' ', config.find(' ') + 1);
    description = fmt::format("{} {}, core {}, 1 thread a call", config.substr(0, end),
                              kind == 0   ? "serial"
                              : kind == 1 ? "pthread"
                                          : "OpenMP",
                              text("openblas_get_corename"));
  }

private:
  /// OpenBLAS maps a work buffer for each thread that calls it and, where the system refuses one, asks again for ever.
  static void require_address_space() {
    const std::size_t bytes = (static_cast<std::size_t>(parallel::threads()) + 1) * (std::size_t{128} << 20);
    void* room = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
      throw MemoryError(
          fmt::format("blas: OpenBLAS needs {} MiB of address space for {} threads, and the system gives less "
                      "(ulimit -v); raise the limit or use fewer threads",
                      bytes >> 20, parallel::threads()));
    munmap(room, bytes);
  }
  static void* open() {
    const TemporaryVariable core("OPENBLAS_CORETYPE", wanted_core());
    const TemporaryVariable one_thread("OPENBLAS_NUM_THREADS", "1");
    require_address_space();
    void* library = open_library(library_name());
    if (library == nullptr) throw Error(fmt::format("blas: OpenBLAS cannot be opened: {}", dlerror()));
    return library;
  }
  static void* symbol(void* library, const char* name) {
    void* address = dlsym(library, name);
    if (address == nullptr) throw Error(fmt::format("blas: {} has no {}; it is not OpenBLAS", library_name(), name));
    return address;
  }
};

const Library& library() {
  static const Library instance;
  return instance;
}

void call_gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, float alpha, const float* a, int lda,
               const float* b, int ldb, float beta, float* c, int ldc) {
  const Library& opened = library();
  const ForkWaits calling; // OpenBLAS takes locks for its work buffers
  opened.sgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void call_gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, double alpha, const double* a, int lda,
               const double* b, int ldb, double beta, double* c, int ldc) {
  const Library& opened = library();
  const ForkWaits calling;
  opened.dgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

int narrow(std::int64_t value) {
  if (value > INT32_MAX) throw ShapeError(fmt::format("blas: an extent of {} is more than BLAS counts", value));
  return static_cast<int>(value);
}

} // namespace

template <class T>
void gemm(int threads, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, Matrix<T> a, Matrix<T> b, T beta, T* c,
          std::int64_t ldc) {
  const auto flag = [](const Matrix<T>& x) { return x.transposed ? CblasTrans : CblasNoTrans; };
  const auto ld = [](const Matrix<T>& x) { return narrow(std::max<std::int64_t>(x.ld, 1)); };
  const OpenMpThreads pinned(library().omp, threads);
  call_gemm(flag(a), flag(b), narrow(m), narrow(n), narrow(k), alpha, a.data, ld(a), b.data, ld(b), beta, c,
            narrow(ldc));
}

template void gemm<float>(int, std::int64_t, std::int64_t, std::int64_t, float, Matrix<float>, Matrix<float>, float,
                          float*, std::int64_t);
template void gemm<double>(int, std::int64_t, std::int64_t, std::int64_t, double, Matrix<double>, Matrix<double>,
                           double, double*, std::int64_t);

void with_own_threads(int threads, FunctionRef<void()> body) {
  const OpenMpThreads kept(library().omp, threads);
  struct OneThreadAfterwards {
    ~OneThreadAfterwards() { library().set_threads(1); }
  } const restore;
  library().set_threads(threads);
  body();
}

std::string description() { return library().description; }

bool opens() {
  static const bool possible = [] {
    try {
      library();
      return true;
    } catch (const Error&) {
      return false;
    }
  }();
  return possible;
}

void* find(const char* name) { return dlsym(library().handle, name); }

void call_alone(FunctionRef<void()> body) {
  const OpenMpThreads pinned(library().omp, 1);
  const ForkWaits calling; // OpenBLAS takes locks for its work buffers
  body();
}

} // namespace eg::blas::openblas
