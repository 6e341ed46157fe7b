#pragma once
// Matches hidden states with those of every possible next token. Thomas, Zahran, Choi, Potti, Goldblum, Pal, "Hidden No
// More: attacking and defending private third-party LLM inference", ICML 2025 (arXiv 2505.18332).

#include "core/tensor.h"
#include "permute/permutation.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace eg::permute {

/// What was done to the states before they were seen; the four forms of the attack.
struct StateForm {
  bool rows = false;    ///< tokens are in an unknown order
  bool columns = false; ///< features are in an unknown order, the same for all tokens
};

/// The hidden states [V, d] of a text's next token, one for each token of the vocabulary, when the text so far is
/// `prefix`.
using NextStates = std::function<Tensor(std::span<const std::int64_t> prefix)>;

struct VocabularyMatch {
  std::vector<std::int64_t> ids;  ///< the text
  std::vector<std::int64_t> rows; ///< which row of what was seen each token is
  std::vector<double> distances;  ///< of each, L1
};

/// The text whose hidden states [T, d] were seen, token by token: of all tokens that could follow (and of all rows not
/// used yet, where the order is unknown) the one whose state is nearest in L1; where features are permuted both states
/// are sorted first. O(V T) passes for states behind blocks (each for one more token), O(V T d) comparisons, times T
/// where the order is unknown. Exact as long as no two tokens' states come as near as the noise.
/// Sees: hidden states of one text. Knows: the weights up to that layer, and the embeddings.
/// Throws ShapeError when the states' widths differ.
VocabularyMatch match_vocabulary(const Tensor& observed, const NextStates& next, StateForm form);

/// P_C from states h P_C of a text that is known by now, [T, d] both: columns matched. One token is enough when its
/// features differ. O(T d^2).
Permutation features_from_states(const Tensor& observed, const Tensor& known);

} // namespace eg::permute
