#pragma once
// Answers the questions of the explorer's pages: all of their mathematics, computed by the library.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace eg::explore {

/// What a page gets back. `json` is one object; its tensors stand in `numbers` (apps/explore/reply.h). A question that
/// cannot be answered gives {"error": one sentence}.
struct Answer {
  std::string json;
  std::vector<double> numbers;
};

/// One page's session: it remembers the trainings and the model that were opened. Answers depend on the questions
/// alone, never on the clock, but for the fields named "ms".
class Door {
public:
  /// `folder`: where the files of "yours" are, and where what it writes goes.
  explicit Door(std::string folder);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  /// Answers {"ask": name, ...}. Does not throw: every error becomes an answer.
  Answer ask(std::string_view question);
  /// Names of all questions.
  static std::span<const std::string_view> questions();

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace eg::explore
