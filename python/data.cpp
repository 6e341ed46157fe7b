// Datasets and the loader.

#include "data/dataset.h"
#include "data/loader.h"

#include "path.h"
#include "stoppable.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <variant>

namespace eg::python {
namespace {

using data::Batch;
using data::ImageDataset;
using data::Loader;
using data::LoaderOptions;
using data::Split;

Split split_named(const std::string& name) {
  if (name == "train") return Split::train;
  if (name == "test") return Split::test;
  throw ValueError(fmt::format("data: split '{}' is neither 'train' nor 'test'", name));
}

Tensor pixels_of(const ImageDataset& dataset, std::int64_t i) {
  const ByteView pixels = dataset.pixels(i);
  return Tensor::from<std::uint8_t>(std::span<const std::uint8_t>(pixels.data(), pixels.size()),
                                    {dataset.channels(), dataset.height(), dataset.width()});
}

/// A dataset of images [N, channels, H, W] or [N, H, W] and labels [N].
ImageDataset of_arrays(nb::handle images, nb::handle labels, std::optional<std::vector<std::string>> class_names,
                       const std::string& name) {
  const Tensor pixels = tensor_from(images, "ArrayDataset: images").to(Device::cpu()).contiguous();
  const Tensor classes = import_array(labels, std::nullopt, std::nullopt).to(Device::cpu());
  if (pixels.dtype() != DType::u8)
    throw DTypeError(
        fmt::format("ArrayDataset: images are bytes (u8, 0 to 255), not {}{}", name_of(pixels.dtype()),
                    is_floating(pixels.dtype()) ? "; from 0 to 1 they become (255 * images).astype('uint8')" : ""));
  if (pixels.rank() != 3 && pixels.rank() != 4)
    throw ShapeError(
        fmt::format("ArrayDataset: images are [N, channels, H, W] or [N, H, W], not {}", pixels.shape().str()));
  if (classes.dtype() != DType::i64 && classes.dtype() != DType::u8)
    throw DTypeError(fmt::format("ArrayDataset: labels are integers, not {}{}", name_of(classes.dtype()),
                                 classes.rank() == 2 ? "; of one-hot rows take labels.argmax(1)" : ""));
  if (classes.rank() != 1 || classes.size(0) != pixels.size(0))
    throw ShapeError(
        fmt::format("ArrayDataset: labels are [{}], one an image, not {}", pixels.size(0), classes.shape().str()));
  const std::vector<std::int64_t> wide = classes.to(DType::i64).to_vector<std::int64_t>();
  std::int64_t count = class_names ? static_cast<std::int64_t>(class_names->size()) : 0;
  for (const std::int64_t label : wide) {
    if (label < 0 || label >= (class_names ? count : 1'000'000))
      throw ValueError(fmt::format("ArrayDataset: a label is {}; {}", label,
                                   class_names ? fmt::format("there are {} class names", count)
                                               : std::string("labels are 0 to 999999")));
    if (!class_names) count = std::max(count, label + 1);
  }
  // A part of a data set need not have an image of every class, but so many classes are ids of something else.
  if (!class_names && count > std::max<std::int64_t>(1000, pixels.size(0)))
    throw ValueError(fmt::format("ArrayDataset: a label is {}, and there are {} images; number the classes from 0 on "
                                 "(np.unique(labels, return_inverse=True)[1]), or give class_names",
                                 count - 1, pixels.size(0)));
  std::vector<std::string> names = class_names.value_or(std::vector<std::string>());
  for (std::int64_t i = 0; !class_names && i < count; ++i) names.push_back(fmt::format("{}", i));
  const std::uint8_t* first = pixels.data<std::uint8_t>();
  const int rows = pixels.rank() - 2;
  return {name,
          pixels.rank() == 4 ? pixels.size(1) : 1,
          pixels.size(rows),
          pixels.size(rows + 1),
          std::move(names),
          Bytes(first, first + pixels.numel()),
          std::vector<std::int32_t>(wide.begin(), wide.end())};
}

void bind_dataset(nb::module_& m) {
  nb::class_<ImageDataset>(m, "ImageDataset", nb::dynamic_attr(), "Labelled images of one size, held in memory.")
      .def_prop_ro("name", &ImageDataset::name)
      .def("__len__", &ImageDataset::size)
      .def_prop_ro("channels", &ImageDataset::channels)
      .def_prop_ro("height", &ImageDataset::height)
      .def_prop_ro("width", &ImageDataset::width)
      .def_prop_ro("class_names", &ImageDataset::class_names)
      .def("label", &ImageDataset::label, "i"_a, "Class of image i.")
      .def("pixels", &pixels_of, "i"_a, "Image i, u8 [channels, height, width].")
      .def("head", &ImageDataset::head, "count"_a, "The first `count` images.")
      .def("__repr__", [](const ImageDataset& d) {
        return fmt::format("<{}: {} images of {}x{}x{}, {} classes>", d.name(), d.size(), d.channels(), d.height(),
                           d.width(), d.classes());
      });
  m.def(
      "ArrayDataset",
      [](nb::handle images, nb::handle labels, std::optional<std::vector<std::string>> class_names,
         const std::string& name) {
        const bool numbered = !class_names.has_value();
        nb::object made = nb::cast(of_arrays(images, labels, std::move(class_names), name));
        made.attr("_numbered") = numbered; // eg.train() asks more of labels whose classes nobody named
        return made;
      },
      "images"_a, "labels"_a, "class_names"_a = nb::none(), "name"_a = "arrays",
      "Your own images as a dataset, for a Loader: u8 [N, channels, H, W] or [N, H, W], and labels [N] from 0 on. They "
      "are copied. A Loader scales their pixels to [-1, 1], (pixel / 255 - 0.5) / 0.5, unless it is given mean and "
      "std. "
      "class_names: None for the numbers.",
      nb::sig("def ArrayDataset(images: typing.Any, labels: typing.Any, class_names: collections.abc.Sequence[str] | "
              "None = None, name: str = 'arrays') -> ImageDataset"));
  m.def(
      "open_dataset",
      [](const std::string& name, const std::string& split, const Path& data_dir, std::int64_t limit, std::int64_t size,
         std::int64_t count, std::uint64_t seed) {
        return stoppable([&, folder = data_dir.str()](StopFlag stop) {
          return data::open_dataset(name, folder, split_named(split),
                                    {.limit = limit, .size = size, .count = count, .seed = seed, .stop = stop});
        });
      },
      "name"_a, "split"_a = "train", "data_dir"_a = "", "limit"_a = 0, "size"_a = 0, "count"_a = 0, "seed"_a = 0,
      "cifar10, mnist, fashion-mnist, shapes, digits or faces (generated) or a folder of class folders. data_dir: "
      "empty for "
      "EQUIGRAD_DATA.");
}

void bind_batch(nb::module_& m) {
  nb::class_<Batch>(m, "Batch", "What a Loader gives; `for images, labels in loader` takes it apart.")
      .def_prop_ro(
          "images", [](const Batch& batch) { return batch.images; }, "[B, C, H, W], normalised.")
      .def_prop_ro(
          "labels", [](const Batch& batch) { return batch.labels; }, "[B], i64.")
      .def_ro("indices", &Batch::indices, "Which images of the dataset.")
      .def(
          "__iter__", [](const Batch& batch) { return nb::make_tuple(batch.images, batch.labels).attr("__iter__")(); },
          "Images and labels, for `images, labels = batch`.",
          nb::sig("def __iter__(self) -> collections.abc.Iterator[equigrad._core.Tensor]"))
      .def(
          "__getitem__",
          [](const Batch& batch, std::int64_t i) {
            if (i < -2 || i > 1)
              throw IndexError(fmt::format("batch: there is no part {}; [0] is .images, [1] is .labels", i));
            return i == 0 || i == -2 ? batch.images : batch.labels;
          },
          "i"_a, "Images for 0, labels for 1.")
      .def(
          "__len__", [](const Batch&) { return 2; }, "Of images and labels: 2. len(batch.labels) counts the images.")
      .def("__repr__",
           [](const Batch& batch) {
             return fmt::format("<batch {} of epoch {}: images {}, labels {}>", batch.batch, batch.epoch,
                                batch.images.shape().str(), batch.labels.shape().str());
           })
      .def_ro("epoch", &Batch::epoch)
      .def_ro("batch", &Batch::batch, "Position within the epoch.");
}

/// A number, or one for each channel.
using ForChannels = std::optional<std::variant<double, std::vector<double>>>;

std::vector<double> for_each_channel(const ForChannels& given, std::int64_t channels) {
  if (const auto* one = std::get_if<double>(&*given))
    return std::vector<double>(static_cast<std::size_t>(channels), *one);
  return std::get<std::vector<double>>(*given);
}

std::unique_ptr<Loader> make_loader(const ImageDataset& dataset, std::int64_t batch_size, bool shuffle, bool drop_last,
                                    std::uint64_t seed, std::int64_t crop_padding, bool horizontal_flip,
                                    nb::handle dtype, int workers, int prefetch, const ForChannels& mean,
                                    const ForChannels& std) {
  LoaderOptions options{.batch_size = batch_size, .shuffle = shuffle, .drop_last = drop_last, .seed = seed};
  options.augmentation = {.crop_padding = crop_padding, .horizontal_flip = horizontal_flip};
  options.dtype = dtype_from(dtype).value_or(DType::f32);
  options.workers = workers;
  options.prefetch = prefetch;
  if (mean.has_value() != std.has_value())
    throw nb::type_error("Loader: mean and std are given together or not at all");
  const std::int64_t channels = dataset.channels();
  if (mean) options.normalization = {for_each_channel(mean, channels), for_each_channel(std, channels)};
  return std::make_unique<Loader>(dataset, options);
}

/// The rest of a loader's epoch from the first batch on. It ends when the loader has left
/// the epoch, whoever took its last batch.
struct RestOfEpoch {
  nb::object loader; // keeps it alive
  std::optional<std::int64_t> epoch;
  bool ended = false;

