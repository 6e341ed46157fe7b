#pragma once
// Evaluates short programs of tensor expressions, as the page "tape" lets its reader write them.

#include "core/tensor.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace eg::explore {

/// Tensors by name, in the order of their making.
using Variables = std::vector<std::pair<std::string, Tensor>>;

/// Runs lines (or parts between semicolons) of the form NAME = EXPRESSION, or EXPRESSION alone, and returns the last
/// value. EXPRESSION: numbers, names, + - * / @ (matrix product), unary -, parentheses, and f(EXPRESSION) for every
/// operation of the registry that takes one floating tensor and nothing else that must be given (gelu, exp, sum,
/// softmax, ...). New names are added to `variables`; a name may be assigned again. Text after # is ignored. Throws
/// ValueError with line and column for text that is no such program, and what the operations throw.
Tensor run_program(std::string_view text, Variables& variables);

/// The operations that a program may call.
std::vector<std::string> program_functions();

} // namespace eg::explore
