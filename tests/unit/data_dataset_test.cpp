#include "core/base/error.h"
#include "core/threads/parallel.h"
#include "data/dataset.h"
#include "data/faces.h"
#include "data/loader.h"
#include "data_fixtures.h"
#include "data_samples.h"

#include <array>
#include <cstdlib>
#include <doctest/doctest.h>
#include <limits>
#include <set>
#include <sys/stat.h>

using namespace eg;
using namespace eg::data;
using namespace eg::test;

namespace {

Bytes idx(std::initializer_list<std::uint32_t> dims, const Bytes& values) {
  Bytes out{0, 0, 8, static_cast<std::uint8_t>(dims.size())};
  for (const std::uint32_t d : dims)
    for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<std::uint8_t>(d >> shift));
  out.insert(out.end(), values.begin(), values.end());
  return out;
}

Bytes records(std::initializer_list<int> labels) {
  Bytes out;
  for (const int label : labels) {
    out.push_back(static_cast<std::uint8_t>(label));
    for (int i = 0; i < 3072; ++i) out.push_back(static_cast<std::uint8_t>(i * (label + 1) % 256));
  }
  return out;
}

void write_picture(const TemporaryFolder& folder, const std::string& name, int side, std::uint8_t value) {
  const Image image{side, side, 1, std::vector<std::uint8_t>(static_cast<std::size_t>(side * side), value)};
  write_file(folder.path(name, true), encode_png(image));
}

bool same(const ImageDataset& a, const ImageDataset& b) {
  if (a.size() != b.size() || a.image_bytes() != b.image_bytes()) return false;
  for (std::int64_t i = 0; i < a.size(); ++i)
    if (a.label(i) != b.label(i) || !std::equal(a.pixels(i).begin(), a.pixels(i).end(), b.pixels(i).begin()))
      return false;
  return true;
}

std::vector<int> label_counts(const ImageDataset& set) {
  std::vector<int> counts(static_cast<std::size_t>(set.classes()));
  for (std::int64_t i = 0; i < set.size(); ++i) ++counts[static_cast<std::size_t>(set.label(i))];
  return counts;
}

} // namespace

TEST_CASE("dataset: images, labels, selections and their limits") {
  Bytes pixels;
  for (int i = 0; i < 3 * 2 * 2 * 3; ++i) pixels.push_back(static_cast<std::uint8_t>(i));
  const ImageDataset set("tiny", 3, 2, 2, {"a", "b"}, pixels, {0, 1, 0});
  CHECK(set.size() == 3);
  CHECK(set.label(1) == 1);
  CHECK(set.pixels(1)[0] == 12);
  CHECK(set.image(1).pixels == std::vector<std::uint8_t>{12, 16, 20, 13, 17, 21, 14, 18, 22, 15, 19, 23});
  const std::vector<std::int64_t> two{2, 1};
  CHECK(set.select(two).pixels(0)[0] == 24);
  CHECK(set.head(2).size() == 2);
  CHECK(set.head(9).size() == 3);
  CHECK(message_of<IndexError>([&] { set.label(3); }) == "dataset tiny: image 3 of 3");
  CHECK(message_of<ValueError>([&] {
          ImageDataset("t", 3, 2, 2, {"a"}, pixels, {0, 0});
        }) == "dataset t: 36 bytes of pixels for 2 labels; 24 are needed");
  CHECK(message_of<ValueError>([&] {
          ImageDataset("t", 3, 2, 2, {"a"}, pixels, {0, 1, 0});
        }) == "dataset t: label 1 of image 1 is not one of 1 classes");
}

