// The explorer's engine: three functions that a page's worker calls. Files are in memory, below /model.

#include "apps/explore/door.h"

#include <cstddef>

namespace {

struct Engine {
  eg::explore::Door door{"/model"};
  eg::explore::Answer answer;
};

Engine& engine() {
  static Engine only;
  return only;
}

} // namespace

extern "C" {

/// Answers a question (JSON, UTF-8, ends with a zero) and keeps the answer until the next one.
const char* explorer_ask(const char* question) {
  engine().answer = engine().door.ask(question);
  return engine().answer.json.c_str();
}

/// The numbers of the last answer, and how many there are.
const double* explorer_numbers() { return engine().answer.numbers.data(); }
std::size_t explorer_count() { return engine().answer.numbers.size(); }
}
