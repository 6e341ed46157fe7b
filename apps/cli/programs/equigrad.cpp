// The program `equigrad`: every verb.

#if EQUIGRAD_NET
#include "apps/cli/stip/stip.h"
#endif
#include "apps/cli/main_job/main_job_verbs.h"
#include "apps/cli/shell/verbs.h"
#include "apps/cli/train_flags.h"

#include <array>

namespace eg::cli {
namespace {

constexpr std::array table = {
    doctor_verb,
    run_verb,
    Verb{"verify", nullptr, "check the theorem catalogue, each identity with its gate and negative control",
         declare_verify, true, "share its rows"},
    Verb{"train", train_topic, "train a ViT or DeiT, a BERT, a GPT-2, a Llama, a factorization machine", declare_train,
         true, "share each batch", trainable_models},
#if EQUIGRAD_NET
    Verb{"edge", train_topic, "train with the encoder's blocks in a cloud that sees permuted features alone",
         declare_edge, true, nullptr, edge_models},
    Verb{"cloud", nullptr, "hold and train encoder blocks for edges", declare_cloud},
    Verb{"stip", stip_topic,
         "inference with the blocks in a cloud that sees permuted features: transform, serve, query", declare_stip,
         true, nullptr, stip_parts},
    Verb{"certs", nullptr, "a test authority: certificates for cloud and edges", declare_certs},
#endif
    Verb{"report", nullptr, "one page that compares runs and shows what their models do", declare_report},
    Verb{"reproduce", nullptr, "tables and figures of the papers again, beside the papers' numbers", declare_reproduce,
         false, "share its experiments"},
    Verb{"download", nullptr, "public data sets, with their checksums", declare_download},
    Verb{"inspect", nullptr, "what is in a model folder or a tensor file", declare_inspect},
    Verb{"infer", nullptr, "one forward pass of a model folder in Hugging Face's format, and all gradients",
         declare_infer, true},
    Verb{"generate", nullptr, "continue a text with a GPT-2 or Llama folder", declare_generate, true},
    Verb{"symmetries", nullptr, "which permutations a model folder or a config commutes with", declare_symmetries},
    Verb{"keygen", nullptr, "make a secret key for a model's groups or for permuted training", declare_keygen},
    Verb{"permute", nullptr, "move a model folder's weights by a key, undo it, or go from one key to another",
         declare_permute},
    Verb{"attack", nullptr, "what permuted weights and data give away: exact attacks, and what theory says of them",
         declare_attack, true, "share its cells: attack, scheme, base and keys"},
    Verb{"explore", nullptr, "the explorer as one page: the theorems in a browser, and a model of yours",
         declare_explore},
    Verb{"tokenize", nullptr, "text to token ids and back", declare_tokenize},
    Verb{"bench", nullptr, "measure training steps, matrix products, operations", declare_bench, true},
};

} // namespace

std::span<const Verb> verbs() { return table; }

} // namespace eg::cli
