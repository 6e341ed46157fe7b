#include "apps/cli/bench/op_sizes.h"
#include "core/call.h"
#include "core/registry.h"

#include <array>

namespace eg::cli::bench {
namespace {

Sample columns_of_wide(Draw& d) { return {{d(wide)}, {{"axes", List{0}}}}; }

Sample rows_of_wide(Draw& d) { return {{d(wide)}, {{"axes", List{1}}}}; }

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

/// What the backward row of `name` reads: the inputs, the outputs and a cotangent of the first output.
Sample after(std::string_view name, Sample sample, Draw& d) {
  for (const Tensor& output : call(find_op(name), sample.in, sample.attrs)) sample.in.push_back(output);
  sample.in.push_back(d(sample.in[sample.in.size() - 2].shape()));
  return sample;
}

constexpr std::array further{
    SizedRow{"center", rows_of_wide},
    SizedRow{"var", rows_of_wide},
    SizedRow{"std", rows_of_wide},
    SizedRow{"norm", rows_of_wide},
    SizedRow{"prod", rows_of_wide},
    SizedRow{"logsumexp", rows_of_wide},
    SizedRow{"amax", columns_of_wide},
    SizedRow{"amin", columns_of_wide},
    SizedRow{"any", columns_of_wide},
    SizedRow{"all", columns_of_wide},
    SizedRow{"count_nonzero", columns_of_wide},
    SizedRow{"min", along_rows},
    SizedRow{"argmin", along_rows},
    SizedRow{"max_with_index", along_rows},
    SizedRow{"min_with_index", along_rows},
    SizedRow{"prod_of_others", along_rows},
    SizedRow{"cumsum", along_rows},
    SizedRow{"cumprod", along_rows},
    SizedRow{"sort", along_rows},
    SizedRow{"argsort", along_rows},
    SizedRow{"topk",
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"k", std::int64_t{5}}}};
             }},
    SizedRow{"bincount",
             [](Draw& d) {
               return Sample{{d.ids({1 << 20}, 30522), d({1 << 20})}, {}};
             }},
    SizedRow{
        "one_hot",
        [](Draw& d) {
          return Sample{{d.ids({4160}, 1000)}, {{"num_classes", std::int64_t{1000}}, {"dtype", std::string("f32")}}};
        }},
    SizedRow{"clamp",
             [](Draw& d) {
               return Sample{{d(wide)}, {{"min", -1.0}, {"max", 1.0}}};
             }},
    SizedRow{"masked_softmax",
             [](Draw& d) {
               return Sample{{d(scores)}, {{"causal", true}}};
             }},
    SizedRow{"rms_norm", normed<false>},
    SizedRow{"rms_norm_backward", normed<true>},
    SizedRow{"batch_norm", normed_images<false>},
    SizedRow{"batch_norm_backward", normed_images<true>},
    SizedRow{"group_norm", grouped_images},
    SizedRow{"instance_norm", normed_images<false>},
    SizedRow{"conv2d", convolved<Conv::forward>},
    SizedRow{"conv2d_input_backward", convolved<Conv::input>},
    SizedRow{"conv2d_weight_backward", convolved<Conv::weight>},
    SizedRow{"max_pool2d", windows<false>},
    SizedRow{"avg_pool2d", windows<false>},
    SizedRow{"avg_pool2d_backward", windows<true>},
    SizedRow{"adaptive_avg_pool2d", bins<false>},
    SizedRow{"adaptive_max_pool2d", bins<false>},
    SizedRow{"adaptive_avg_pool2d_backward", bins<true>},
    SizedRow{"interpolate",
             [](Draw& d) {
               return Sample{{d({16, 3, 256, 256})}, {{"size", List{224, 224}}}};
             }},
    SizedRow{"fft_low_pass",
             [](Draw& d) {
               return Sample{{d({64, 3, 224, 224})}, {{"cutoff", std::int64_t{20}}}};
             }},
    SizedRow{"drop_path",
             [](Draw& d) {
               return Sample{{d({64, 65, 512})}, {{"p", 0.1}, {"seed", std::int64_t{1}}}};
             }},
    SizedRow{"scaled_dot_product_attention_backward",
             [](Draw& d) {
               return after("scaled_dot_product_attention", {{d(heads), d(heads), d(heads)}, {}}, d);
             }},
    SizedRow{"attention_qkv_backward",
             [](Draw& d) {
               return after("attention_qkv", {{d({64, 65, 1536})}, {{"heads", std::int64_t{8}}}}, d);
             }},
    SizedRow{
        "index_select_backward",
        [](Draw& d) {
          return Sample{{d(tokens), d.ids({4160}, 4160)}, {{"axis", std::int64_t{0}}, {"extent", std::int64_t{4160}}}};
        }},
    SizedRow{"embedding_backward",
             [](Draw& d) {
               return Sample{{d({32, 128, 256}), d.ids({32, 128}, 30522)}, {{"rows", std::int64_t{30522}}}};
             }},
    SizedRow{"cosine_similarity", a_pair},
    SizedRow{"mse_loss", a_pair},
    SizedRow{"bce_with_logits",
             [](Draw& d) {
               return Sample{{d(tokens), d.positive(tokens)}, {}};
             }},
    SizedRow{"nll_loss",
             [](Draw& d) {
               return Sample{{d(tokens), d.ids({4160}, 512)}, {}};
             }},
    SizedRow{"logsumexp_backward",
             [](Draw& d) {
               return Sample{{d({4160, 1}), d(wide), d({4160, 1})}, {}};
             }},
    SizedRow{"kl_div",
             [](Draw& d) {
               return Sample{{d(tokens), d.positive(tokens)}, {}};
             }},
    SizedRow{"l1_loss", a_pair},
    SizedRow{"smooth_l1_loss", a_pair},
    SizedRow{"huber_loss", a_pair},
    SizedRow{"soft_cross_entropy",
             [](Draw& d) {
               return Sample{{d(tokens), softmax(d(tokens), -1)}, {}};
             }},
    SizedRow{"cosine_embedding_loss",
             [](Draw& d) {
               const Tensor labels = (d.ids({4160}, 2).to(DType::f64) * 2.0 - 1.0).to(DType::i64); // 1 and -1
               return Sample{{d(tokens), d(tokens), labels}, {}};
             }},
    SizedRow{"cross_entropy_backward",
             [](Draw& d) {
               const Tensor logits = d({640, 30522});
               const Tensor largest = amax(logits, {1});
               const Tensor total = logsumexp(logits, {1}) - largest;
               return Sample{{logits, d.ids({640}, 30522), largest, total, d(Shape{})}, {}};
             }},
    SizedRow{"batch_norm_inference",
             [](Draw& d) {
               return Sample{{d(images), d({64}), d.positive({64}), d({64}), d({64})}, {}};
             }},
    SizedRow{"interpolate_backward",
             [](Draw& d) {
               return Sample{{d({16, 3, 224, 224})}, {{"size", List{224, 224}}, {"input_size", List{256, 256}}}};
             }},
    SizedRow{"rotary",
             [](Draw& d) {
               return Sample{{d({64, 65, 8, 64}), Tensor::arange(65)}, {}};
             }},
    SizedRow{"einsum",
             [](Draw& d) {
               return Sample{{d(heads), d(heads)}, {{"equation", std::string("bhqd,bhkd->bhqk")}}};
             }},
    SizedRow{"linear_scan", a_pair},
    SizedRow{"pow_scalar",
             [](Draw& d) {
               return Sample{{d.positive(wide)}, {{"exponent", 1.7}}};
             }},
};

} // namespace

std::span<const SizedRow> further_sizes() { return further; }

} // namespace eg::cli::bench
