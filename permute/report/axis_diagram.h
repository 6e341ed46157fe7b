#pragma once
// Which axes of a model's parameters move together, as a picture.

#include <cstdint>
#include <string>
#include <vector>

namespace eg::permute::report {

/// One axis of a parameter: the group that permutes it ("": none) and its extent.
struct DiagramAxis {
  std::string group;
  std::int64_t size = 0;
};

/// A parameter and its axes in order: of a weight [out, in] the rows first.
struct DiagramParameter {
  std::string name;
  std::vector<DiagramAxis> axes;
};

/// One <svg> element. Every parameter is a box: its last axis along the upper edge, the one before along the left edge,
/// each edge in the colour and with the letter of its group (dashed where no group acts). Axes of extent 1 are left
/// out. The groups follow below with their sizes and how many axes they move. Any number of groups: colours repeat
/// after six, letters do not.
std::string axis_diagram(const std::vector<DiagramParameter>& parameters);

} // namespace eg::permute::report
