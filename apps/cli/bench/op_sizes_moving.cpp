#include "apps/cli/bench/op_sizes.h"

#include <array>

namespace eg::cli::bench {
namespace {

/// True in about half of the places.
Tensor mask(Draw& d) { return gt(d(wide), d(wide)); }

Sample two_masks(Draw& d) { return {{mask(d), mask(d)}, {}}; }

Sample triangle(Draw& d) { return {{d(scores)}, {}}; }

/// Windows of 3 x 3 pixels over four images, seen from the images or from the windows.
template <bool backward> Sample windows_of_three(Draw& d) {
  Attrs attrs{{"kernel_size", List{3}}, {"padding", List{1}}};
  if (!backward) return {{d({4, 64, 56, 56})}, std::move(attrs)};
  attrs.set("output_size", List{56, 56});
  return {{d({4, 576, 3136})}, std::move(attrs)};
}

constexpr std::array moving{
    SizedRow{&where_op,
             [](Draw& d) {
               return Sample{{mask(d), d(wide), d(wide)}, {}};
             }},
    SizedRow{&masked_fill_op,
             [](Draw& d) {
               return Sample{{d(wide), mask(d)}, {{"value", 0.0}}};
             }},
    SizedRow{&logical_and_op, two_masks},
    SizedRow{&logical_or_op, two_masks},
    SizedRow{&logical_xor_op, two_masks},
    SizedRow{&logical_not_op,
             [](Draw& d) {
               return Sample{{mask(d)}, {}};
             }},
    SizedRow{&pad_op,
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"before", std::int64_t{1}}, {"after", std::int64_t{1}}}};
             }},
    SizedRow{&roll_op,
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"shifts", List{7}}, {"axes", List{1}}}};
             }},
    SizedRow{&flip_op,
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"axes", List{1}}}};
             }},
    SizedRow{&tril_op, triangle},
    SizedRow{&triu_op, triangle},
    SizedRow{&split_op,
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"sizes", List{128}}, {"axis", std::int64_t{1}}}};
             }},
    SizedRow{&chunk_op,
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"chunks", std::int64_t{4}}, {"axis", std::int64_t{1}}}};
             }},
    SizedRow{&repeat_op,
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"repeats", List{1, 4}}}};
             }},
    SizedRow{&repeat_interleave_op,
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"repeats", std::int64_t{4}}, {"axis", std::int64_t{1}}}};
             }},
    SizedRow{&slice_backward_op,
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"axis", std::int64_t{1}}, {"extent", std::int64_t{1536}}}};
             }},
    SizedRow{&unfold_op, windows_of_three<false>},
    SizedRow{&fold_op, windows_of_three<true>},
    SizedRow{&unpatchify_op,
             [](Draw& d) {
               return Sample{{d({64, 196, 768})},
                             {{"channels", std::int64_t{3}},
                              {"height", std::int64_t{224}},
                              {"width", std::int64_t{224}},
                              {"patch", std::int64_t{16}}}};
             }},
};

} // namespace

std::span<const SizedRow> moving_sizes() { return moving; }

} // namespace eg::cli::bench