  Batch next() {
    if (ended) throw nb::stop_iteration();
    auto& from = nb::cast<Loader&>(loader);
    Batch batch = [&] {
      const nb::gil_scoped_release unlocked;
      return from.next();
    }();
    if (epoch.value_or(batch.epoch) != batch.epoch) {
      ended = true;
      from.seek(batch.epoch, batch.batch); // it is the next one of the loader again
      throw nb::stop_iteration();
    }
    epoch = batch.epoch;
    ended = batch.batch + 1 == from.batches_per_epoch();
    return batch;
  }
};

void bind_rest_of_epoch(nb::module_& m) {
  nb::class_<RestOfEpoch>(m, "LoaderEpoch", "What a `for` over a Loader goes through: the batches of one epoch.")
      .def(
          "__iter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __iter__(self) -> LoaderEpoch"))
      .def("__next__", &RestOfEpoch::next);
}

void bind_loader(nb::module_& m) {
  bind_rest_of_epoch(m);
  nb::class_<Loader>(
      m, "Loader",
      "A stream of batches, epoch after epoch, made ahead of time by worker threads. A `for` over it ends "
      "with the epoch, and the next `for` takes the next one; after a `break` it takes what is left "
      "(seek() goes elsewhere). next(loader) never ends. What a batch holds depends on (seed, epoch, "
      "index) alone.\n\n"
      "Pixels are scaled: (pixel / 255 - mean) / std, with the usual numbers of the data set. For other images mean "
      "and std are 0.5, which gives numbers from -1 to 1; mean=0.0, std=1.0 gives those from 0 to 1.")
      .def(nb::new_(&make_loader), "dataset"_a, "batch_size"_a = 64, "shuffle"_a = true, "drop_last"_a = false,
           "seed"_a = 0, "crop_padding"_a = 0, "horizontal_flip"_a = false, "dtype"_a = "f32", "workers"_a = 1,
           "prefetch"_a = 4, "mean"_a = nb::none(), "std"_a = nb::none(),
           "mean, std: a number, or one for each channel. A pixel becomes (pixel / 255 - mean) / std. None: the usual "
           "numbers of the data set, and 0.5 for others, which scales to [-1, 1].")
      .def_prop_ro("batch_size", [](const Loader& self) { return self.options().batch_size; })
      .def_prop_ro("batches_per_epoch", &Loader::batches_per_epoch)
      .def("__len__", &Loader::batches_per_epoch, "Batches of an epoch.")
      .def(
          "__iter__",
          [](nb::handle self) {
            return RestOfEpoch{nb::borrow(self), {}};
          },
          nb::sig("def __iter__(self) -> LoaderEpoch"))
      .def("__next__", &Loader::next, nb::call_guard<nb::gil_scoped_release>())
      .def("next", &Loader::next, nb::call_guard<nb::gil_scoped_release>(), "The next batch; epochs follow each other.")
      .def(
          "epoch",
          [](nb::handle self, std::int64_t epoch) {
            nb::cast<Loader&>(self).seek(epoch, 0);
            return RestOfEpoch{nb::borrow(self), {}};
          },
          "epoch"_a, "The batches of that epoch: for batch in loader.epoch(3).",
          nb::sig("def epoch(self, epoch: int) -> LoaderEpoch"))
      .def("seek", &Loader::seek, "epoch"_a, "batch"_a, "Makes next() go on with that batch.")
      .def("batch", &Loader::batch, "epoch"_a, "batch"_a, nb::call_guard<nb::gil_scoped_release>(),
           "One batch by its place; next() is not disturbed.");
}

} // namespace

void bind_data(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("data", "Datasets, the loader, tokenizers, files of tensors and pictures.");
  bind_dataset(m);
  bind_batch(m);
  bind_loader(m);
}

} // namespace eg::python
