// What the laws of rows cannot know: numbers that others computed, and how the rows of images fit together.

#include "core/measure/work_meter.h"
#include "core/ops.h"
#include "core/random.h"
#include "core/threads/parallel.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace eg;

namespace {

/// 7 x 5 pixels whose numbers look random and are multiples of 1/37 in f32.
Tensor pillow_image() {
  std::vector<float> pixels;
  for (std::uint32_t i = 0; i < 35; ++i)
    pixels.push_back((static_cast<float>((i * 2654435761U + 12345U) >> 13 & 255U) - 100.0F) / 37.0F);
  return Tensor::from(pixels, {1, 1, 7, 5});
}

void check_close(const Tensor& y, const std::vector<float>& wanted) {
  const std::vector<float> got = y.to_vector<float>();
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - wanted[i]) < 1e-6);
}

Tensor normal(const Shape& shape, std::uint64_t tag, DType dtype = DType::f64) {
  return random_normal(shape, RandomKey{31, tag}, 0.0, 1.0, dtype);
}

} // namespace

TEST_CASE("resize_pillow gives the numbers of Pillow's F images") { // Pillow 9.4.0
  const Tensor x = pillow_image();
  check_close(resize_pillow(x, {3, 4}, "bilinear"),
              {-0.0386099629F, 0.288288325F, 0.722972989F, 1.65637064F, -0.360890299F, 0.479597211F, 0.693826139F,
               1.52305245F, -0.494208425F, 0.45045048F, 0.890765727F, 1.20318532F});
  check_close(resize_pillow(x, {9, 2}, "bilinear"),
              {0.202702776F, 0.911547899F, 0.348484874F, 1.26699424F, 0.0992356092F, 1.12257707F, -0.184957683F,
               0.768495798F, 0.229729697F, 0.93857497F, 0.399808884F, 1.35326231F, 0.0457275547F, 1.06906903F,
               -0.0982800722F, 0.823505282F, 0.257985294F, 0.976658523F});
  check_close(resize_pillow(x, {3, 4}, "bicubic"),
              {-0.133741602F, 0.326318085F, 0.654074907F, 1.78005302F, -0.326534122F, 0.358873725F, 0.814831614F,
               1.48709416F, -0.619294524F, 0.519512773F, 0.854551136F, 1.29699063F});
  check_close(resize_pillow(x, {9, 2}, "bicubic"),
              {0.0362296849F, 1.04673505F, 0.304092705F, 1.35521412F, 0.0817681104F, 1.15778184F, -0.270062F,
               0.788222075F, 0.0777393356F, 1.09089339F, 0.380410641F, 1.43869472F, 0.0107968412F, 1.08609414F,
               -0.186328113F, 0.868150711F, 0.122723065F, 1.14416802F});
}

TEST_CASE("conv2d is a product with unfolded windows") {
  const Tensor x = normal({3, 5, 40, 37}, 1);
  const Tensor w = normal({8, 5, 3, 4}, 2);
  const Tensor columns = unfold(x, {3, 4}, {1, 2}, {2, 1}, {2, 1});
  const Tensor y = conv2d(x, w, {}, {.stride = {1, 2}, .padding = {2, 1}, .dilation = {2, 1}});
  CHECK(relative_error(y.reshape(Shape{3, 8, -1}), matmul(w.reshape(Shape{8, 60}), columns)) < 1e-13);
}

TEST_CASE("conv2d of wide windows is a product with unfolded windows, with one group or several") {
  struct Case {
    Shape x, w;
    Conv2dOptions options;
  };
  std::vector<Case> cases = {
      {{2, 30, 41, 53}, {11, 30, 3, 3}, {.padding = 1}},
      {{1, 3, 70, 90}, {6, 3, 7, 7}, {.stride = 2, .padding = 3}},
      {{1, 50, 20, 60}, {5, 50, 3, 4}, {.stride = {1, 2}, .padding = {0, 2}, .dilation = {2, 1}}},
      {{1, 90, 9, 30}, {8, 45, 3, 3}, {.padding = 1, .groups = 2}}};
  for (std::int64_t width = 24; width <= 75; ++width) // any number of vectors, and what is left of the last
    cases.push_back({{1, 8, 3 + width % 4, width}, {5 + width % 3, 8, 3, 3}, {.padding = 1}});
  for (const Case& c : cases) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const std::int64_t groups = c.options.groups, outputs = c.w[0] / groups, images = c.x[0];
      const Tensor x = random_normal(c.x, {5, 9}, 0.0, 1.0, DType::f64).to(dtype);
      const Tensor w = random_normal(c.w, {5, 10}, 0.0, 1.0, DType::f64).to(dtype);
      const Tensor b = random_normal({c.w[0]}, {5, 11}, 0.0, 1.0, DType::f64).to(dtype);
      const Tensor y = conv2d(x, w, b, c.options);
      const Size2 kernel{c.w[2], c.w[3]};
      const Tensor windows = unfold(x.to(DType::f64), kernel, c.options.stride, c.options.padding, c.options.dilation);
      const Tensor columns = windows.reshape({images, groups, c.w[1] * c.w[2] * c.w[3], windows.size(2)});
      const Tensor product = matmul(w.to(DType::f64).reshape({groups, outputs, -1}), columns);
      const Tensor wanted = product.reshape({images, c.w[0], -1}) + b.to(DType::f64).reshape({c.w[0], 1});
      CHECK(relative_error(y.to(DType::f64).reshape(wanted.shape()), wanted) < (dtype == DType::f32 ? 1e-6 : 1e-14));
    }
  }
}

