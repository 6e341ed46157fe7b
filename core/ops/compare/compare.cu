// Comparisons, logic and questions on a device.

#include "core/cuda/kernels.h"
#include "core/cuda/launch.h"

#include "core/ops/compare/table.h"

#include <cmath>

namespace eg::cuda {
namespace {

#define EG_RELATION(NAME, MATH, VALUE, ...)                                                                            \
  struct Relation_##NAME {                                                                                             \
    template <class T> __device__ static bool value(T a, T b) { return VALUE; }                                        \
  };
EG_COMPARISONS(EG_RELATION)
EG_LOGIC(EG_RELATION)
#undef EG_RELATION

#define EG_QUESTION(NAME, MATH, VALUE)                                                                                 \
  struct Question_##NAME {                                                                                             \
    template <class T> __device__ static bool value(T x) { return VALUE; }                                             \
  };
EG_QUESTIONS(EG_QUESTION)
#undef EG_QUESTION

struct Question_logical_not {
  template <class T> __device__ static bool value(T x) { return !x; }
};

template <class Relation, class T>
__global__ void compare_kernel(bool* y, const T* a, const T* b, std::int64_t count, Axes<3> axes) {
  for (std::int64_t i = first_element(); i < count; i += element_step()) {
    const Offsets<3> o = offsets_at(axes, i);
    y[o.at[0]] = Relation::value(a[o.at[1]], b[o.at[2]]);
  }
}

template <class Question, class T> __global__ void question_kernel(bool* y, const T* x, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += element_step()) y[i] = Question::value(x[i]);
}

template <class T>
__global__ void where_kernel(T* y, const bool* condition, const T* a, const T* b, std::int64_t count, Axes<4> axes) {
  for (std::int64_t i = first_element(); i < count; i += element_step()) {
    const Offsets<4> o = offsets_at(axes, i);
    y[o.at[0]] = condition[o.at[1]] ? a[o.at[2]] : b[o.at[3]];
  }
}

template <class Relation, class T> Failure start_compare(Queue queue, const device::CompareJob& job) {
  const std::int64_t count = job.axes.count();
  GPU_LAUNCH((compare_kernel<Relation, T>), elements_grid(count), elements_block, 0, queue.stream,
             static_cast<bool*>(job.y), static_cast<const T*>(job.a), static_cast<const T*>(job.b), count, job.axes);
  return nullptr;
}

template <class Question, class T> Failure start_question(Queue queue, const device::QuestionJob& job) {
  GPU_LAUNCH((question_kernel<Question, T>), elements_grid(job.count), elements_block, 0, queue.stream,
             static_cast<bool*>(job.y), static_cast<const T*>(job.x), job.count);
  return nullptr;
}

} // namespace

Failure compare(Queue queue, const device::CompareJob& job) {
  switch (static_cast<compare::Relation>(job.op)) {
#define EG_CASE(NAME, ...)                                                                                             \
  case compare::Relation::NAME:                                                                                        \
    return visit_dtype(job.type, [&]<class T>() { return start_compare<Relation_##NAME, T>(queue, job); });
    EG_COMPARISONS(EG_CASE)
#undef EG_CASE
#define EG_CASE(NAME, ...)                                                                                             \
  case compare::Relation::NAME:                                                                                        \
    return start_compare<Relation_##NAME, bool>(queue, job);
    EG_LOGIC(EG_CASE)
#undef EG_CASE
  case compare::Relation::count:
    break;
  }
  return "there is no such comparison";
}

Failure question(Queue queue, const device::QuestionJob& job) {
  switch (static_cast<compare::Question>(job.op)) {
#define EG_CASE(NAME, ...)                                                                                             \
  case compare::Question::NAME:                                                                                        \
    return visit_floating_type(job.type, [&]<class T>() { return start_question<Question_##NAME, T>(queue, job); });
    EG_QUESTIONS(EG_CASE)
#undef EG_CASE
  case compare::Question::logical_not:
    return start_question<Question_logical_not, bool>(queue, job);
  case compare::Question::count:
    break;
  }
  return "there is no such question";
}

Failure where(Queue queue, const device::WhereJob& job) {
  const std::int64_t count = job.axes.count();
  return visit_size(job.size, [&]<class T>() -> Failure {
    GPU_LAUNCH(where_kernel<T>, elements_grid(count), elements_block, 0, queue.stream, static_cast<T*>(job.y),
               static_cast<const bool*>(job.condition), static_cast<const T*>(job.a), static_cast<const T*>(job.b),
               count, job.axes);
    return nullptr;
  });
}

} // namespace eg::cuda
