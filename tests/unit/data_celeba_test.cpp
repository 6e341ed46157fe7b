// CelebA's layout, made here: lists, images, and a ViT that learns attributes from them.

#include "data/dataset.h"
#include "data/loader.h"
#include "data_fixtures.h"
#include "training/vit_trainer.h"

#include <array>
#include <fmt/format.h>

using namespace eg;
using namespace eg::data;
using namespace eg::test;

namespace {

/// 40 images of 8 x 12 pixels below celeba/; attribute "Red" says whether red is bright, "Blue" whether blue is, "Odd"
/// is the number's. Every fourth is to test, every eighth to validate.
void write_celeba(const TemporaryFolder& folder, const std::string& attributes = "") {
  std::string list = "40\nRed Blue Odd\n", parts;
  for (int i = 0; i < 40; ++i) {
    const bool red = i / 2 % 2 == 1, blue = i / 4 % 2 == 1;
    Image image{12, 8, 3, {}};
    for (int p = 0; p < 96; ++p) {
      image.pixels.push_back(red ? 220 : 30);
      image.pixels.push_back(static_cast<std::uint8_t>(100 + i));
      image.pixels.push_back(blue ? 220 : 30);
    }
    const std::string name = fmt::format("{:06}.jpg", i + 1);
    write_file(folder.path("celeba/img_align_celeba/" + name, true), encode_png(image));
    list += fmt::format("{}  {} {}  {}\n", name, red ? 1 : -1, blue ? 1 : -1, i % 2 == 1 ? 1 : -1);
    parts += fmt::format("{} {}\n", name, i % 8 == 7 ? 1 : i % 4 == 3 ? 2 : 0);
  }
  write_file(folder.path("celeba/list_attr_celeba.txt"), std::string_view(attributes.empty() ? list : attributes));
  write_file(folder.path("celeba/list_eval_partition.txt"), std::string_view(parts));
}

} // namespace

TEST_CASE("celeba: images, attributes and parts") {
  const TemporaryFolder folder;
  write_celeba(folder);
  const ImageDataset train = open_dataset("celeba", folder.path(), Split::train);
  CHECK(train.size() == 30);
  CHECK(train.height() == 12);
  CHECK(train.width() == 8);
  CHECK(train.class_names() == std::vector<std::string>{"Red", "Blue", "Odd"});
  REQUIRE(train.has_attributes());
  const auto shown = [](const ImageDataset& set, std::int64_t i) {
    const ByteView bytes = set.attributes(i);
    return std::vector<int>(bytes.begin(), bytes.end());
  };
  CHECK(shown(train, 5) == std::vector<int>{1, 1, 0}); // image 7 of 40, number 6
  CHECK(train.pixels(5)[96] == 106);
  const ImageDataset test = open_dataset("celeba", folder.path(), Split::test, {.size = 6});
  CHECK(test.size() == 5);
  CHECK(test.width() == 6);
  CHECK(shown(test, 0) == std::vector<int>{1, 0, 1});
  CHECK(open_dataset("celeba", folder.path(), Split::train, {.limit = 7}).size() == 7);
  CHECK(shown(train.head(6), 5) == shown(train, 5));
  const Batch batch = Loader(train, {.batch_size = 4, .shuffle = false, .workers = 0}).batch(0, 1);
  CHECK(batch.attributes.shape() == Shape{4, 3});
  CHECK(batch.attributes.at({1, 0}) == 1.0);
  CHECK(batch.attributes.at({1, 2}) == 0.0);
}

TEST_CASE("celeba: the layout as it is distributed, and lists that are wrong") {
  const TemporaryFolder folder;
  write_celeba(folder);
  std::filesystem::create_directories(folder.path("celeba/Anno"));
  const std::string moved = folder.path("celeba/Anno/list_attr_celeba.txt");
  std::filesystem::rename(folder.path("celeba/list_attr_celeba.txt"), moved);
  CHECK(open_dataset("celeba", folder.path(), Split::test).size() == 5);
  const auto words = [&](const std::string& list) {
    write_file(moved, std::string_view(list));
    return message_of<FileError>([&] { open_dataset("celeba", folder.path(), Split::test); });
  };
  CHECK(words("many\nA B\n") == moved + ": line 1 is not the number of images");
  CHECK(words("1\nA B\n000001.jpg 1\n") == moved + ": line 3 has 1 values for 2 attributes");
  CHECK(words("1\nA B\n000001.jpg 1 0\n") == moved + ": line 3 has '0', neither 1 nor -1");
  CHECK(words("2\nA\n000001.jpg 1\n000001.jpg 1\n") == moved + ": line 4 has image '000001.jpg' again");
  CHECK(words("2\nA\n000001.jpg 1\n") == moved + ": 1 images are listed, 2 are announced");
  CHECK(words("1\nA\n000001.jpg 1\n") == moved + ": no line for '000004.jpg'");
  write_celeba(folder);
  std::filesystem::remove(folder.path("celeba/img_align_celeba/000004.jpg"));
  CHECK(message_of<FileError>([&] {
          open_dataset("celeba", folder.path(), Split::test);
        }).starts_with(folder.path("celeba/img_align_celeba/000004.jpg")));
  write_file(folder.path("celeba/list_eval_partition.txt"), std::string_view("000001.jpg 3\n"));
  CHECK(message_of<FileError>([&] { open_dataset("celeba", folder.path(), Split::test); }) ==
        folder.path("celeba/list_eval_partition.txt") + ": line 1 is not an image and a part from 0 to 2");
  std::filesystem::remove_all(folder.path("celeba/img_align_celeba"));
  CHECK(message_of<FileError>([&] {
          open_dataset("celeba", folder.path(), Split::test);
        }).find("is not here: looked for list_attr_celeba.txt") != std::string::npos);
}

TEST_CASE("celeba: a ViT learns attributes; accuracy is the share of them that is right") {
  const TemporaryFolder folder;
  write_celeba(folder);
  training::VitOptions o;
  o.data = "celeba";
  o.data_dir = folder.path();
  o.size = 8;
  o.model.patch = 4;
  o.model.layers = 1;
  o.model.encoder = {.dim = 16, .heads = 2, .mlp = 16};
  o.batch = 10;
  o.steps = 60;
  o.lr = 1e-2;
  o.dtype = DType::f64;
  o.twin = true;
  o.permute = permute::PermuteMode::both;
  training::VitTrainer trainer(o);
  const training::VariantRecord before = trainer.test().variants[0];
  const training::Result result = trainer.run();
  CHECK(before.loss > 0.5);
  CHECK(result.train.variants[0].loss < 0.5 * before.loss);
  // "Red" and "Blue" are to be seen; every test image is odd, and of the training images a third: 2/3 is the least.
  CHECK(result.test.variants[0].accuracy >= 2.0 / 3.0 - 1e-9);
  CHECK(result.test.variants[0].accuracy <= 1.0);
  CHECK(result.test.variants[1].drift < 1e-9);
  o.mixup = 0.3;
  o.label_smoothing = 0.1;
  o.steps = 3;
  CHECK(training::VitTrainer(o).run().steps == 3);
}
