#pragma once
// Draws which axes of a model's parameters are permuted together.

#include "permute/symmetries.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace eg::report {

/// A group that acts on an axis, or on the part [first, last) of it; last 0: on all of it.
struct DiagramUse {
  std::string group;
  std::int64_t first = 0, last = 0;
};

/// One axis of a parameter: its extent, and the groups that permute it.
struct DiagramAxis {
  std::int64_t size = 0;
  std::vector<DiagramUse> uses = {};
};

/// A parameter and its axes in order: of a weight [out, in] the rows first.
struct DiagramParameter {
  std::string name;
  std::vector<DiagramAxis> axes;
};

/// One <svg> element. Every parameter is a box: its last axis along the upper edge, the one before along the left edge,
/// with a line in the colour and the letter of each group that acts there (dashed where none does), as long as the part
/// of the axis that it moves. Axes of extent 1, and all but the last two others, are left out. The groups follow below
/// with how many axes they move and their `notes`. Any number of groups: colours repeat after ten, letters
/// do not.
std::string axis_diagram(const std::vector<DiagramParameter>& parameters,
                         const std::map<std::string, std::string>& notes = {});

/// What the inference found, for axis_diagram: the first `most` of `tensors` (a model's parameters, by the names that
/// the inference has) with the groups that move them.
struct SymmetryDiagram {
  std::vector<DiagramParameter> parameters;
  std::map<std::string, std::string> notes; ///< each group's elements and bits
};
SymmetryDiagram diagram_of(const permute::ModelSymmetries& symmetries, const nn::StateDict& tensors,
                           std::size_t most = static_cast<std::size_t>(-1));

} // namespace eg::report