TEST_CASE("idx: good and damaged files") {
  const TemporaryFolder folder;
  const auto file = [&](const char* name, const Bytes& bytes) {
    write_file(folder.path(name), bytes);
    return folder.path(name);
  };
  const std::string images = file("images", idx({2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  const std::string labels = file("labels", idx({2}, {7, 0}));
  const ImageDataset set = read_idx(images, labels, "made");
  CHECK(set.size() == 2);
  CHECK(set.height() == 2);
  CHECK(set.width() == 3);
  CHECK(set.label(0) == 7);
  CHECK(set.pixels(1)[5] == 12);
  const auto words = [](const Bytes& bytes) { return message_of<FileError>([&] { parse_idx(bytes, "f"); }); };
  CHECK(words({}) == "f: not an IDX file");
  CHECK(words({0, 0, 0x0D, 1, 0, 0, 0, 0}) == "f: IDX element type 0x0D; only unsigned bytes (0x08) are read");
  CHECK(words({0, 0, 8, 0}) == "f: an IDX file without axes");
  CHECK(words({0, 0, 8, 3, 0, 0}) == "f: truncated IDX header");
  CHECK(words(idx({4}, {1, 2, 3})) == "f: truncated: the IDX header says [4], 4 bytes; 3 follow");
  CHECK(words(idx({2}, {1, 2, 3})) == "f: too long: the IDX header says [2], 2 bytes; 3 follow");
  CHECK(words(idx({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {})) == "f: the size in the IDX header overflows 64 bits");
  const std::string three = file("three", idx({3}, {0, 0, 0}));
  CHECK(message_of<FileError>([&] { read_idx(images, three, "made"); }) ==
        three + ": 3 labels for the 2 images of " + images);
  const std::string high = file("high", idx({2}, {0, 10}));
  CHECK(message_of<FileError>([&] { read_idx(images, high, "made"); }) == high + ": label 10 of image 1 is above 9");
  CHECK(message_of<FileError>([&] { read_idx(labels, labels, "made"); }) ==
        labels + ": has 1 axes; images have 3 (count, height, width)");
}

TEST_CASE("cifar10: records from the official layout, and damaged ones") {
  const TemporaryFolder folder;
  const auto place = [&](const std::string& name) { return folder.path("cifar10/cifar-10-batches-bin/" + name, true); };
  for (int i = 1; i <= 5; ++i) write_file(place("data_batch_" + std::to_string(i) + ".bin"), records({i, 9}));
  write_file(place("test_batch.bin"), records({3}));
  for (const char* name : {"cifar10", "cifar10-records"}) {
    const ImageDataset train = open_dataset(name, folder.path(), Split::train);
    CHECK(train.size() == 10);
    CHECK(train.label(4) == 3);
    CHECK(train.pixels(4)[1] == 4);
    CHECK(train.class_names()[3] == "cat");
    CHECK(open_dataset(name, folder.path(), Split::test).size() == 1);
    CHECK(open_dataset(name, folder.path(), Split::train, {.limit = 3}).size() == 3);
  }
  std::filesystem::rename(place("test_batch.bin"), place("aside"));
  for (const Split split : {Split::train, Split::test})
    CHECK(message_of<FileError>([&] { open_dataset("cifar10", folder.path(), split); }) ==
          folder.path("cifar10/cifar-10-batches-bin") + ": test_batch.bin is missing");
  std::filesystem::rename(place("aside"), place("test_batch.bin"));
  std::filesystem::remove(place("data_batch_4.bin"));
  CHECK(message_of<FileError>([&] { open_dataset("cifar10", folder.path(), Split::train); }) ==
        folder.path("cifar10/cifar-10-batches-bin") + ": data_batch_4.bin is missing");
  const auto words = [](const Bytes& bytes) {
    return message_of<FileError>([&] { parse_cifar10_records(bytes, "f", "n"); });
  };
  Bytes cut = records({1, 2});
  cut.pop_back();
  CHECK(words(cut) == "f: 6145 bytes are not whole CIFAR-10 records of 3073 bytes: truncated, or another kind of file");
  CHECK(words({}).starts_with("f: 0 bytes are not whole"));
  CHECK(words(records({1, 10})) == "f: label 10 of record 1 is above 9");
}

TEST_CASE("cifar100: records with a coarse and a fine label, and damaged ones") {
  const TemporaryFolder folder;
  const auto place = [&](const std::string& name) { return folder.path("cifar100/cifar-100-binary/" + name, true); };
  const auto pairs = [](std::initializer_list<std::pair<int, int>> labels) {
    Bytes bytes;
    for (const auto& [coarse, fine] : labels) {
      bytes.push_back(static_cast<std::uint8_t>(coarse));
      bytes.push_back(static_cast<std::uint8_t>(fine));
      for (int p = 0; p < 3072; ++p) bytes.push_back(static_cast<std::uint8_t>(fine + p));
    }
    return bytes;
  };
  const auto names = [&](const std::string& file, const std::string& stem, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += stem + std::to_string(i) + "\n";
    write_file(place(file), std::string_view(text));
  };
  const auto words = [&](const char* name, Split split = Split::train) {
    return message_of<FileError>([&] { open_dataset(name, folder.path(), split); });
  };
  CHECK(words("cifar100")
            .find(": dataset cifar100 is not here: looked for cifar-100-binary/ with train.bin and "
                  "fine_label_names.txt") != std::string::npos);
  write_file(place("train.bin"), pairs({{4, 99}, {19, 7}}));
  write_file(place("test.bin"), pairs({{0, 1}}));
  CHECK(words("cifar100") == folder.path("cifar100/cifar-100-binary") + ": fine_label_names.txt is missing");
  names("fine_label_names.txt", "fine", 100);
  names("coarse_label_names.txt", "coarse", 20);
  const ImageDataset fine = open_dataset("cifar100", folder.path(), Split::train);
  CHECK(fine.size() == 2);
  CHECK(fine.classes() == 100);
  CHECK(fine.label(0) == 99);
  CHECK(fine.class_names()[7] == "fine7");
  CHECK(fine.pixels(1)[2] == 9);
  CHECK(Normalization::standard(fine).mean[0] == 0.5071);
  const ImageDataset coarse = open_dataset("cifar100-coarse", folder.path(), Split::train);
  CHECK(coarse.label(1) == 19);
  CHECK(coarse.class_names()[19] == "coarse19");
  CHECK(open_dataset("cifar100", folder.path(), Split::test).label(0) == 1);
  write_file(place("test.bin"), pairs({{0, 100}}));
  CHECK(words("cifar100", Split::test) == place("test.bin") + ": label 100 of record 0 is above 99");
  write_file(place("test.bin"), std::string_view("short"));
  CHECK(words("cifar100", Split::test) ==
        place("test.bin") +
            ": 5 bytes are not whole CIFAR-100 records of 3074 bytes: truncated, or another kind of file");
  names("fine_label_names.txt", "fine", 99);
  CHECK(words("cifar100") == place("fine_label_names.txt") + ": 99 lines, not the names of 100 classes");
}

TEST_CASE("cifar10: an archive of images in the order of a list") {
  const TemporaryFolder folder;
  const auto picture = [](int side, std::uint8_t value) {
    return encode_png({side, side, 3, std::vector<std::uint8_t>(static_cast<std::size_t>(3 * side * side), value)});
  };
  const std::string archive = folder.path("a.tar.gz");
  const std::string order = folder.path("order.tsv");
  write_file(archive,
             gzip(tar({{"a.png", picture(32, 1)}, {"./b.png", picture(32, 2)}, {"small.png", picture(31, 3)}})));
  const auto with_order = [&](const char* list) {
    write_file(order, std::string_view(list));
    return read_cifar10_jpeg(archive, order, "copies");
  };
  const ImageDataset set = with_order("7\tb.png\n0\ta.png\n");
  CHECK(set.size() == 2);
  CHECK(set.label(0) == 7);
  CHECK(set.pixels(0)[0] == 2);
  CHECK(set.pixels(1)[3071] == 1);
  const auto words = [&](const char* list) { return message_of<FileError>([&] { with_order(list); }); };
  CHECK(words("1\tc.png\n") == archive + ": member 'c.png': not in the archive");
  CHECK(words("1\tsmall.png\n") == archive + ": member 'small.png': 31x31 pixels; CIFAR-10 images have 32x32");
  CHECK(words("0\ta.png\nx\tb.png\n") == order + ": line 2 is not a label 0 to 9, a tab and a path");
  CHECK(words("0\ta.png\n1\ta.png\n") == order + ": 'a.png' is listed twice");
  CHECK(words("") == order + ": an empty list");
}

TEST_CASE("image folders: classes by name, own or made splits, sizes") {
  const TemporaryFolder folder;
  for (int i = 0; i < 5; ++i) {
    write_picture(folder, "pets/dog/" + std::to_string(i) + ".png", 8, static_cast<std::uint8_t>(100 + i));
    write_picture(folder, "pets/cat/" + std::to_string(i) + ".PNG", 8, static_cast<std::uint8_t>(i));
  }
  write_file(folder.path("pets/cat/notes.txt"), std::string_view("not an image"));
  const std::string pets = folder.path("pets");
  const ImageDataset train = open_dataset(pets, "", Split::train);
  const ImageDataset test = open_dataset(pets, "", Split::test);
  CHECK(train.class_names() == std::vector<std::string>{"cat", "dog"});
  CHECK(train.size() == 8);
  CHECK(test.size() == 2);
  CHECK(test.pixels(0)[0] == 4);
  CHECK(test.pixels(1)[0] == 104);
  CHECK(train.channels() == 3);
  CHECK(open_dataset(pets, "", Split::train, {.size = 4}).height() == 4);
  CHECK(label_counts(read_image_folder(pets, "pets", 0, 6)) == std::vector<int>{3, 3});
  CHECK(label_counts(read_image_folder(pets, "pets", 0, 3)) == std::vector<int>{2, 1});
  CHECK(label_counts(open_dataset(pets, "", Split::train, {.limit = 5})) == std::vector<int>{3, 2});
  write_picture(folder, "pets/dog/9.png", 9, 1);
  CHECK(message_of<FileError>([&] { read_image_folder(pets, "pets"); }) ==
        folder.path("pets/dog/9.png") + ": 9x9 pixels, the first image has 8x8; give a size to resize them to");
  CHECK(read_image_folder(pets, "pets", 8).size() == 11);
  write_file(folder.path("pets/dog/9.png"), std::string_view("GIF89a"));
  CHECK(message_of<FileError>([&] { read_image_folder(pets, "pets"); }) ==
        folder.path("pets/dog/9.png") + ": neither a PNG nor a JPEG image; --bad-images skip leaves such images out");
  write_picture(folder, "own/train/a/1.png", 8, 1);
  CHECK(open_dataset(folder.path("own"), "", Split::train).size() == 1);
  CHECK(message_of<FileError>([&] { open_dataset(folder.path("own"), "", Split::test); }) ==
        folder.path("own") + ": has a folder train but none called test or val");
  std::filesystem::create_directories(folder.path("empty/a"));
  CHECK(message_of<FileError>([&] { read_image_folder(folder.path("empty"), "e"); }) ==
        folder.path("empty") + ": no PNG or JPEG images in class folders (expected FOLDER/CLASS/*.png or *.jpg)");
}

TEST_CASE("image folders: damaged images are skipped where that is asked for, classes without images refused") {
  const TemporaryFolder folder;
  for (int i = 0; i < 5; ++i) {
    write_picture(folder, "pets/cat/" + std::to_string(i) + ".png", 8, static_cast<std::uint8_t>(i));
    write_picture(folder, "pets/dog/" + std::to_string(i) + ".png", 8, static_cast<std::uint8_t>(100 + i));
  }
  write_file(folder.path("pets/cat/0.png"), std::string_view("GIF89a"));
  std::vector<std::string> skipped;
  const DatasetOptions skip{.bad_images = BadImages::skip, .skipped = &skipped};
  const ImageDataset left = read_image_folder(folder.path("pets"), "pets", skip);
  CHECK(label_counts(left) == std::vector<int>{4, 5});
  CHECK(left.pixels(0)[0] == 1);
  CHECK(skipped == std::vector<std::string>{folder.path("pets/cat/0.png") + ": neither a PNG nor a JPEG image"});
  // Which images are for testing does not change.
  CHECK(open_dataset(folder.path("pets"), "", Split::test, skip).pixels(0)[0] == 4);
  CHECK_THROWS_AS(read_image_folder(folder.path("pets"), "pets"), FileError);
  for (int i = 1; i < 5; ++i)
    write_file(folder.path("pets/cat/" + std::to_string(i) + ".png"), std::string_view("GIF89a"));
  CHECK(message_of<FileError>([&] { read_image_folder(folder.path("pets"), "pets", skip); }) ==
        folder.path("pets/cat") +
            ": no image of the class decodes; mend its images, or take the folder away to go without the "
            "class");
  std::filesystem::create_directories(folder.path("pets/bird"));
  CHECK(message_of<FileError>([&] { read_image_folder(folder.path("pets"), "pets", skip); }) ==
        folder.path("pets/bird") + ": the class has no PNG or JPEG images");
}

TEST_CASE("image folders: parts under other names are no classes") {
  const TemporaryFolder folder;
  for (const char* set : {"a/Train|a/Test", "b/seg_train|b/seg_val", "c/training|c/validation"}) {
    const std::string names = set;
    const std::size_t bar = names.find('|');
    for (const std::string& part : {names.substr(0, bar), names.substr(bar + 1)})
      for (int i = 0; i < 5; ++i) write_picture(folder, part + "/cat/" + std::to_string(i) + ".png", 8, 1);
    const std::string root = folder.path(names.substr(0, 1));
    CHECK(message_of<FileError>([&] {
            open_dataset(root, "", Split::train, {});
          }).ends_with("seem to be parts of a set, not classes: call them train and test (or val)"));
  }
  for (const char* part : {"d/train/cat/", "d/freight-train/"}) // a class
    for (int i = 0; i < 5; ++i) write_picture(folder, std::string(part) + std::to_string(i) + ".png", 8, 1);
  std::filesystem::rename(folder.path("d/train"), folder.path("d/horse"));
  CHECK(open_dataset(folder.path("d"), "", Split::train, {}).classes() == 2);
}

TEST_CASE("image folders: folders inside classes are read, other kinds and images beside the classes are no silence") {
  const TemporaryFolder folder;
  for (const char* name : {"cat/a.png", "cat/2019/may/b.png", "cat/2020/c.png", "cat/.trash/d.png", "dog/a.png"})
    write_picture(folder, std::string("pets/") + name, 8,
                  static_cast<std::uint8_t>(name[std::string(name).size() - 5]));
  const std::string pets = folder.path("pets");
  const ImageDataset set = read_image_folder(pets, "pets");
  CHECK(label_counts(set) == std::vector<int>{3, 1});
  CHECK(set.pixels(0)[0] == 'b');
  CHECK(set.pixels(1)[0] == 'c');
  CHECK(set.pixels(2)[0] == 'a');
  write_file(folder.path("pets/dog/z.webp"), std::string_view("RIFF"));
  CHECK(message_of<FileError>([&] { read_image_folder(pets, "pets"); }) ==
        folder.path("pets/dog/z.webp") + ": neither a PNG nor a JPEG image; --bad-images skip leaves such images out");
  write_picture(folder, "pets/loose.png", 8, 1);
  CHECK(message_of<FileError>([&] { read_image_folder(pets, "pets"); }) ==
        folder.path("pets/loose.png") +
            ": lies beside the class folders, in none of them; --bad-images skip leaves such images out");
  std::vector<std::string> skipped;
  const DatasetOptions skip{.bad_images = BadImages::skip, .skipped = &skipped};
  CHECK(label_counts(read_image_folder(pets, "pets", skip)) == std::vector<int>{3, 1});
  CHECK(skipped.size() == 2);
  std::string deep = "pets/cat";
  for (int i = 0; i < 18; ++i) deep += "/d";
  std::filesystem::create_directories(folder.path(deep));
  CHECK(message_of<FileError>([&] {
          read_image_folder(pets, "pets", skip);
        }).ends_with(": more than 16 folders inside each other"));
}

TEST_CASE("image folders: links that lead nowhere and pipes are refused, or named and left out") {
  const TemporaryFolder folder;
  for (int i = 0; i < 5; ++i) {
    write_picture(folder, "pets/cat/" + std::to_string(i) + ".png", 8, static_cast<std::uint8_t>(i));
    write_picture(folder, "pets/dog/" + std::to_string(i) + ".png", 8, static_cast<std::uint8_t>(100 + i));
  }
  const std::string pets = folder.path("pets");
  std::filesystem::create_symlink("../dog/0.png", folder.path("pets/cat/linked.png")); // a sound one
  CHECK(read_image_folder(pets, "pets").size() == 11);
  std::filesystem::remove(folder.path("pets/cat/1.png"));
  std::filesystem::create_symlink("../.git/annex/1.png", folder.path("pets/cat/1.png"));
  const std::string dangling = folder.path("pets/cat/1.png") + ": a link to ../.git/annex/1.png, which is not there";
  const std::string way_out = "; --bad-images skip leaves such images out";
  const auto refused = [&] { return message_of<FileError>([&] { read_image_folder(pets, "pets"); }); };
  CHECK(refused() == dangling + way_out);
  std::vector<std::string> skipped;
  const DatasetOptions skip{.bad_images = BadImages::skip, .skipped = &skipped};
  CHECK(label_counts(read_image_folder(pets, "pets", skip)) == std::vector<int>{5, 5});
  CHECK(skipped == std::vector<std::string>{dangling});
  CHECK(open_dataset(pets, "", Split::test, skip).pixels(0)[0] == 4); // as without the link: those for testing stay

  std::filesystem::remove(folder.path("pets/cat/1.png"));
  REQUIRE(::mkfifo(folder.path("pets/dog/9.jpg").c_str(), 0600) == 0);
  const std::string pipe = folder.path("pets/dog/9.jpg") + ": a pipe, not a file";
  CHECK(refused() == pipe + way_out);
  std::filesystem::create_symlink("/nowhere/bird", folder.path("pets/bird")); // a class, perhaps
  const std::string bird = folder.path("pets/bird") + ": a link to /nowhere/bird, which is not there";
  CHECK(refused() == bird + way_out);
  skipped.clear();
  CHECK(label_counts(read_image_folder(pets, "pets", skip)) == std::vector<int>{5, 5});
  CHECK(skipped == std::vector<std::string>{bird, pipe});
  std::filesystem::create_symlink("/nowhere/notes.txt", folder.path("pets/cat/notes.txt")); // no image by its name
  skipped.clear();
  read_image_folder(pets, "pets", skip);
  CHECK(skipped.size() == 2);
}

TEST_CASE("image folders: of several damaged images the first is named, whatever the threads") {
  const TemporaryFolder folder;
  for (int i = 10; i < 74; ++i) write_picture(folder, "pets/cat/" + std::to_string(i) + ".png", 8, 1);
  for (const char* name : {"20.png", "45.png", "46.png", "70.png"})
    write_file(folder.path(std::string("pets/cat/") + name), std::string_view("GIF89a"));
  for (const int threads : {1, 3}) {
    parallel::set_threads(threads);
    for (int repeat = 0; repeat < 20; ++repeat)
      CHECK(message_of<FileError>([&] { read_image_folder(folder.path("pets"), "pets"); }) ==
            folder.path("pets/cat/20.png") +
                ": neither a PNG nor a JPEG image; --bad-images skip leaves such images out");
  }
  parallel::set_threads(0);
}

TEST_CASE("shapes: the same picture for one seed and index, whatever the count and threads") {
  const ImageDataset all = generate_shapes(200, Split::train, 5, 16);
  CHECK(all.size() == 200);
  CHECK(all.classes() == 10);
  CHECK(label_counts(all) == std::vector<int>(10, 20));
  CHECK(same(generate_shapes(40, Split::train, 5, 16), all.head(40)));
  CHECK_FALSE(same(generate_shapes(200, Split::test, 5, 16), all));
  CHECK_FALSE(same(generate_shapes(200, Split::train, 6, 16), all));
  const int threads = parallel::threads();
  for (const int count : {1, 2, 3}) {
    parallel::set_threads(count);
    CHECK(same(generate_shapes(200, Split::train, 5, 16), all));
  }
  parallel::set_threads(threads);
  std::set<std::uint32_t> different;
  for (std::int64_t i = 0; i < all.size(); ++i) different.insert(crc32(all.pixels(i)));
  CHECK(different.size() == 200);
  CHECK(open_dataset("shapes", "", Split::test, {.limit = 7}).size() == 7);
  std::uint32_t crc = 0; // the pictures of seed 0 stay as they are
  const ImageDataset twenty = generate_shapes(20, Split::train);
  for (std::int64_t i = 0; i < twenty.size(); ++i) crc = crc32(twenty.pixels(i), crc);
  CHECK(crc == 3331312826U);
  CHECK(message_of<ValueError>([] { generate_shapes(1, Split::train, 0, 4); }) ==
        "shapes: a side of 4 pixels; 8 to 1024 are possible");
}

TEST_CASE("digits: the same picture for one seed and index; classes differ by their strokes") {
  const ImageDataset all = generate_digits(400, Split::train, 5);
  CHECK(all.classes() == 10);
  CHECK(all.channels() == 1);
  CHECK(all.height() == 28);
  CHECK(label_counts(all) == std::vector<int>(10, 40));
  CHECK(same(generate_digits(40, Split::train, 5), all.head(40)));
  CHECK_FALSE(same(generate_digits(400, Split::test, 5), all));
  CHECK_FALSE(same(generate_digits(400, Split::train, 6), all));
  std::set<std::uint32_t> different;
  for (std::int64_t i = 0; i < all.size(); ++i) different.insert(crc32(all.pixels(i)));
  CHECK(different.size() == 400);
  // The nearest other image has the same label far more often than one in ten; with labels moved on, it has not.
  int right = 0, moved = 0;
  for (std::int64_t i = 0; i < all.size(); ++i) {
    std::int64_t nearest = -1;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t j = 0; j < all.size(); ++j) {
      if (i == j) continue;
      std::int64_t sum = 0;
      const ByteView a = all.pixels(i), b = all.pixels(j);
      for (std::size_t k = 0; k < a.size(); ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
      if (sum >= least) continue;
      nearest = j;
      least = sum;
    }
    right += all.label(nearest) == all.label(i);
    moved += all.label(nearest) == (all.label(i) + 3) % 10;
  }
  CHECK(right > 200);
  CHECK(moved < 80);
  CHECK(open_dataset("digits", "", Split::test, {.limit = 7, .size = 16}).height() == 16);
  CHECK(message_of<ValueError>([] { generate_digits(1, Split::train, 0, 4); }) ==
        "digits: a side of 4 pixels; 8 to 1024 are possible");
}

TEST_CASE("faces: attributes are drawn by themselves and seen in the picture; one seed and index, one picture") {
  const ImageDataset all = generate_faces(400, Split::train, 5, 24);
  CHECK(all.classes() == 12);
  CHECK(all.has_attributes());
  std::set<std::uint32_t> different;
  for (std::int64_t i = 0; i < all.size(); ++i) different.insert(crc32(all.pixels(i)));
  CHECK(different.size() == 400);
  for (std::size_t a = 0; a < 12; ++a) {
    int with = 0;
    for (std::int64_t i = 0; i < all.size(); ++i) with += all.attributes(i)[a];
    CHECK(with > 60); // a quarter to half of them
    CHECK(with < 260);
  }
  CHECK(generate_faces(40, Split::train, 5, 24).fingerprint() == all.head(40).fingerprint());
  CHECK(generate_faces(40, Split::test, 5, 24).fingerprint() != all.head(40).fingerprint());
  CHECK(generate_faces(40, Split::train, 6, 24).fingerprint() != all.head(40).fingerprint());
  CHECK(open_dataset("faces", "", Split::test, {.limit = 7, .size = 16}).height() == 16);
  CHECK(message_of<ValueError>([] { generate_faces(1, Split::train, 0, 4); }) ==
        "faces: a side of 4 pixels; 8 to 1024 are possible");
}

TEST_CASE("dataset: what is missing is said with the remedy") {
  const TemporaryFolder folder;
  const auto words = [&](const char* name) {
    return message_of<FileError>([&] { open_dataset(name, folder.path(), Split::train); });
  };
  const std::string remedy = "; give the folder that holds it with --data-dir or EQUIGRAD_DATA";
  CHECK(words("cifar10") == folder.path("cifar10") +
                                ": dataset cifar10 is not here: looked for cifar-10-batches-bin/, or "
                                "cifar10_jpeg_60000.tar.xz with cifar10_jpeg_train_order.tsv.gz" +
                                remedy);
  CHECK(words("cifar10-records") == folder.path("cifar10") +
                                        ": dataset cifar10-records is not here: looked for cifar-10-batches-bin/, or "
                                        "cifar10_lossless_train_8068.bin.xz" +
                                        remedy);
  CHECK(words("mnist") == folder.path("mnist") +
                              ": dataset mnist is not here: looked for train-images-idx3-ubyte and "
                              "train-labels-idx1-ubyte, plain or .gz" +
                              remedy);
  CHECK(words("cifar11") ==
        "cifar11: neither a dataset (cifar10, cifar10-jpeg, cifar10-records, cifar100, "
        "cifar100-coarse, celeba, mnist, fashion-mnist, shapes, digits, faces) nor a folder of images");
}

TEST_CASE("mnist and fashion-mnist: whole and labelled") {
  for (const char* name : {"mnist", "fashion-mnist"}) {
    const auto path = data_or_skip(std::string("mnist and fashion-mnist: whole and labelled: ") + name, name);
    if (path.empty()) continue;
    CAPTURE(name);
    const std::string root = path.parent_path().string();
    const ImageDataset train = open_dataset(name, root, Split::train);
    const ImageDataset test = open_dataset(name, root, Split::test);
    CHECK(train.size() == 60000);
    CHECK(test.size() == 10000);
    CHECK(train.image_bytes() == 28 * 28);
    if (name == std::string("mnist")) {
      CHECK(label_counts(test) == std::vector<int>{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009});
      CHECK(train.label(0) == 5);
    } else {
      CHECK(label_counts(test) == std::vector<int>(10, 1000));
      CHECK(train.class_names()[9] == "ankle boot");
    }
  }
}

TEST_CASE("cifar10: the original records") {
  const auto path = data_or_skip("cifar10: the original records", "cifar10/cifar10_lossless_test_1017.bin.xz");
  if (path.empty()) return;
  const std::string root = path.parent_path().parent_path().string();
  const ImageDataset test = open_dataset("cifar10-records", root, Split::test);
  CHECK(test.size() == 1017);
  CHECK(label_counts(test) == std::vector<int>{105, 93, 100, 104, 92, 87, 114, 102, 110, 110});
  const ImageDataset train = open_dataset("cifar10-records", root, Split::train);
  CHECK(label_counts(train) == std::vector<int>{810, 777, 808, 783, 856, 782, 808, 799, 835, 810});
}

TEST_CASE("cifar10: the JPEG copies in official order are close to the original records") {
  const char* title = "cifar10: the JPEG copies in official order are close to the original records";
  const auto path = data_or_skip(title, "cifar10/cifar10_jpeg_60000.tar.xz");
  if (path.empty()) return;
  const std::string root = path.parent_path().parent_path().string();
  const ImageDataset test = open_dataset("cifar10", root, Split::test);
  CHECK(test.size() == 10000);
  CHECK(label_counts(test) == std::vector<int>(10, 1000));
  const ImageDataset original = open_dataset("cifar10-records", root, Split::test);
  double difference = 0.0;
  for (std::int64_t i = 0; i < original.size(); ++i) {
    REQUIRE(test.label(i) == original.label(i));
    for (std::size_t p = 0; p < 3072; ++p) difference += std::abs(test.pixels(i)[p] - original.pixels(i)[p]);
  }
  difference /= 3072.0 * static_cast<double>(original.size());
  CHECK(difference > 4.0); // 5.78 over all images that are known
  CHECK(difference < 7.0);
}
