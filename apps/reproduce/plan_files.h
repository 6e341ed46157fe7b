#pragma once
// Holds the files of examples/papers/, embedded by the build. Not for users: they call plan_text().

#include <vector>

namespace eg::reproduce {

struct PlanFile {
  const char* id;
  const char* text;
};
/// In the order of their names.
extern const std::vector<PlanFile> plan_files;

} // namespace eg::reproduce
