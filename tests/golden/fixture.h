#pragma once
// The golden file: calls of operations with what PyTorch computed for them. README.md describes the format, make.py
// writes it.

#include "core/attributes.h"
#include "core/base/bytes.h"
#include "core/tensor.h"

#include <cstdint>
#include <string>
#include <vector>

namespace eg::golden {

/// What a case holds beside values.
enum class Depth : std::uint8_t {
  values,   ///< outputs alone: the row has no gradient
  extremes, ///< outputs for NaN, infinities, huge and tiny numbers, compared element by element
  first,    ///< outputs and first derivatives
  second    ///< outputs, first and second derivatives
};

/// One input: element type (f floating, i integers, u bytes, b truth values), extents, layout and how its elements are
/// drawn. `given` is false for an optional input that was left out.
struct InputSpec {
  bool given = false;
  char type = 'f';
  Shape shape;
  char layout = 'c';
  std::string drawn;
};

/// One output: element type (f that of the run, s f32, d f64, i integers, u bytes, b truth values) and extents.
struct OutputSpec {
  char type = 'f';
  Shape shape;
};

/// True for outputs with gradients.
bool is_floating(const OutputSpec& y);

/// One call of one row and what it must give. Numbers are in row-major order.
struct Case {
  std::string op;
  int number = 0; ///< within its row, from 0
  Depth depth = Depth::values;
  std::uint64_t salt = 0; ///< of the generator
  Attrs attrs;
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::vector<std::vector<double>> values;       ///< by output
  std::vector<std::vector<double>> gradients;    ///< J^T v by floating input
  std::vector<std::vector<double>> second;       ///< d<J^T v, w>/d(input) by floating input
  std::vector<std::vector<double>> by_cotangent; ///< d<J^T v, w>/dv = J w by floating output

  /// "softmax, case 7 (axis=1; x 3x5 transposed)"
  std::string name() const;
};

/// Checksums, markers and lengths are verified. Throws FileError that begins with `source` for bytes that are damaged,
/// cut short or of another format.
std::vector<Case> parse(ByteView bytes, const std::string& source);
/// The same for a packed file (xz). Throws FileError.
std::vector<Case> read(const std::string& path);

} // namespace eg::golden
