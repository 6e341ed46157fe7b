// Model folders of Hugging Face's format.

#include "nn/decoder.h"
#include "nn/hub/folder.h"
#include "nn/hub/llama2c.h"

#include "modules.h"
#include "path.h"
#include "traces.h"

#include <fmt/format.h>
#include <nanobind/stl/unique_ptr.h>
#include <nlohmann/json.hpp>

namespace eg::python {

void bind_text(nb::module_& m);

namespace {

using hub::LoadReport;
using hub::Model;
using hub::ModelSummary;

nb::object parsed(const nlohmann::json& json) { return nb::module_::import_("json").attr("loads")(json.dump()); }

/// An input of a model: a tensor, an array, or nested lists of numbers.
Tensor input_from(nb::handle value, const std::string& name) {
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value))
    return import_array(value, std::nullopt, std::nullopt);
  return tensor_from(value, name.c_str());
}

nlohmann::json json_from(nb::handle config) {
  const nb::object text = nb::module_::import_("json").attr("dumps")(config, "allow_nan"_a = false);
  return nlohmann::json::parse(nb::cast<std::string>(text));
}

void bind_report(nb::module_& m) {
  nb::class_<LoadReport>(m, "LoadReport",
                         "What a file's tensors and a model's say of each other; names are the file's.")
      .def_ro("missing", &LoadReport::missing)
      .def_ro("unexpected", &LoadReport::unexpected)
      .def_ro("misshapen", &LoadReport::misshapen)
      .def_ro("unused", &LoadReport::unused)
      .def_ro("fresh", &LoadReport::fresh)
      .def_ro("renamed", &LoadReport::renamed)
      .def("complete", &LoadReport::complete)
      .def("__repr__", &LoadReport::summary);
  nb::class_<ModelSummary>(m, "ModelSummary", "What the names and shapes of a folder say.")
      .def_ro("family", &ModelSummary::family)
      .def_ro("architecture", &ModelSummary::architecture)
      .def_ro("parameters", &ModelSummary::parameters, "How many numbers.")
      .def_ro("inputs", &ModelSummary::inputs)
      .def_ro("report", &ModelSummary::report, "complete(): load() would read it.");
}

