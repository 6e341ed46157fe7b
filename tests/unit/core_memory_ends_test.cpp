// Kernels touch no memory behind a tensor's: vectors at its end would read, and on some processors write, what belongs
// to others. Here a page that must not be touched lies there.

#include "core/ops/reduce/kernels.h"
#include "core/registry.h"
#include "support/law_tools.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <doctest/doctest.h>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace eg;

namespace {

/// Memory that ends where a page begins that can be neither read nor written.
std::shared_ptr<std::byte> guarded(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t usable = (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
  void* whole = ::mmap(nullptr, usable + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(whole != MAP_FAILED);
  auto* begin = static_cast<std::byte*>(whole);
  REQUIRE(::mprotect(begin + usable, page, PROT_NONE) == 0);
  return {begin + usable - bytes, [begin, usable, page](std::byte*) { ::munmap(begin, usable + page); }};
}

Tensor guarded(const Tensor& x) {
  if (!x.defined() || x.numel() == 0) return x;
  const Tensor packed = x.contiguous();
  const std::size_t bytes = static_cast<std::size_t>(packed.numel()) * size_of(packed.dtype());
  const std::shared_ptr<std::byte> memory = guarded(bytes);
  std::memcpy(memory.get(), packed.bytes(), bytes);
  return Tensor::adopt(memory, bytes, packed.shape(), packed.dtype());
}

template <class T> void check_column_sums(std::int64_t columns) {
  constexpr std::int64_t rows = 3;
  const Tensor x = guarded(Tensor::ones({rows, columns}, dtype_of<T>));
  const std::shared_ptr<std::byte> memory = guarded(static_cast<std::size_t>(columns) * sizeof(T));
  T* out = reinterpret_cast<T*>(memory.get());
  reduce::column_sums(x.data<T>(), rows, columns, columns, out);
  CHECK(std::all_of(out, out + columns, [](T sum) { return sum == T(rows); }));
}

} // namespace

TEST_CASE("operations read nothing behind their inputs, and their gradients nothing either") {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const OpDef* op : registry()) {
      laws::Verdict verdict;
      laws::each_sample(*op, dtype, verdict, [&](const Sample& sample) {
        INFO(laws::where(*op, sample, dtype));
        Sample packed = laws::packed_copy(sample), at_end = packed;
        for (Tensor& x : at_end.in) x = guarded(x);
        const laws::Tensors expected = laws::outputs(*op, packed), out = laws::outputs(*op, at_end);
        CHECK(laws::difference_in_bits(out, expected).empty());
        if (!laws::differentiable(*op, sample)) return;
        laws::Tensors cotangents = laws::cotangents_for(out);
        for (Tensor& x : cotangents) x = guarded(x);
        laws::gradients(*op, at_end, cotangents);
      });
      CHECK_MESSAGE(verdict.pass(), op->name, verdict.text());
    }
}

TEST_CASE("sums of columns write nothing behind their output") {
  for (std::int64_t columns = 1; columns < 70; ++columns) {
    CAPTURE(columns);
    check_column_sums<float>(columns);
    check_column_sums<double>(columns);
  }
}
