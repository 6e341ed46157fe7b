// What fails: tokens in another order through a masked decoder.

#include "apps/attacks/failed_rows.h"
#include "stip/stip_models.h"
#include "support/message.h"

#include <doctest/doctest.h>

using namespace eg;
using namespace eg::attacks;
using namespace eg::permute;
using namespace eg::test;

TEST_CASE("stip: a decoder's tokens cannot be reordered, but for a mask that gives the order away") {
  const TemporaryFolder folder;
  for (const char* family : {"drawn", "gpt2", "llama"}) {
    CAPTURE(family);
    BlockWeights model = random_text_model({4, 0});
    if (std::string(family) != "drawn") {
      write_small_model(folder.path(family), family);
      model = open_block_weights(folder.path(family), {});
    }
    const Tensor z = model.text->embed(Tensor::from<std::int64_t>({3, 1, 4, 1, 5, 9, 2, 6}, {1, 8}));
    const FailedRows f = demonstrate_failed_rows(model, z, {7, 0});
    CHECK(f.tokens == 8);
    CHECK(f.with_plain_mask > 1e-2);
    CHECK(f.with_permuted_mask < 1e-12);
    CHECK(f.without_mask < 1e-12);
    CHECK(f.recovered == 1.0);
  }
}

TEST_CASE("stip: an encoder has nothing to demonstrate") {
  const BlockWeights pictures = random_image_model({4, 0});
  CHECK(message_of([&] {
          demonstrate_failed_rows(pictures, Tensor::ones({1, 4, 64}, DType::f64), {1, 0});
        }).find("no decoder") != std::string::npos);
  const BlockWeights texts = random_text_model({4, 0});
  CHECK(message_of([&] {
          demonstrate_failed_rows(texts, Tensor::ones({1, 1, 64}, DType::f64), {1, 0});
        }).find("no order") != std::string::npos);
}
