// The rows that need more than two tokens, two features and one head. tests/theorems/small_sizes_test.cpp holds the
// table to account: with these sizes every row holds and its control fails, and with less the row is skipped.

#include "permute/catalogue/case.h"

#include <algorithm>
#include <initializer_list>

namespace eg::permute {
namespace {

using Ids = std::initializer_list<std::string_view>;

/// Raises the needs of some rows.
template <class Change> void change(std::vector<Identity>& rows, const Ids& ids, Change&& change_needs) {
  for (const std::string_view id : ids) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const Identity& r) { return r.id == id; });
    change_needs(row->needs);
  }
}

} // namespace

void set_needs(std::vector<Identity>& rows) {
  // Rows that one exchange of two tokens cannot tell apart from no permutation, and a cache that is half full.
  change(rows, {"lem9.5-bn-token", "eq63", "kv-cache"}, [](Needs& n) { n.tokens = 3; });
  // Layer norm makes +1 and -1 of two features, whatever they are: what is below it has no gradient. P and its inverse
  // are one for two elements.
  change(rows,
         {"perm-orth",
          "eq76-q",
          "eq76-k",
          "grads-rest-bk",
          "thm10.1",
          "eq79",
          "eq80",
          "fold",
          "cls-note",
          "cor4.3",
          "cor4.3-momentum",
          "cor4.3-nesterov",
          "cor4.3-adam",
          "cor4.3-adamw",
          "cor4.6",
          "cor4.6-momentum",
          "cor4.6-nesterov",
          "cor4.6-adam",
          "cor4.6-adamw",
          "cor4.6-literal",
          "train-decay",
          "train-schedule",
          "train-clip-tensor",
          "train-clip-value",
          "train-accumulate",
          "train-ema",
          "train-drop-path",
          "train-rmsprop",
          "train-lion",
          "train-adafactor",
          "train-muon",
          "train-dropout",
          "train-index-rate",
          "train-projection",
          "train-bn",
          "train-lion-ties",
          "s1-conv",
          "s1-thm3",
          "s1-thm4",
          "s1-thm5",
          "s1-eq97",
          "stip-relu",
          "stip-sec-weights",
          "eq71-dq",
          "train-orth"},
         [](Needs& n) { n.dim = 3; });
  change(rows, {"stip-relu"}, [](Needs& n) { n.hidden = 4; });
  // Heads that are exchanged, and features that are within one.
  change(rows,
         {"mh-heads-v", "gqa", "rope-heads", "gqa-across", "mh-valid", "mh-decoupled", "thm4.4", "eq5", "mh-heads-k"},
         [](Needs& n) { n.heads = 2; });
  change(rows, {"mh-valid", "mh-decoupled", "thm4.4", "eq5", "mh-heads-k", "thm4.5"}, [](Needs& n) { n.head_dim = 2; });
  change(rows,
         {"eq33",
          "eq60",
          "eq62",
          "eq68",
          "eq73",
          "eq74",
          "thm4.1",
          "thm4.2",
          "thm4.4",
          "thm4.5",
          "eq5",
          "eq6",
          "thm4.7",
          "lem4.8",
          "eq76-q",
          "eq76-k",
          "eq76-v",
          "eq77-w1",
          "eq77-w2",
          "grads-rest",
          "grads-rest-o",
          "grads-rest-bk",
          "mh-valid",
          "mh-decoupled",
          "mh-heads-k",
          "mh-heads-v",
          "thm10.1",
          "eq79",
          "eq80",
          "s1-thm2",
          "s1-thm3",
          "s1-thm4",
          "s1-thm5",
          "s1-square",
          "s1-eq51",
          "s1-eq52",
          "s1-eq55",
          "s1-eq62",
          "s1-eq94",
          "s1-eq97",
          "fold",
          "cls-note",
          "train-bn",
          "cor4.3",
          "cor4.3-momentum",
          "cor4.3-nesterov",
          "cor4.3-adam",
          "cor4.3-adamw",
          "cor4.6",
          "cor4.6-momentum",
          "cor4.6-nesterov",
          "cor4.6-adam",
          "cor4.6-adamw",
          "cor4.6-literal",
          "train-index-rate",
          "train-projection",
          "grad-covector"},
         [](Needs& n) { n.f32_tokens = 4, n.f32_dim = 8; });
}

} // namespace eg::permute