void bind_model(nb::module_& m) {
  nb::class_<Model>(m, "Model", "A model with the names that transformers gives its inputs, outputs and parameters.")
      .def(
          "__call__",
          [](const Model& self, const nb::kwargs& inputs) {
            hub::Tensors list;
            CallKey key;
            bool attentions = false;
            for (const auto [name, value] : inputs) {
              const auto word = nb::cast<std::string>(name);
              if (word == "key") {
                if (!nb::try_cast(value, key)) refuse_type("key", "a Key or an int", value);
                continue;
              }
              if (word == "output_attentions") {
                if (!nb::isinstance<bool>(value)) refuse_type(word, "a bool", value);
                attentions = nb::cast<bool>(value);
                continue;
              }
              list.emplace_back(word, input_from(value, word));
            }
            const RandomKey drawn = key.of(self.module());
            if (!attentions) return dict_of(released([&] { return self.forward(list, drawn); }));
            hub::Tensors results;
            const nb::list layers = traces_of([&] { results = self.forward(list, drawn); });
            nb::dict dict = dict_of(results);
            nb::list maps;
            for (const nb::handle layer : layers) maps.append(layer["attention"]);
            dict["attentions"] = nb::tuple(maps);
            return dict;
          },
          "model(input_ids=..., ...) -> {'last_hidden_state': ..., 'logits': ...}; `key` feeds dropout in training. "
          "output_attentions=True adds 'attentions', softmax's result [B, heads, T, T] of every layer.",
          nb::sig("def __call__(self, *, key: equigrad._core.random.Key | int = ..., output_attentions: bool = False, "
                  "**inputs: typing.Any) -> dict[str, typing.Any]"))
      .def_prop_ro(
          "module", [](Model& self) { return &self.module(); }, nb::rv_policy::reference_internal,
          "The module inside: nn.Vit, nn.Bert or nn.Decoder.")
      .def_prop_ro("input_names", &Model::input_names, "Those without which it cannot run come first.")
      .def_prop_ro("family", &Model::family, "model_type of its config.")
      .def_prop_ro("architecture", &Model::architecture)
      .def_prop_ro(
          "config", [](const Model& self) { return parsed(self.config()); }, "config.json as it was read.",
          nb::sig("def config(self) -> dict[str, typing.Any]"))
      .def(
          "state",
          [](const Model& self) {
            hub::Tensors state = self.state();
            for (auto& [name, tensor] : state) tensor = tensor.clone();
            return dict_of(state);
          },
          "Copies of the parameters by file name.", nb::sig("def state(self) -> dict[str, equigrad._core.Tensor]"))
      .def(
          "by_file_names",
          [](const Model& self, nb::handle gradients) {
            return dict_of(self.by_file_names(tensors_from(gradients, "by_file_names: gradients")));
          },
          "gradients"_a, "Gradients in the order of module.parameters(), by file name.",
          nb::sig("def by_file_names(self, gradients: collections.abc.Sequence[equigrad._core.Tensor | None]) -> "
                  "dict[str, equigrad._core.Tensor]"))
      .def(
          "save",
          [](const Model& self, const Path& folder, std::uint64_t shard_bytes) {
            released([&, path = folder.str()] { hub::save_model(self, path, shard_bytes); });
          },
          "folder"_a, "shard_bytes"_a = std::uint64_t{5'000'000'000},
          "Writes config.json and model.safetensors (or shards) for transformers' from_pretrained and load().")
      .def(
          "__reduce_ex__",
          [](nb::handle, int) -> nb::object {
            throw nb::type_error("a Model cannot be copied or pickled; copy or pickle its module, or save(folder) and "
                                 "load it again");
          },
          nb::sig("def __reduce_ex__(self, protocol: typing.SupportsIndex, /) -> typing.Any"))
      .def("__repr__", [](const Model& self) {
        return fmt::format("<{}: {} parameters>", self.architecture(), self.module().parameter_count());
      });
}

void bind_loading(nb::module_& m) {
  m.def(
      "load_with_report",
      [](const Path& folder, nb::handle dtype, bool fresh_head, RandomKey key,
         std::optional<std::pair<std::int64_t, std::int64_t>> image_size) {
        const hub::LoadModelOptions options{.dtype = dtype_from(dtype).value_or(DType::f32),
                                            .fresh_head = fresh_head,
                                            .key = key,
                                            .image_size = image_size};
        auto loaded = released([&, path = folder.str()] { return hub::load_model(path, options); });
        return std::make_pair(std::move(loaded.model), std::move(loaded.report));
      },
      "folder"_a, "dtype"_a = "f32", "fresh_head"_a = false, "key"_a = RandomKey{}, "image_size"_a = nb::none(),
      "load() and its report.",
      nb::sig("def load_with_report(folder: str | os.PathLike, dtype: str = 'f32', fresh_head: bool = False, key: "
              "equigrad._core.random.Key | int = ..., image_size: tuple[int, int] | None = None) -> tuple[Model, "
              "LoadReport]"));
  m.def(
      "make_model", [](nb::handle config, DefaultKey key) { return hub::make_model(json_from(config), key); },
      "config"_a, "key"_a = nb::none(),
      "The model that the content of a config.json describes, with weights drawn from `key`.",
      nb::sig("def make_model(config: collections.abc.Mapping[str, typing.Any], key: equigrad._core.random.Key | int) "
              "-> Model"));
  m.def(
      "supported",
      [] {
        nb::dict families;
        for (const auto& [family, architectures] : hub::supported()) families[family.c_str()] = architectures;
        return families;
      },
      "Families and the architectures of each.", nb::sig("def supported() -> dict[str, list[str]]"));
  m.def(
      "examine",
      [](const Path& folder) { return released([path = folder.str()] { return hub::examine_model(path); }); },
      "folder"_a, "Looks at a model folder without reading its values.");
  m.def(
      "load_llama2c",
      [](const Path& path) { return released([file = path.str()] { return hub::load_llama2c(file); }); }, "path"_a,
      "A checkpoint of llama2.c as a LlamaForCausalLM.");
  m.def("resample_positions", &hub::resample_positions, "positions"_a, "special"_a, "from_"_a, "to"_a,
        "Position embeddings [1, special + h w, dim] of one grid resampled to another, as transformers does it.");
}

} // namespace

void bind_hub(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("hub", "Model folders as Hugging Face's libraries write and read them.");
  bind_report(m);
  bind_model(m);
  bind_loading(m);
  bind_text(m);
}

} // namespace eg::python
