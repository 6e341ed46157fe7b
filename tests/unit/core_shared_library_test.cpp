#include "core/base/shared_library.h"

#include "support/skip.h"

#include <dlfcn.h>
#include <doctest/doctest.h>

using namespace eg;

namespace {

/// A library that every Debian with this project has, and that keeps a setting of its own.
constexpr const char* name = "libopenblas.so.0";

template <class F> F symbol(void* library, const char* which) { return reinterpret_cast<F>(dlsym(library, which)); }

} // namespace

TEST_CASE("a library that the program has already is opened a second time, with settings of its own") {
#ifdef __SANITIZE_THREAD__
  test::skip("core_shared_library: two copies", "ThreadSanitizer's suppressions allow one copy of a library");
  return;
#endif
  void* theirs = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(theirs != nullptr);
  void* ours = open_library(name);
  REQUIRE(ours != nullptr);
  CHECK(ours != theirs);
  const auto set = symbol<void (*)(int)>(theirs, "openblas_set_num_threads");
  const auto get = symbol<int (*)()>(theirs, "openblas_get_num_threads");
  const auto set_ours = symbol<void (*)(int)>(ours, "openblas_set_num_threads");
  const auto get_ours = symbol<int (*)()>(ours, "openblas_get_num_threads");
  REQUIRE((set && get && set_ours && get_ours));
  const int before = get();
  set(2);
  set_ours(1);
  CHECK(get_ours() == 1);
  CHECK(get() == 2);
  set(before);
}

TEST_CASE("a library that is not there") {
  CHECK(open_library("libthere-is-no-such-library.so.1") == nullptr);
  CHECK(dlerror() != nullptr);
}
