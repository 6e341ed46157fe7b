#include "cli/bench/op_sizes.h"

#include <algorithm>

namespace eg::cli::bench {
namespace {

template <int count> Sample same_shape(Draw& draw) {
  Sample sample;
  for (int i = 0; i < count; ++i) sample.in.push_back(draw(wide));
  return sample;
}

Sample positive(Draw& draw) { return {{draw.positive(wide)}, {}}; }

Sample over_scores(Draw& draw) { return {{draw(scores)}, {{"axis", std::int64_t{-1}}}}; }

Sample scores_and_cotangent(Draw& draw) { return {{draw(scores), draw(scores)}, {{"axis", std::int64_t{-1}}}}; }

} // namespace

const Sizes& basic_sizes() {
  static const Sizes table = {
      {"log", positive},
      {"sqrt", positive},
      {"rsqrt", positive},
      {"affine",
       [](Draw& d) {
         return Sample{{d(wide)}, {{"scale", 2.0}, {"shift", 1.0}}};
       }},
      {"add", same_shape<2>},
      {"sub", same_shape<2>},
      {"mul", same_shape<2>},
      {"div",
       [](Draw& d) {
         return Sample{{d(wide), d.positive(wide)}, {}};
       }},
      {"sum",
       [](Draw& d) {
         return Sample{{d(wide)}, {{"axes", List{0}}}};
       }},
      {"mean",
       [](Draw& d) {
         return Sample{{d(wide)}, {{"axes", List{1}}}};
       }},
      {"max",
       [](Draw& d) {
         return Sample{{d(wide)}, {{"axis", std::int64_t{-1}}}};
       }},
      {"argmax",
       [](Draw& d) {
         return Sample{{d(wide)}, {{"axis", std::int64_t{-1}}}};
       }},
      {"sum_to",
       [](Draw& d) {
         return Sample{{d(wide)}, {{"shape", List{2048}}}};
       }},
      {"dropout",
       [](Draw& d) {
         return Sample{{d(wide)}, {{"p", 0.1}, {"seed", std::int64_t{1}}}};
       }},
      {"matmul",
       [](Draw& d) {
         return Sample{{d({1024, 1024}), d({1024, 1024})}, {}};
       }},
      {"linear",
       [](Draw& d) {
         return Sample{{d(tokens), d({512, 512}), d({512}), d(tokens)}, {}};
       }},
      {"linear_gelu",
       [](Draw& d) {
         return Sample{{d(tokens), d({2048, 512}) * 0.04, d({2048})}, {}}; // activations of a model: about 1
       }},
      {"softmax", over_scores},
      {"softmax_backward", scores_and_cotangent},
      {"log_softmax", over_scores},
      {"log_softmax_backward", scores_and_cotangent},
      {"layer_norm",
       [](Draw& d) {
         return Sample{{d(tokens), d({512}), d({512})}, {}};
       }},
      {"layer_norm_backward",
       [](Draw& d) {
         return Sample{{d(tokens), d({512}), d(tokens)}, {}};
       }},
      {"scaled_dot_product_attention",
       [](Draw& d) {
         return Sample{{d(heads), d(heads), d(heads)}, {}};
       }},
      {"attention_qkv",
       [](Draw& d) {
         return Sample{{d({64, 65, 1536})}, {{"heads", std::int64_t{8}}}};
       }},
      {"cross_entropy",
       [](Draw& d) {
         return Sample{{d({640, 30522}), d.ids({640}, 30522)}, {}};
       }},
      {"embedding",
       [](Draw& d) {
         return Sample{{d({30522, 256}), d.ids({32, 128}, 30522)}, {}};
       }},
      {"index_select",
       [](Draw& d) {
         return Sample{{d(tokens), d.permutation(4160)}, {{"axis", std::int64_t{0}}}};
       }},
      {"gather",
       [](Draw& d) {
         return Sample{{d(tokens), d.ids(tokens, 512)}, {{"axis", std::int64_t{1}}}};
       }},
      {"scatter_add",
       [](Draw& d) {
         return Sample{{d(tokens), d.ids(tokens, 512), d(tokens)}, {{"axis", std::int64_t{1}}}};
       }},
      {"permute_rows",
       [](Draw& d) {
         return Sample{{d({64, 65, 512}), d.permutation(65)}, {}};
       }},
      {"permute_columns",
       [](Draw& d) {
         return Sample{{d(tokens), d.permutation(512)}, {}};
       }},
      {"invert_permutation",
       [](Draw& d) {
         return Sample{{d.permutation(4096)}, {}};
       }},
      {"contiguous",
       [](Draw& d) {
         return Sample{{d(wide).transpose()}, {}};
       }},
      {"cast",
       [](Draw& d) {
         return Sample{{d(wide)}, {{"dtype", std::string("f64")}}};
       }},
      {"concat",
       [](Draw& d) {
         return Sample{{d(tokens), d(tokens)}, {{"axis", std::int64_t{1}}}};
       }},
      {"stack",
       [](Draw& d) {
         return Sample{{d(tokens), d(tokens)}, {{"axis", std::int64_t{0}}}};
       }},
      {"patchify",
       [](Draw& d) {
         return Sample{{d({64, 3, 224, 224})}, {{"patch", std::int64_t{16}}}};
       }},
  };
  return table;
}

Sample sample_of_model_size(const OpDef& op, Draw& draw) {
  for (const Sizes* sizes : {&basic_sizes(), &further_sizes()})
    if (const auto found = sizes->find(op.name); found != sizes->end()) return found->second(draw);
  const bool plain = op.view == nullptr && op.attributes.size() == 0 && !op.variadic;
  if (plain) {
    Sample sample;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) sample.in.push_back(draw(wide));
    try {
      op.infer({op, sample.in, sample.attrs});
      return sample;
    } catch (const Error&) { // the inputs of this row do not all look alike
    }
  }
  std::vector<Sample> own = op.samples(draw.dtype);
  const auto elements = [](const Sample& s) {
    std::int64_t count = 0;
    for (const Tensor& x : s.in) count += x.defined() ? x.numel() : 0;
    return count;
  };
  return *std::max_element(own.begin(), own.end(),
                           [&](const Sample& a, const Sample& b) { return elements(a) < elements(b); });
}

} // namespace eg::cli::bench
