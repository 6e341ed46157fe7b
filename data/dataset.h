#pragma once
// Holds labelled image sets, decoded, in memory.

#include "core/base/bytes.h"
#include "core/base/interrupt.h"
#include "data/image.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace eg::data {

/// Images of one size with labels. Copies share the pixels; nothing changes after construction, so threads may read.
class ImageDataset {
public:
  /// `pixels` is [size, channels, height, width], one byte each. Throws ValueError when sizes do not fit or a label is
  /// outside the class list.
  ImageDataset(std::string name, std::int64_t channels, std::int64_t height, std::int64_t width,
               std::vector<std::string> class_names, Bytes pixels, std::vector<std::int32_t> labels);

  /// Images that show any number of things: class names are attributes, and each image has a byte 0 or 1 for each of
  /// them: `attributes` is [size, names]. Its label is 0. Throws ValueError as the constructor does, and for another
  /// byte.
  static ImageDataset with_attributes(std::string name, std::int64_t channels, std::int64_t height, std::int64_t width,
                                      std::vector<std::string> names, Bytes pixels, Bytes attributes);

  const std::string& name() const { return content_->name; }
  std::int64_t size() const { return static_cast<std::int64_t>(content_->labels.size()); }
  std::int64_t channels() const { return content_->channels; }
  std::int64_t height() const { return content_->height; }
  std::int64_t width() const { return content_->width; }
  std::int64_t classes() const { return static_cast<std::int64_t>(content_->class_names.size()); }
  const std::vector<std::string>& class_names() const { return content_->class_names; }
  /// Bytes of one image: channels * height * width.
  std::int64_t image_bytes() const { return channels() * height() * width(); }

  /// Class of image i. Throws IndexError.
  std::int64_t label(std::int64_t i) const;
  bool has_attributes() const { return !content_->attributes.empty(); }
  /// Attributes of image i, [classes]; empty for images with one label. Throws IndexError.
  ByteView attributes(std::int64_t i) const;
  /// Pixels of image i, planar [channels, height, width]. Throws IndexError.
  ByteView pixels(std::int64_t i) const;
  /// Image i with its channels side by side, for reports.
  Image image(std::int64_t i) const;
  /// Its fingerprint: "50000 images, crc32 1a2b3c4d" of sizes, class names, pixels, labels and
  /// attributes.
  std::string fingerprint() const;
  /// The images at `indices`, in that order.
  ImageDataset select(std::span<const std::int64_t> indices) const;
  /// The first `count` images, or all of them when there are fewer.
  ImageDataset head(std::int64_t count) const;

private:
  struct Content {
    std::string name;
    std::int64_t channels, height, width;
    std::vector<std::string> class_names;
    Bytes pixels;
    std::vector<std::int32_t> labels;
    Bytes attributes;
  };
  explicit ImageDataset(Content content);
  std::shared_ptr<const Content> content_;
};

/// What is done with an image file of a folder that does not decode.
enum class BadImages : std::uint8_t { refuse, skip };
/// "refuse" or "skip". Throws ValueError.
BadImages bad_images_named(std::string_view name);
std::string_view name_of(BadImages what);

enum class Split : std::uint8_t { train, test };
/// "train" or "test".
const char* name_of(Split split);

struct DatasetOptions {
  /// At most that many images, the first ones (folders: the first of every class, then the second of every class, ...);
  /// 0: all.
  std::int64_t limit = 0;
  std::int64_t size = 0; ///< folders: side that images are resized to; 0: they must all have one size. generated: side,
                         ///< 0: 32 (digits 28)
  std::int64_t count = 0; ///< generated: how many; 0: 10,000 for training and 2,000 for testing
  std::uint64_t seed = 0; ///< generated: what they are drawn from
  StopFlag stop = nullptr;
  BadImages bad_images = BadImages::refuse;    ///< of folders
  std::vector<std::string>* skipped = nullptr; ///< receives what was wrong with each that was skipped
};

/// A dataset by name:
/// - `cifar10`: all 60,000 images, from the official binary records (cifar-10-batches-bin/) if they are there (both
///   splits, or they are refused), else from their JPEG copies in official order (cifar10_jpeg_60000.tar.xz);
/// - `cifar10-jpeg`: the JPEG copies;
/// - `cifar10-records`: original pixels: cifar-10-batches-bin/, or the part of it in cifar10_lossless_*.bin.xz;
/// - `cifar100`, `cifar100-coarse`: cifar100/cifar-100-binary/ (train.bin, test.bin, and the files of class names),
/// with
///   the labels of 100 classes or of 20 groups;
/// - `celeba`: celeba/ with list_attr_celeba.txt, list_eval_partition.txt and img_align_celeba/ (also as distributed,
/// in
///   Anno/, Eval/ and Img/): 40 attributes; parts 0 and 2, to train and to test;
/// - `mnist`, `fashion-mnist`: IDX files, .gz or plain;
/// - `shapes`, `digits`: generated, need no file; `faces`: likewise, with twelve attributes;
/// - anything else: a folder with train/ and test/ (or val/) folders of class folders, or class folders themselves
/// (then
///   every fifth image of a class, in name order, is for testing).
/// `data_dir` is the folder that holds cifar10/, mnist/, ...; empty: the environment variable EQUIGRAD_DATA. Throws
/// FileError when files are missing (it says what was looked for, where, and how to give it) or damaged, Interrupted
/// when `options.stop` becomes true.
ImageDataset open_dataset(const std::string& name, const std::string& data_dir, Split split,
                          const DatasetOptions& options = {});

