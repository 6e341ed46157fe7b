#include "autograd/accumulate.h"

#include "core/call.h"
#include "core/ops.h"
#include "core/ops/list.h"
#include "core/threads/parallel.h"

#include <array>
#include <span>
#include <utility>

namespace eg {
namespace {

template <class T> void add_packed(Tensor& target, const Tensor& term) {
  T* to = target.mutable_data<T>("gradient accumulation");
  const T* from = term.data<T>();
  parallel::for_each(target.numel(), 1 << 15, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] += from[i];
  });
}

/// target += term by the device's kernel.
void add_on_device(Tensor& target, const Tensor& term) {
  const std::array<Tensor, 2> in = {target, term};
  const Attrs none;
  add_op.cuda(OpArgs{add_op, in, none}, std::span(&target, 1));
}

bool added_in_place(Tensor& target, const Tensor& term) {
  if (!target.exclusive() || !target.is_contiguous() || !term.is_contiguous() || target.device() != term.device())
    return false;
  if (!target.device().is_cpu())
    add_on_device(target, term);
  else if (target.dtype() == DType::f32)
    add_packed<float>(target, term);
  else
    add_packed<double>(target, term);
  return true;
}

} // namespace

void accumulate(Tensor& sum, Tensor term) {
  if (!sum.defined()) {
    sum = std::move(term);
    return;
  }
  if (!values_recording()) { // nobody needs the sum so far
    const Clock::time_point began = recording() ? Clock::now() : Clock::time_point();
    if (!added_in_place(sum, term)) {
      if (!added_in_place(term, sum)) {
        sum = add(sum, term);
        return;
      }
      std::swap(sum, term);
    }
    if (!recording()) return;
    const std::array<Tensor, 2> in = {sum, term};
    const Attrs none;
    notify_recorders(Event{.op = &add_op, .in = in, .out = std::span(&sum, 1), .attrs = &none, .began = began});
    return;
  }
  sum = add(sum, term);
}

} // namespace eg
