// Datasets by name: which files they are in, and the errors when those are missing.

#include "core/base/error.h"
#include "core/base/out_of_memory.h"
#include "data/faces.h"
#include "data/folder.h"

#include <algorithm>
#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <fmt/format.h>

namespace eg::data {

std::string default_data_dir() {
  const char* folder = std::getenv("EQUIGRAD_DATA");
  return folder != nullptr ? folder : "";
}

namespace {

constexpr const char* remedy = "give the folder that holds it with --data-dir or EQUIGRAD_DATA";

[[noreturn]] void fail_missing(const std::string& dataset, const std::string& folder, const std::string& data_dir,
                               const std::string& wanted) {
  if (data_dir.empty())
    throw FileError(
        fmt::format("{}: dataset {} needs files, and no data folder is given: {}", folder, dataset, remedy));
  throw FileError(fmt::format("{}: dataset {} is not here: looked for {}; {}", folder, dataset, wanted, remedy));
}

/// The file itself or its packed form; "" when both are missing.
std::string plain_or_packed(const std::string& path) {
  for (const char* ending : {"", ".gz", ".xz"})
    if (file_exists(path + ending)) return path + ending;
  return {};
}

/// The official binary files of a split, or nothing when none of any split is there. Both splits come from them or
/// neither does: pixels of records and of JPEG copies differ, so some files without the others are refused.
std::vector<std::string> official_batches(const std::string& folder, Split split) {
  const std::vector<std::string> names = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                          "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};
  for (const std::string& place : {join_path(folder, "cifar-10-batches-bin"), folder}) {
    std::vector<std::string> paths;
    for (const std::string& name : names) paths.push_back(plain_or_packed(join_path(place, name)));
    const auto missing = std::find(paths.begin(), paths.end(), "");
    if (std::count(paths.begin(), paths.end(), "") == static_cast<std::ptrdiff_t>(paths.size())) continue;
    if (missing != paths.end())
      throw FileError(
          fmt::format("{}: {} is missing", place, names[static_cast<std::size_t>(missing - paths.begin())]));
    if (split == Split::test) return {paths.back()};
    paths.pop_back();
    return paths;
  }
  return {};
}

ImageDataset open_cifar10_jpeg(const std::string& folder, const std::string& data_dir, Split split, std::int64_t limit,
                               const std::string& dataset, StopFlag stop) {
  const std::string archive = join_path(folder, "cifar10_jpeg_60000.tar.xz");
  const std::string order = join_path(folder, fmt::format("cifar10_jpeg_{}_order.tsv.gz", name_of(split)));
  if (!file_exists(archive) || !file_exists(order))
    fail_missing(dataset, folder, data_dir,
                 fmt::format("{}cifar10_jpeg_60000.tar.xz with cifar10_jpeg_{}_order.tsv.gz",
                             dataset == "cifar10" ? "cifar-10-batches-bin/, or " : "", name_of(split)));
  return read_cifar10_jpeg(archive, order, "cifar10-jpeg", limit, stop);
}

ImageDataset open_cifar10_records(const std::string& folder, const std::string& data_dir, Split split, StopFlag stop) {
  if (const auto batches = official_batches(folder, split); !batches.empty())
    return read_cifar10_records(batches, "cifar10", stop);
  const std::string part = split == Split::train ? "cifar10_lossless_train_8068.bin" : "cifar10_lossless_test_1017.bin";
  const std::string path = plain_or_packed(join_path(folder, part));
  if (path.empty()) fail_missing("cifar10-records", folder, data_dir, "cifar-10-batches-bin/, or " + part + ".xz");
  return read_cifar10_records({path}, "cifar10-records", stop);
}

ImageDataset open_cifar10(const std::string& folder, const std::string& data_dir, Split split, std::int64_t limit,
                          StopFlag stop) {
  if (const auto batches = official_batches(folder, split); !batches.empty())
    return read_cifar10_records(batches, "cifar10", stop);
  return open_cifar10_jpeg(folder, data_dir, split, limit, "cifar10", stop);
}

ImageDataset open_cifar100(const std::string& name, const std::string& folder, const std::string& data_dir,
                           Split split) {
  const Cifar100Labels which = name == "cifar100" ? Cifar100Labels::fine : Cifar100Labels::coarse;
  const std::string records = fmt::format("{}.bin", name_of(split));
  const std::string names = which == Cifar100Labels::fine ? "fine_label_names.txt" : "coarse_label_names.txt";
  for (const std::string& place : {join_path(folder, "cifar-100-binary"), folder})
    if (const std::string path = plain_or_packed(join_path(place, records)); !path.empty()) {
      if (!file_exists(join_path(place, names))) throw FileError(fmt::format("{}: {} is missing", place, names));
      return read_cifar100_records(path, join_path(place, names), which, name);
    }
  fail_missing(name, folder, data_dir, fmt::format("cifar-100-binary/ with {} and {}", records, names));
}

/// Where of two places something is; "" when it is at neither.
std::string either(bool (*exists)(const std::string&), const std::string& one, const std::string& other) {
  return exists(one) ? one : exists(other) ? other : std::string();
}

ImageDataset open_celeba(const std::string& folder, const std::string& data_dir, Split split,
                         const DatasetOptions& options) {
  const auto at = [&](const char* name) { return join_path(folder, name); };
  const CelebaFiles files{either(file_exists, at("list_attr_celeba.txt"), at("Anno/list_attr_celeba.txt")),
                          either(file_exists, at("list_eval_partition.txt"), at("Eval/list_eval_partition.txt")),
                          either(folder_exists, at("img_align_celeba"), at("Img/img_align_celeba"))};
  if (files.attributes.empty() || files.parts.empty() || files.images.empty())
    fail_missing("celeba", folder, data_dir, "list_attr_celeba.txt, list_eval_partition.txt and img_align_celeba/");
  return read_celeba(files, split == Split::train ? 0 : 2, "celeba", options.size, options.limit, options.stop);
}

ImageDataset open_idx(const std::string& dataset, const std::string& folder, const std::string& data_dir, Split split,
                      std::vector<std::string> class_names) {
  const std::string stem = split == Split::train ? "train" : "t10k";
  const std::string images = plain_or_packed(join_path(folder, stem + "-images-idx3-ubyte"));
  const std::string labels = plain_or_packed(join_path(folder, stem + "-labels-idx1-ubyte"));
  if (images.empty() || labels.empty())
    fail_missing(dataset, folder, data_dir,
                 fmt::format("{0}-images-idx3-ubyte and {0}-labels-idx1-ubyte, plain or .gz", stem));
  return read_idx(images, labels, dataset, std::move(class_names));
}

/// "train" of Train, training and seg_train, "test" of their like; "" of what names no part of a set.
std::string part_named(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (const std::size_t at = name.find_last_of("_-. "); at != std::string::npos) name.erase(0, at + 1);
  for (const char* word : {"train", "training"})
    if (name == word) return "train";
  for (const char* word : {"test", "testing", "val", "valid", "validation", "eval", "dev"})
    if (name == word) return "test";
  return {};
}

/// Throws FileError when all classes are parts of a set, whose folders are called otherwise than train, test or val.
void refuse_named_parts(const std::string& folder, const std::vector<std::string>& classes) {
  std::vector<std::string> parts;
  for (const std::string& name : classes) parts.push_back(part_named(name));
  const auto has = [&](const char* part) { return std::find(parts.begin(), parts.end(), part) != parts.end(); };
  if (has("") || !has("train") || !has("test")) return;
  throw FileError(fmt::format("{}: {} seem to be parts of a set, not classes: call them train and test (or val)",
                              folder, fmt::join(classes, ", ")));
}

ImageDataset open_folder(const std::string& folder, Split split, const DatasetOptions& options) {
  const std::vector<const char*> own =
      split == Split::train ? std::vector<const char*>{"train"} : std::vector<const char*>{"test", "val"};
  for (const char* name : own)
    if (folder_exists(join_path(folder, name))) return read_image_folder(join_path(folder, name), folder, options);
  for (const char* name : {"train", "test", "val"})
    if (folder_exists(join_path(folder, name)))
      throw FileError(fmt::format("{}: has a folder {} but none called {}", folder, name, fmt::join(own, " or ")));
  PictureList list = list_pictures(folder);
  refuse_named_parts(folder, list.class_names);
  std::erase_if(list.pictures, [&](const Picture& p) { return (p.place % 5 == 4) != (split == Split::test); });
  if (list.pictures.empty())
    throw FileError(fmt::format("{}: too few images: no class has the five of which one is kept for testing", folder));
  limit_pictures(list, options.limit);
  return load_pictures(std::move(list), folder, options);
}

std::vector<std::string> clothing() {
  return {"T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"};
}

/// A set that needs no file, with the side of its images unless the user names one.
struct GeneratedSet {
  const char* name;
  ImageDataset (*generate)(std::int64_t count, Split split, std::uint64_t seed, std::int64_t side, StopFlag stop);
  std::int64_t side;
};
constexpr GeneratedSet generated_sets[] = {
    {"shapes", generate_shapes, 32}, {"digits", generate_digits, 28}, {"faces", generate_faces, 32}};

const GeneratedSet* generated_set(const std::string& name) {
  for (const GeneratedSet& set : generated_sets)
    if (name == set.name) return &set;
  return nullptr;
}

ImageDataset open_whole(const std::string& name, const std::string& data_dir, Split split,
                        const DatasetOptions& options) {
  if (const GeneratedSet* set = generated_set(name)) {
    const std::int64_t count = options.count > 0 ? options.count : split == Split::train ? 10'000 : 2'000;
    return set->generate(options.limit > 0 ? std::min(options.limit, count) : count, split, options.seed,
                         options.size > 0 ? options.size : set->side, options.stop);
  }
  const std::string cifar = join_path(data_dir, "cifar10");
  if (name == "cifar10") return open_cifar10(cifar, data_dir, split, options.limit, options.stop);
  if (name == "cifar10-jpeg") return open_cifar10_jpeg(cifar, data_dir, split, options.limit, name, options.stop);
  if (name == "cifar10-records") return open_cifar10_records(cifar, data_dir, split, options.stop);
  if (name == "cifar100" || name == "cifar100-coarse")
    return open_cifar100(name, join_path(data_dir, "cifar100"), data_dir, split);
  if (name == "celeba") return open_celeba(join_path(data_dir, name), data_dir, split, options);
  if (name == "mnist") return open_idx(name, join_path(data_dir, name), data_dir, split, {});
  if (name == "fashion-mnist") return open_idx(name, join_path(data_dir, name), data_dir, split, clothing());
  if (!folder_exists(name))
    throw FileError(name +
                    ": neither a dataset (cifar10, cifar10-jpeg, cifar10-records, cifar100, cifar100-coarse, celeba, "
                    "mnist, fashion-mnist, shapes, digits, faces) nor "
                    "a folder of images");
  return open_folder(name, split, options);
}

} // namespace

bool is_generated(const std::string& name) { return generated_set(name) != nullptr; }

ImageDataset open_dataset(const std::string& name, const std::string& data_dir, Split split,
                          const DatasetOptions& options) {
  if (options.limit < 0 || options.size < 0 || options.count < 0)
    throw ValueError(fmt::format("open_dataset: limit {}, size {} and count {} must not be negative", options.limit,
                                 options.size, options.count));
  const ImageDataset whole = naming_memory("data " + name, [&] {
    return open_whole(name, data_dir.empty() ? default_data_dir() : data_dir, split, options);
  });
  ImageDataset opened = options.limit > 0 ? whole.head(options.limit) : whole;
#ifdef __GLIBC__
  // What reading an archive of many small files needed is free in pieces, which malloc would keep. Resident memory
  // behind the 60,000 JPEG files of CIFAR-10: 207 MB with this, of which 184 are the images, and 280 without.
  malloc_trim(0);
#endif
  return opened;
}

} // namespace eg::data
