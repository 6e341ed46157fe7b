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
    SizedRow{"where",
             [](Draw& d) {
               return Sample{{mask(d), d(wide), d(wide)}, {}};
             }},
    SizedRow{"masked_fill",
             [](Draw& d) {
               return Sample{{d(wide), mask(d)}, {{"value", 0.0}}};
             }},
    SizedRow{"logical_and", two_masks},
    SizedRow{"logical_or", two_masks},
    SizedRow{"logical_xor", two_masks},
    SizedRow{"logical_not",
             [](Draw& d) {
               return Sample{{mask(d)}, {}};
             }},
    SizedRow{"pad",
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"before", std::int64_t{1}}, {"after", std::int64_t{1}}}};
             }},
    SizedRow{"roll",
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"shifts", List{7}}, {"axes", List{1}}}};
             }},
    SizedRow{"flip",
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"axes", List{1}}}};
             }},
    SizedRow{"tril", triangle},
    SizedRow{"triu", triangle},
    SizedRow{"split",
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"sizes", List{128}}, {"axis", std::int64_t{1}}}};
             }},
    SizedRow{"chunk",
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"chunks", std::int64_t{4}}, {"axis", std::int64_t{1}}}};
             }},
    SizedRow{"repeat",
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"repeats", List{1, 4}}}};
             }},
    SizedRow{"repeat_interleave",
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"repeats", std::int64_t{4}}, {"axis", std::int64_t{1}}}};
             }},
    SizedRow{"slice_backward",
             [](Draw& d) {
               return Sample{{d(tokens)}, {{"axis", std::int64_t{1}}, {"extent", std::int64_t{1536}}}};
             }},
    SizedRow{"unfold", windows_of_three<false>},
    SizedRow{"fold", windows_of_three<true>},
    SizedRow{"unpatchify",
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
