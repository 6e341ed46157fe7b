#include "apps/cli/bench/op_sizes.h"

#include <algorithm>
#include <array>

namespace eg::cli::bench {
namespace {

template <int count> Sample same_shape(Draw& draw) {
  Sample sample;
  for (int i = 0; i < count; ++i) sample.in.push_back(draw(wide));
  return sample;
}

Sample positive(Draw& draw) { return {{draw.positive(wide)}, {}}; }

Tensor codes(Draw& draw, const Shape& shape) { return draw.ids(shape, 256).to(DType::u8); }

Sample over_scores(Draw& draw) { return {{draw(scores)}, {{"axis", std::int64_t{-1}}}}; }

Sample scores_and_cotangent(Draw& draw) { return {{draw(scores), draw(scores)}, {{"axis", std::int64_t{-1}}}}; }

constexpr std::array basic{
    SizedRow{&log_op, positive},
    SizedRow{&sqrt_op, positive},
    SizedRow{&rsqrt_op, positive},
    SizedRow{&affine_op,
             [](Draw& d) {
               return Sample{{d(wide)}, {{"scale", 2.0}, {"shift", 1.0}}};
             }},
    SizedRow{&add_op, same_shape<2>},
    SizedRow{&sub_op, same_shape<2>},
    SizedRow{&mul_op, same_shape<2>},
    SizedRow{&div_op,
             [](Draw& d) {
               return Sample{{d(wide), d.positive(wide)}, {}};
             }},
    SizedRow{&sum_op,
             [](Draw& d) {
               return Sample{{d(wide)}, {{"axes", List{0}}}};
             }},
    SizedRow{&mean_op,
             [](Draw& d) {
               return Sample{{d(wide)}, {{"axes", List{1}}}};
             }},
    SizedRow{&max_op,
             [](Draw& d) {
               return Sample{{d(wide)}, {{"axis", std::int64_t{-1}}}};
             }},
    SizedRow{&argmax_op,
             [](Draw& d) {
               return Sample{{d(wide)}, {{"axis", std::int64_t{-1}}}};
             }},
    SizedRow{&sum_to_op,
             [](Draw& d) {
               return Sample{{d(wide)}, {{"shape", List{2048}}}};
             }},
    SizedRow{&dropout_op,
             [](Draw& d) {
               return Sample{{d(wide)}, {{"p", 0.1}, {"seed", std::int64_t{1}}}};
             }},
    SizedRow{&matmul_op,
             [](Draw& d) {
               return Sample{{d({1024, 1024}), d({1024, 1024})}, {}};
             }},
    SizedRow{&linear_op,
             [](Draw& d) {
               return Sample{{d(tokens), d({512, 512}), d({512}), d(tokens)}, {}};
             }},
    // What decoding does with a weight, for one token.
    SizedRow{&quantize_int8_op,
             [](Draw& d) {
               return Sample{{d({3072, 768})}, {}};
             }},
    SizedRow{&dequantize_int8_op,
             [](Draw& d) {
               return Sample{{codes(d, {3072, 768}), d({3072})}, {}};
             }},
    SizedRow{&linear_int8_op,
             [](Draw& d) {
               return Sample{{d({1, 768}), codes(d, {3072, 768}), d({3072}), d({3072})}, {}};
             }},
    SizedRow{&linear_bf16_op,
             [](Draw& d) {
               return Sample{{d({1, 768}), d({3072, 768}).to(DType::f32).to(DType::bf16), d({3072})}, {}};
             }},
    SizedRow{&linear_gelu_op,
             [](Draw& d) {
               return Sample{{d(tokens), d({2048, 512}) * 0.04, d({2048})}, {}}; // activations of a model: about 1
             }},
    SizedRow{&softmax_op, over_scores},
    SizedRow{&softmax_backward_op, scores_and_cotangent},
    SizedRow{&log_softmax_op, over_scores},
    SizedRow{&log_softmax_backward_op, scores_and_cotangent},
    SizedRow{&layer_norm_op,
             [](Draw& d) {
               return Sample{{d(tokens), d({512}), d({512})}, {}};
             }},
    SizedRow{&layer_norm_backward_op,
             [](Draw& d) {
               return Sample{{d(tokens), d({512}), d(tokens)}, {}};
             }},
    SizedRow{&scaled_dot_product_attention_op,
             [](Draw& d) {
               return Sample{{d(heads), d(heads), d(heads)}, {}};
             }},
    SizedRow{&attention_qkv_op,
             [](Draw& d) {
               return Sample{{d({64, 65, 1536})}, {{"heads", std::int64_t{8}}}};
             }},
    SizedRow{&cross_entropy_op,
             [](Draw& d) {
               return Sample{{d({640, 30522}), d.ids({640}, 30522)}, {}};
             }},
    SizedRow{&embedding_op,
             [](Draw& d) {
               return Sample{{d({30522, 256}), d.ids({32, 128}, 30522)}, {}};
             }},
    SizedRow{&index_select_op,
             [](Draw& d) {
               return Sample{{d(tokens), d.permutation(4160)}, {{"axis", std::int64_t{0}}}};
             }},
    SizedRow{&gather_op,
             [](Draw& d) {
               return Sample{{d(tokens), d.ids(tokens, 512)}, {{"axis", std::int64_t{1}}}};
             }},
    SizedRow{&scatter_add_op,
             [](Draw& d) {
               return Sample{{d(tokens), d.ids(tokens, 512), d(tokens)}, {{"axis", std::int64_t{1}}}};
             }},
    SizedRow{&permute_rows_op,
             [](Draw& d) {
               return Sample{{d({64, 65, 512}), d.permutation(65)}, {}};
             }},
    SizedRow{&permute_columns_op,
             [](Draw& d) {
               return Sample{{d(tokens), d.permutation(512)}, {}};
             }},
    SizedRow{&invert_permutation_op,
             [](Draw& d) {
               return Sample{{d.permutation(4096)}, {}};
             }},
    SizedRow{&contiguous_op,
             [](Draw& d) {
               return Sample{{d(wide).transpose()}, {}};
             }},
    SizedRow{&cast_op,
             [](Draw& d) {
               return Sample{{d(wide)}, {{"dtype", std::string("f64")}}};
             }},
    SizedRow{&to_device_op,
             [](Draw& d) {
               return Sample{{d(wide)}, {{"device", std::string("cpu")}}};
             }},
    SizedRow{&concat_op,
             [](Draw& d) {
               return Sample{{d(tokens), d(tokens)}, {{"axis", std::int64_t{1}}}};
             }},
    SizedRow{&stack_op,
             [](Draw& d) {
               return Sample{{d(tokens), d(tokens)}, {{"axis", std::int64_t{0}}}};
             }},
    SizedRow{&patchify_op,
             [](Draw& d) {
               return Sample{{d({64, 3, 224, 224})}, {{"patch", std::int64_t{16}}}};
             }},
};

/// A number, flag or word means the same for inputs of any shape; axes and extents do not.
bool fits_any_shape(const AttrSpec& attribute) {
  return attribute.kind != AttrKind::integer && attribute.kind != AttrKind::integers;
}

/// All inputs are of the type that is measured and of one shape.
bool alike(const Sample& sample, DType dtype) {
  return std::all_of(sample.in.begin(), sample.in.end(), [&](const Tensor& x) {
    return x.defined() && x.dtype() == dtype && x.shape() == sample.in.front().shape();
  });
}

std::int64_t elements(const Sample& sample) {
  std::int64_t count = 0;
  for (const Tensor& x : sample.in) count += x.defined() ? x.numel() : 0;
  return count;
}

} // namespace

std::span<const SizedRow> basic_sizes() { return basic; }

Sample sample_of_model_size(const OpDef& op, Draw& draw) {
  for (const auto rows : {basic_sizes(), further_sizes(), moving_sizes()})
    for (const SizedRow& row : rows)
      if (row.op == &op) return row.make(draw);
  std::vector<Sample> own = op.samples(draw.dtype);
  const bool plain =
      op.view == nullptr && !op.variadic && std::all_of(op.attributes.begin(), op.attributes.end(), fits_any_shape);
  const auto found = std::find_if(own.begin(), own.end(), [&](const Sample& s) { return alike(s, draw.dtype); });
  if (plain && found != own.end()) {
    for (Tensor& x : found->in) x = draw(wide);
    return *found;
  }
  return *std::max_element(own.begin(), own.end(),
                           [](const Sample& a, const Sample& b) { return elements(a) < elements(b); });
}

} // namespace eg::cli::bench
