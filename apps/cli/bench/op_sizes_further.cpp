#include "apps/cli/bench/op_sizes.h"
#include "core/call.h"

#include <array>

namespace eg::cli::bench {
namespace {

Sample columns_of_wide(Draw& d) { return {{d(wide)}, {{"axes", List{0}}}}; }

Sample rows_of_wide(Draw& d) { return {{d(wide)}, {{"axes", List{1}}}}; }

Sample rows_of_tokens(Draw& d) { return {{d(tokens)}, {{"axes", List{1}}}}; }

Sample along_rows(Draw& d) { return {{d(tokens)}, {{"axis", std::int64_t{-1}}}}; }

template <bool cotangent> Sample normed(Draw& d) {
  Sample sample{{d(tokens), d({512})}, {}};
  if (cotangent) sample.in.push_back(d(tokens));
  return sample;
}

/// x and, where the row reads them, gamma, beta or gamma and the cotangent.
template <bool cotangent> Sample normed_images(Draw& d) {
  return {{d(images), d({64}), cotangent ? d(images) : d({64})}, {}};
}

/// Weights of four layers; their Gram matrices, made definite; and systems of these.
Sample some_matrices(Draw& d) { return {{d({4, 512, 256})}, {}}; }

Sample definite_matrices(Draw& d) {
  const Tensor x = d({4, 256, 256});
  return {{matmul(x, x, false, true) + eye(256, -1, d.dtype) * 256.0}, {}};
}

Sample system_of_matrices(Draw& d) {
  Sample sample = definite_matrices(d);
  sample.in.push_back(d({4, 256, 64}));
  return sample;
}

Sample grouped_images(Draw& d) { return {{d(images), d({64}), d({64})}, {{"groups", std::int64_t{32}}}}; }

/// Windows of 2 x 2 pixels, seen from x or from y.
template <bool backward> Sample windows(Draw& d) {
  if (!backward) return {{d(images)}, {{"kernel_size", List{2}}}};
  return {{d({16, 64, 28, 28})}, {{"kernel_size", List{2}}, {"input_size", List{56, 56}}}};
}

template <bool backward> Sample bins(Draw& d) {
  if (!backward) return {{d(images)}, {{"output_size", List{7}}}};
  return {{d({16, 64, 7, 7})}, {{"output_size", List{7}}, {"input_size", List{56, 56}}}};
}

/// conv2d with 64 filters of 3 x 3; the backward rows read the cotangent and the other operand.
enum class Conv : std::uint8_t { forward, input, weight };
template <Conv which> Sample convolved(Draw& d) {
  const Shape filters{64, 64, 3, 3};
  Attrs attrs{{"padding", List{1}}};
  if (which == Conv::input) attrs.set("input_size", List{56, 56});
  if (which == Conv::weight) attrs.set("kernel_size", List{3, 3});
  switch (which) {
  case Conv::forward:
    return {{d(images), d(filters)}, std::move(attrs)};
  case Conv::input:
    return {{d(filters), d(images)}, std::move(attrs)};
  case Conv::weight:
    return {{d(images), d(images)}, std::move(attrs)};
  }
  return {};
}

/// Two tensors that look alike.
Sample a_pair(Draw& d) { return {{d(tokens), d(tokens)}, {}}; }

/// What the backward row of `op` reads: the inputs, the outputs and a cotangent of the first output.
Sample after(const OpDef& op, Sample sample, Draw& d) {
  for (const Tensor& output : call(op, sample.in, sample.attrs)) sample.in.push_back(output);
  sample.in.push_back(d(sample.in[sample.in.size() - 2].shape()));
  return sample;
}

constexpr std::array further{
    SizedRow{&center_op, rows_of_wide},
    SizedRow{&nansum_op, rows_of_wide},
    SizedRow{&nanmean_op, rows_of_wide},
    SizedRow{&median_op, rows_of_tokens},
    SizedRow{&quantile_op,
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"q", 0.9}, {"axes", List{1}}}};
             }},
    SizedRow{&searchsorted_op,
             [](Draw& d) {
               return Sample{{sort(d({1 << 16}), 0).values, d(tokens)}, {}};
             }},
    SizedRow{&masked_select_op,
             [](Draw& d) {
               return Sample{{d(tokens), gt(d(tokens), 0.0)}, {}};
             }},
    SizedRow{&outer_op,
             [](Draw& d) {
               return Sample{{d({1 << 17}), d({16})}, {}};
             }},
    SizedRow{&cross_op,
             [](Draw& d) {
               return Sample{{d({1 << 18, 3}), d({1 << 18, 3})}, {}};
             }},
    SizedRow{&block_diag_op,
             [](Draw& d) {
               return Sample{{d({512, 512}), d({512, 512})}, {}};
             }},
    SizedRow{&meshgrid_op,
             [](Draw& d) {
               return Sample{{d({1 << 17}), d({8})}, {}};
             }},
    SizedRow{&pad_mode_op,
             [](Draw& d) {
               return Sample{{d(images)}, {{"before", std::int64_t{1}}, {"after", std::int64_t{1}}}};
             }},
    SizedRow{&scatter_reduce_op,
             [](Draw& d) {
               return Sample{{d({1000, 512}), d.ids(tokens, 1000), d(tokens)},
                             {{"axis", std::int64_t{0}}, {"reduce", std::string("mean")}}};
             }},
    SizedRow{&conv1d_op,
             [](Draw& d) {
               return Sample{{d({16, 64, 1024}), d({64, 64, 3})}, {}};
             }},
    SizedRow{&conv_transpose1d_op,
             [](Draw& d) {
               return Sample{{d({16, 64, 1024}), d({64, 64, 3})}, {}};
             }},
    SizedRow{&conv_transpose2d_op,
             [](Draw& d) {
               return Sample{{d({16, 64, 28, 28}), d({64, 64, 3, 3})}, {}};
             }},
    SizedRow{&var_op, rows_of_wide},
    SizedRow{&std_op, rows_of_wide},
    SizedRow{&norm_op, rows_of_wide},
    SizedRow{&prod_op, rows_of_wide},
    SizedRow{&logsumexp_op, rows_of_wide},
    SizedRow{&amax_op, columns_of_wide},
    SizedRow{&amin_op, columns_of_wide},
    SizedRow{&any_op, columns_of_wide},
    SizedRow{&all_op, columns_of_wide},
    SizedRow{&count_nonzero_op, columns_of_wide},
    SizedRow{&min_op, along_rows},
    SizedRow{&argmin_op, along_rows},
    SizedRow{&max_with_index_op, along_rows},
    SizedRow{&min_with_index_op, along_rows},
    SizedRow{&prod_of_others_op, along_rows},
    SizedRow{&cumsum_op, along_rows},
    SizedRow{&cumprod_op, along_rows},
    SizedRow{&sort_op, along_rows},
    SizedRow{&argsort_op, along_rows},
    SizedRow{&topk_op,
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"k", std::int64_t{5}}}};
             }},
    SizedRow{&bincount_op,
             [](Draw& d) {
               return Sample{{d.ids({1 << 20}, 30522), d({1 << 20})}, {}};
             }},
    SizedRow{
        &one_hot_op,
        [](Draw& d) {
          return Sample{{d.ids({4160}, 1000)}, {{"num_classes", std::int64_t{1000}}, {"dtype", std::string("f32")}}};
        }},
    SizedRow{&clamp_op,
             [](Draw& d) {
               return Sample{{d(wide)}, {{"min", -1.0}, {"max", 1.0}}};
             }},
    SizedRow{&masked_softmax_op,
             [](Draw& d) {
               return Sample{{d(scores)}, {{"causal", true}}};
             }},
    SizedRow{&rms_norm_op, normed<false>},
    SizedRow{&rms_norm_backward_op, normed<true>},
    SizedRow{&batch_norm_op, normed_images<false>},
    SizedRow{&batch_norm_backward_op, normed_images<true>},
    SizedRow{&group_norm_op, grouped_images},
    SizedRow{&instance_norm_op, normed_images<false>},
    SizedRow{&conv2d_op, convolved<Conv::forward>},
    SizedRow{&conv2d_input_backward_op, convolved<Conv::input>},
    SizedRow{&conv2d_weight_backward_op, convolved<Conv::weight>},
    SizedRow{&max_pool2d_op, windows<false>},
    SizedRow{&avg_pool2d_op, windows<false>},
    SizedRow{&avg_pool2d_backward_op, windows<true>},
    SizedRow{&adaptive_avg_pool2d_op, bins<false>},
    SizedRow{&adaptive_max_pool2d_op, bins<false>},
    SizedRow{&adaptive_avg_pool2d_backward_op, bins<true>},
    SizedRow{&interpolate_op,
             [](Draw& d) {
               return Sample{{d({16, 3, 256, 256})}, {{"size", List{224, 224}}}};
             }},
    SizedRow{&fft_low_pass_op,
             [](Draw& d) {
               return Sample{{d({64, 3, 224, 224})}, {{"cutoff", std::int64_t{20}}}};
             }},
    SizedRow{&drop_path_op,
             [](Draw& d) {
               return Sample{{d({64, 65, 512})}, {{"p", 0.1}, {"seed", std::int64_t{1}}}};
             }},
    SizedRow{&scaled_dot_product_attention_backward_op,
             [](Draw& d) {
               return after(scaled_dot_product_attention_op, {{d(heads), d(heads), d(heads)}, {}}, d);
             }},
    SizedRow{&attention_qkv_backward_op,
             [](Draw& d) {
               return after(attention_qkv_op, {{d({64, 65, 1536})}, {{"heads", std::int64_t{8}}}}, d);
             }},
    SizedRow{
        &index_select_backward_op,
        [](Draw& d) {
          return Sample{{d(tokens), d.ids({4160}, 4160)}, {{"axis", std::int64_t{0}}, {"extent", std::int64_t{4160}}}};
        }},
    SizedRow{&embedding_backward_op,
             [](Draw& d) {
               return Sample{{d({32, 128, 256}), d.ids({32, 128}, 30522)}, {{"rows", std::int64_t{30522}}}};
             }},
    SizedRow{&cosine_similarity_op, a_pair},
    SizedRow{&mse_loss_op, a_pair},
    SizedRow{&bce_with_logits_op,
             [](Draw& d) {
               return Sample{{d(tokens), d.positive(tokens)}, {}};
             }},
    SizedRow{&nll_loss_op,
             [](Draw& d) {
               return Sample{{d(tokens), d.ids({4160}, 512)}, {}};
             }},
    SizedRow{&logsumexp_backward_op,
             [](Draw& d) {
               return Sample{{d({4160, 1}), d(wide), d({4160, 1})}, {}};
             }},
    SizedRow{&kl_div_op,
             [](Draw& d) {
               return Sample{{d(tokens), d.positive(tokens)}, {}};
             }},
    SizedRow{&l1_loss_op, a_pair},
    SizedRow{&smooth_l1_loss_op, a_pair},
    SizedRow{&huber_loss_op, a_pair},
    SizedRow{&soft_cross_entropy_op,
             [](Draw& d) {
               return Sample{{d(tokens), softmax(d(tokens), -1)}, {}};
             }},
    SizedRow{&cosine_embedding_loss_op,
             [](Draw& d) {
               const Tensor labels = (d.ids({4160}, 2).to(DType::f64) * 2.0 - 1.0).to(DType::i64); // 1 and -1
               return Sample{{d(tokens), d(tokens), labels}, {}};
             }},
    SizedRow{&cross_entropy_backward_op,
             [](Draw& d) {
               const Tensor logits = d({640, 30522});
               const Tensor largest = amax(logits, {1});
               const Tensor total = logsumexp(logits, {1}) - largest;
               return Sample{{logits, d.ids({640}, 30522), largest, total, d(Shape{})}, {}};
             }},
    SizedRow{&batch_norm_inference_op,
             [](Draw& d) {
               return Sample{{d(images), d({64}), d.positive({64}), d({64}), d({64})}, {}};
             }},
    SizedRow{&interpolate_backward_op,
             [](Draw& d) {
               return Sample{{d({16, 3, 224, 224})}, {{"size", List{224, 224}}, {"input_size", List{256, 256}}}};
             }},
    SizedRow{&rotary_op,
             [](Draw& d) {
               return Sample{{d({64, 65, 8, 64}), Tensor::arange(65)}, {}};
             }},
    SizedRow{&einsum_op,
             [](Draw& d) {
               return Sample{{d(heads), d(heads)}, {{"equation", std::string("bhqd,bhkd->bhqk")}}};
             }},
    SizedRow{&linear_scan_op, a_pair},
    SizedRow{&cholesky_op, definite_matrices},
    SizedRow{&solve_op, system_of_matrices},
    SizedRow{&solve_triangular_op, system_of_matrices},
    SizedRow{&inv_op, definite_matrices},
    SizedRow{&pinv_op, some_matrices},
    SizedRow{&det_op, definite_matrices},
    SizedRow{&slogdet_op, definite_matrices},
    SizedRow{&qr_op, some_matrices},
    SizedRow{&eigh_op, definite_matrices},
    SizedRow{&svd_op, some_matrices},
    SizedRow{&pow_scalar_op,
             [](Draw& d) {
               return Sample{{d.positive(wide)}, {{"exponent", 1.7}}};
             }},
};

} // namespace

std::span<const SizedRow> further_sizes() { return further; }

} // namespace eg::cli::bench