/// Whether a dataset of that name is generated: shapes, digits, faces.
bool is_generated(const std::string& name);

/// EQUIGRAD_DATA, or "" when it is not set.
std::string default_data_dir();
/// Folders below it that hold the sets known by name: images, texts and tables.
inline constexpr std::array set_folders = {"celeba",     "cifar10", "cifar100", "criteo", "fashion-mnist",
                                           "glue-small", "imdb",    "mnist",    "snli",   "tinyshakespeare"};

// --- formats, for files of your own ---

/// CIFAR-10 binary records: a label byte, then 3072 bytes (1024 red, 1024 green, 1024 blue), no header; .xz and .gz are
/// unpacked. Throws FileError for a length that is not a multiple of 3073 or a label above 9.
ImageDataset read_cifar10_records(const std::vector<std::string>& paths, const std::string& name,
                                  StopFlag stop = nullptr);
ImageDataset parse_cifar10_records(ByteView records, const std::string& source, const std::string& name);

/// Which of CIFAR-100's labels: 100 classes, or the 20 groups of five that they form.
enum class Cifar100Labels : std::uint8_t { fine, coarse };
/// CIFAR-100 binary records: a coarse and a fine label byte, then pixels as in CIFAR-10; `class_names`: a file with a
/// name a line. Throws FileError for a length that is not a multiple of 3074, a label out of range or another number of
/// names.
ImageDataset read_cifar100_records(const std::string& path, const std::string& class_names, Cifar100Labels which,
                                   const std::string& name);

/// The JPEG copies: images of a tar archive in the order of a list with lines `label TAB path` (plain or .gz).
ImageDataset read_cifar10_jpeg(const std::string& archive, const std::string& order, const std::string& name,
                               std::int64_t limit = 0, StopFlag stop = nullptr);

/// Where CelebA's files are.
struct CelebaFiles {
  std::string attributes; ///< a count, a line of names, and lines `image.jpg -1 1 ...`
  std::string parts;      ///< lines `image.jpg 0`: 0 to train, 1 to validate, 2 to test
  std::string images;     ///< folder
};
/// The images of one part in the order of its list, RGB; `size`: the square in the middle, resized; 0: as they are.
/// Throws FileError that names file and line for a line of another kind, an image without attributes, a count that is
/// not that of the lines, an image that is missing or does not decode.
ImageDataset read_celeba(const CelebaFiles& files, int part, const std::string& name, std::int64_t size = 0,
                         std::int64_t limit = 0, StopFlag stop = nullptr);

/// IDX (LeCun, Cortes, Burges): big-endian magic 00 00 08 rank, extents, bytes.
struct IdxArray {
  std::vector<std::int64_t> dims;
  Bytes values;
};
/// Throws FileError for another magic, an element type other than unsigned byte, or a length that does not fit.
IdxArray parse_idx(ByteView bytes, const std::string& source);
/// Images [N, H, W] and labels [N]. `class_names` empty: "0", "1", ...
ImageDataset read_idx(const std::string& images, const std::string& labels, const std::string& name,
                      std::vector<std::string> class_names = {});

/// Class folders of PNG and JPEG files, in folders inside them too; classes in name order, files in the order of their
/// paths. Images are converted to RGB; `size` and `limit` as in DatasetOptions. Throws FileError for a folder without
/// classes, a class without images, an image that does not decode (of another kind too), a dangling link, an image
/// outside the class folders, or images of different sizes when `size` is 0.
ImageDataset read_image_folder(const std::string& folder, const std::string& name, std::int64_t size = 0,
                               std::int64_t limit = 0, StopFlag stop = nullptr);
/// The same, with what is to be done with images that do not decode; of the options those of folders count.
ImageDataset read_image_folder(const std::string& folder, const std::string& name, const DatasetOptions& options);

/// Ten classes of shapes (disc, ring, square, triangle, cross, star, crescent, bars, nut, heart), RGB, each of a
/// random colour, size, place and rotation on a random plain background with noise; edges antialiased by 4x4 samples.
/// Image i of a split depends on (seed, split, i, side) alone; label = i mod 10. Throws ValueError for a side below 8.
ImageDataset generate_shapes(std::int64_t count, Split split, std::uint64_t seed = 0, std::int64_t side = 32,
                             StopFlag stop = nullptr);

/// The digits 0 to 9 as pens write them, light on dark, one channel: strokes whose points are moved at random by up to
/// 0.05 of the height, then scaled, slanted, turned by up to 0.2 radians, moved, drawn with a round pen of random
/// width, with noise. Image i of a split depends on (seed, split, i, side) alone; label = i mod 10. Throws ValueError
/// for a side below 8.
ImageDataset generate_digits(std::int64_t count, Split split, std::uint64_t seed = 0, std::int64_t side = 28,
                             StopFlag stop = nullptr);

} // namespace eg::data