TEST_CASE("conv2d over patches is patchify and a product") {
  const Tensor x = normal({2, 3, 32, 48}, 3);
  const Tensor w = normal({20, 3, 8, 8}, 4);
  const Tensor tokens = matmul(patchify(x, 8), w.reshape(Shape{20, -1}), false, true);
  CHECK(relative_error(conv2d(x, w, {}, {.stride = 8}).reshape(Shape{2, 20, -1}), tokens.transpose(1, 2)) < 1e-13);
}

TEST_CASE("conv2d has the same bits for any number of threads, where bands and blocks are many") {
  const Tensor x = normal({1, 40, 96, 96}, 5, DType::f32);
  const Tensor w = normal({24, 40, 3, 3}, 6, DType::f32);
  parallel::set_threads(1);
  const Tensor one = conv2d(x, w, {}, {.padding = 1});
  parallel::set_threads(3);
  const Tensor three = conv2d(x, w, {}, {.padding = 1});
  parallel::set_threads(0);
  CHECK(same_bits(one, three));
}

TEST_CASE("pooling: NaN wins, the first of equals wins, padding loses") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::from<float>({1, 1, nan, -5, 1, 1, 2, -6}, {1, 1, 2, 4});
  const MaxPool y = max_pool2d(x, 2);
  CHECK(y.values.at({0, 0, 0, 0}) == 1.0);
  CHECK(y.places.at({0, 0, 0, 0}) == 0.0);
  CHECK(std::isnan(y.values.at({0, 0, 0, 1})));
  CHECK(y.places.at({0, 0, 0, 1}) == 2.0);
  const Tensor low = Tensor::full({1, 1, 2, 2}, -1e30);
  CHECK(max_pool2d(low, 3, {.stride = 1, .padding = 1}).values.at({0, 0, 0, 0}) == doctest::Approx(-1e30));
}

TEST_CASE("fft_low_pass is a projection that keeps waves up to the cutoff") {
  const auto wave = [](int f, int g) {
    Tensor x = Tensor::zeros({12, 9}, DType::f64);
    double* to = x.mutable_data<double>();
    for (int i = 0; i < 12; ++i)
      for (int j = 0; j < 9; ++j) *to++ = std::cos(2 * M_PI * (f * i / 12.0 + g * j / 9.0) + 0.3);
    return x;
  };
  CHECK(relative_error(fft_low_pass(wave(3, 2), 3), wave(3, 2)) < 1e-13);
  CHECK(relative_error(fft_low_pass(wave(0, 3), 3), wave(0, 3)) < 1e-13);
  for (const double v : fft_low_pass(wave(4, 1), 3).to_vector<double>()) CHECK(std::abs(v) < 1e-13);
  for (const double v : fft_low_pass(wave(1, 4), 3).to_vector<double>()) CHECK(std::abs(v) < 1e-13);
  const Tensor x = normal({2, 12, 9}, 7);
  CHECK(relative_error(fft_low_pass(fft_low_pass(x, 2), 2), fft_low_pass(x, 2)) < 1e-13);
  CHECK(same_bits(fft_low_pass(x, 6), x));
}

TEST_CASE("no images of any size: extents that are not multiplied") {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const WorkMeter meter;
  fft_low_pass(Tensor::zeros({0, 1, most}), 1); // 1 + most overflowed
  CHECK(meter.total().flops == 0.0);
  CHECK(group_norm(Tensor::zeros({3, 0, 2}), most).shape() == Shape{3, 0, 2}); // 3 most overflowed
}

TEST_CASE("einsum: the order of products does not change the result, the cheap one costs less") {
  const std::vector<Tensor> chain = {normal({30, 2}, 8), normal({2, 40}, 9), normal({40, 3}, 10)};
  const Tensor left = einsum("ab,bc,cd->ad", chain);
  CHECK(relative_error(einsum("ab,bc,cd->ad", chain, "greedy"), left) < 1e-14);
  CHECK(relative_error(left, matmul(matmul(chain[0], chain[1]), chain[2])) < 1e-14);
}
