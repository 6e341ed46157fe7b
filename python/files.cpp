// Files of tensors, and images as models take them.

#include "core/base/bytes.h"
#include "core/base/words.h"
#include "data/preprocess.h"
#include "data/safetensors.h"

#include "path.h"

#include <fmt/format.h>
#include <nanobind/stl/map.h>

namespace eg::python {
namespace {

using data::TensorInfo;
using data::TensorReader;

void bind_safetensors(nb::module_& m) {
  m.def(
      "load_safetensors",
      [](const Path& path, bool widen) {
        return dict_of(
            released([&, file = path.str()] { return data::load_safetensors(file, {.widen = widen}).tensors; }));
      },
      "path"_a, "widen"_a = false,
      "Tensors by name. widen: F16 and BF16 become f32, other integers i64; without it BF16 stays and the others raise "
      "FileError.",
      nb::sig(
          "def load_safetensors(path: str | os.PathLike, widen: bool = False) -> dict[str, equigrad._core.Tensor]"));
  m.def(
      "safetensors_metadata", [](const Path& path) { return data::read_safetensors_header(path.str()).metadata; },
      "path"_a, "The free text entries of a file's header.");
  m.def(
      "save_safetensors",
      [](const Path& path, const nb::dict& tensors, const std::map<std::string, std::string>& metadata) {
        const data::NamedTensors list = named_tensors_from(tensors, "save_safetensors");
        const std::string file = path.str();
        released([&] { data::save_safetensors(file, list, metadata); });
      },
      "path"_a, "tensors"_a, "metadata"_a = std::map<std::string, std::string>{},
      "Writes tensors and text so that the file appears complete or not at all.",
      nb::sig("def save_safetensors(path: str | os.PathLike, tensors: collections.abc.Mapping[str, typing.Any], "
              "metadata: collections.abc.Mapping[str, str] = {}) -> None"));
}

void bind_reader(nb::module_& m) {
  nb::class_<TensorInfo>(m, "TensorInfo", "What is known of a tensor in a file before its values are read.")
      .def_ro("name", &TensorInfo::name)
      .def_prop_ro(
          "dtype", [](const TensorInfo& info) { return data::name_of(info.type); }, "As safetensors spells it: 'F16'.")
      .def_prop_ro(
          "shape", [](const TensorInfo& info) { return nb::tuple(nb::cast(info.dims)); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_ro("nbytes", &TensorInfo::bytes, "Bytes of the values, unpacked.")
      .def("__repr__", [](const TensorInfo& info) {
        return fmt::format("<{}: {} {}>", info.name, data::name_of(info.type), nb::repr(nb::cast(info.dims)).c_str());
      });
  nb::class_<TensorReader>(m, "TensorReader", "Tensors in files: what they are at once, their values when asked for.")
      .def_prop_ro("path", &TensorReader::path)
      .def_prop_ro("format", &TensorReader::format, "'safetensors', 'npy' or 'npz'.")
      .def_prop_ro("files", &TensorReader::files, "Paths of the files with values.")
      .def_prop_ro("tensors", &TensorReader::tensors, "In the order of files and of data within them.")
      .def_prop_ro("metadata", &TensorReader::metadata)
      .def("__len__", [](const TensorReader& reader) { return reader.tensors().size(); })
      .def("__contains__",
           [](const TensorReader& reader, const std::string& name) { return reader.find(name) != nullptr; })
      .def(
          "read",
          [](const TensorReader& reader, const std::string& name, bool widen, bool map) {
            return released([&] { return reader.read(name, {.widen = widen, .map = map}); });
          },
          "name"_a, "widen"_a = false, "map"_a = true,
          "The tensor of that name, on memory of its own. map: large ones take memory where they are touched.");
  m.def(
      "open_tensors",
      [](const Path& path) { return released([file = path.str()] { return data::open_tensors(file); }); }, "path"_a,
      "Opens a safetensors, npy or npz file, an index of shards, or a folder that holds one of these.");
}

Tensor pixel_values(const std::string& image, const std::string& config) {
  const std::string file = folder_exists(config) ? join_path(config, "preprocessor_config.json") : config;
  const data::Preprocessing steps = data::read_preprocessing(file);
  try {
    return data::preprocess(data::read_image(image), steps).unsqueeze(0);
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("{}: {}", image, error.what()));
  }
}

} // namespace

void bind_files(nb::module_& parent) {
  nb::module_ m = nb::borrow<nb::module_>(parent.attr("data"));
  bind_safetensors(m);
  bind_reader(m);
  m.def(
      "preprocess",
      [](const Path& image, const Path& config) {
        return released([&, file = image.str(), steps = config.str()] { return pixel_values(file, steps); });
      },
      "image"_a, "config"_a,
      "A PNG or JPEG file as a model folder's preprocessor_config.json wants it, f32 [1, C, H, W]: pixel_values. "
      "config: "
      "the folder or the file.");
}

} // namespace eg::python
