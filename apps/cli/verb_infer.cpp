// equigrad infer: one forward pass of a model folder, and the gradients of all its parameters.

#include "apps/cli/device_flag.h"
#include "apps/cli/infer_images.h"
#include "apps/cli/model_files.h"
#include "apps/cli/precision.h"
#include "apps/cli/shell/arguments.h"
#include "apps/cli/shell/interrupt.h"
#include "apps/cli/shell/output.h"
#include "apps/cli/shell/verb.h"
#include "apps/cli/tensor_inputs.h"

#include "autograd/tape.h"
#include "core/base/bytes.h"
#include "core/base/words.h"
#include "core/device/device.h"
#include "data/safetensors.h"
#include "nn/hub/folder.h"
#include "nn/hub/regrid.h"
#include "nn/hub/timm.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>

namespace eg::cli {
namespace {

struct InferOptions {
  std::string model, inputs, outputs, gradients, dtype = "f32", precision = "f32", image_size, device;
  std::vector<std::string> images;
};

constexpr std::string_view cotangent_prefix = "cotangent.";

struct Given {
  hub::Tensors inputs;
  hub::Tensors cotangents; ///< by the output's name
};

/// Floating tensors in the model's type; those called cotangent.* apart.
Given read_inputs(const std::string& path, DType dtype) {
  Given given;
  for (auto& [name, value] : read_tensor_inputs(path, dtype)) {
    if (name.starts_with(cotangent_prefix))
      given.cotangents.emplace_back(name.substr(cotangent_prefix.size()), std::move(value));
    else
      given.inputs.emplace_back(name, std::move(value));
  }
  return given;
}

void check_cotangents(const Given& given, const hub::Tensors& outputs, const InferOptions& o) {
  if (given.cotangents.empty())
    throw ValueError(fmt::format("{}: --gradients needs a tensor cotangent.OUTPUT for an output", o.inputs));
  std::vector<std::string> names;
  for (const auto& [name, tensor] : outputs) names.push_back(name);
  for (const auto& [name, cotangent] : given.cotangents) {
    const Tensor output = hub::find(outputs, name);
    if (!output.defined())
      throw ValueError(fmt::format("{}: cotangent.{}: the model has no output {}{}", o.inputs, name, name,
                                   did_you_mean(name, names)));
    if (!(output.shape() == cotangent.shape()) || !is_floating(cotangent.dtype()))
      throw ShapeError(fmt::format("{}: cotangent.{} is {} {}, the output is {} {}", o.inputs, name,
                                   name_of(cotangent.dtype()), cotangent.shape().str(), name_of(output.dtype()),
                                   output.shape().str()));
  }
}

/// Gradients of the sum of <cotangent, output> by parameters, under the file's names, and by floating inputs.
hub::Tensors gradients_of(Tape& tape, const hub::Model& model, const Given& given, const hub::Tensors& outputs) {
  std::vector<Tensor> ys, cotangents, xs = model.module().parameters();
  for (const auto& [name, cotangent] : given.cotangents) {
    ys.push_back(hub::find(outputs, name));
    cotangents.push_back(cotangent);
  }
  const std::size_t parameters = xs.size();
  std::vector<std::string> inputs;
  for (const auto& [name, tensor] : given.inputs)
    if (is_floating(tensor.dtype())) {
      inputs.push_back(name);
      xs.push_back(tensor);
    }
  const std::vector<Tensor> g = tape.gradient(ys, xs, cotangents);
  hub::Tensors named = model.by_file_names({g.begin(), g.begin() + static_cast<std::ptrdiff_t>(parameters)});
  for (std::size_t i = 0; i < inputs.size(); ++i) named.emplace_back("input." + inputs[i], g[parameters + i]);
  return named;
}

using Size = std::pair<std::int64_t, std::int64_t>; // height, width

Size parsed_size(const std::string& text) {
  std::int64_t height = 0, width = 0;
  int used = 0;
  if (std::sscanf(text.c_str(), "%6ldx%6ld%n", &height, &width, &used) != 2 || used != static_cast<int>(text.size()) ||
      height <= 0 || width <= 0)
    throw UsageError(fmt::format("--image-size: '{}' is not HEIGHTxWIDTH in pixels", text));
  return {height, width};
}

/// The inputs that the options name.
Given given_by(const InferOptions& o, DType dtype, const std::optional<Size>& size) {
  if (o.images.empty()) return read_inputs(o.inputs, dtype);
  return {.inputs = {{"pixel_values", pixel_values(o.model, o.images, dtype, size)}}, .cotangents = {}};
}

/// The way out where the model can be made to take images of that size; else nothing.
std::string advice(const std::string& folder, const Size& size) {
  const std::string config = join_path(folder, "config.json");
  if (!hub::can_change_image_size(hub::read_config(folder), size, config)) return {};
  return fmt::format(": --image-size {}x{} makes it take them", size.first, size.second);
}

/// Throws FileError where the folder's steps make images of another size than its model takes.
void require_size(const hub::Model& model, const Given& given, const InferOptions& o) {
  const Tensor wanted = hub::find(model.input_shapes(1), "pixel_values"),
               made = hub::find(given.inputs, "pixel_values");
  if (o.images.empty() || !wanted.defined()) return;
  const Size size = {made.size(2), made.size(3)};
  if (size == Size(wanted.size(2), wanted.size(3))) return;
  throw FileError(fmt::format("{}: makes images of {}x{} pixels, and the model takes {}x{}{}",
                              hub::preprocessing_file(o.model), size.first, size.second, wanted.size(2), wanted.size(3),
                              advice(o.model, size)));
}

/// What a pass refuses is to be sought in the file of inputs, or in the pictures' model.
template <class F> auto naming(const InferOptions& o, F&& pass) {
  const std::string& file = o.images.empty() ? o.inputs : o.model;
  try {
    return pass();
  } catch (const ValueError& e) {
    throw ValueError(fmt::format("{}: {}", file, e.what()));
  } catch (const ShapeError& e) {
    throw ShapeError(fmt::format("{}: {}", file, e.what()));
  } catch (const IndexError& e) {
    throw IndexError(fmt::format("{}: {}", file, e.what()));
  } catch (const DTypeError& e) {
    throw DTypeError(fmt::format("{}: {}", file, e.what()));
  }
}

struct Computed {
  hub::Tensors outputs, gradients;
  std::vector<Classified> images; ///< of pictures that were given, where the model tells classes
  double ms = 0.0;
};

/// The same tensors on a device.
hub::Tensors moved(hub::Tensors tensors, Device device) {
  for (auto& [name, tensor] : tensors) tensor = tensor.to(device);
  return tensors;
}

Computed computed(const hub::Model& model, const Given& given, const InferOptions& o) {
  Computed result;
  const auto start = std::chrono::steady_clock::now();
  if (o.gradients.empty()) {
    result.outputs = naming(o, [&] { return model.forward(given.inputs); });
  } else {
    Tape tape;
    result.outputs = naming(o, [&] { return model.forward(given.inputs); });
    check_cotangents(given, result.outputs, o);
    result.gradients = gradients_of(tape, model, given, result.outputs);
  }
  device::synchronize(model.module().device());
  result.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (const Tensor logits = hub::find(result.outputs, "logits"); !o.images.empty() && logits.defined())
    result.images = classified(model, logits, o.images);
  return result;
}

void print(const hub::LoadedModel& loaded, const Given& given, const Computed& c, const InferOptions& o) {
  const hub::Model& model = *loaded.model;
  if (!loaded.report.unused.empty() || !loaded.report.renamed.empty())
    say(fmt::format("{}: {}\n", o.model, loaded.report.summary()));
  if (o.gradients.empty() && !given.cotangents.empty())
    say(fmt::format("{}: its cotangents are not used without --gradients\n", o.inputs));
  say(fmt::format("{} with {} parameters in {}: {:.1f} ms\n", model.architecture(), model.module().parameter_count(),
                  o.dtype, c.ms));
  for (const auto& [name, tensor] : c.outputs) say(fmt::format("  {} {}\n", name, tensor.shape().str()));
  say(fmt::format("{}", in_words(c.images)));
  if (!o.outputs.empty()) say(fmt::format("outputs: {}\n", o.outputs));
  if (!o.gradients.empty()) say(fmt::format("gradients of {} tensors: {}\n", c.gradients.size(), o.gradients));
}

nlohmann::json as_json(const hub::Model& model, const Computed& c, const InferOptions& o) {
  nlohmann::json result = {{"model", o.model},
                           {"architecture", model.architecture()},
                           {"dtype", o.dtype},
                           {"precision", name_of(matmul_precision())},
                           {"device", model.module().device().str()},
                           {"parameters", model.module().parameter_count()},
                           {"ms", c.ms}};
  for (const auto& [name, tensor] : c.outputs)
    result["outputs"][name] = std::vector<std::int64_t>(tensor.shape().dims().begin(), tensor.shape().dims().end());
  if (!c.images.empty()) result["images"] = as_json(c.images);
  return result;
}

void check(const InferOptions& o, const CommonOptions& common) {
  if (o.inputs.empty() == o.images.empty()) throw UsageError("give either --inputs or --image");
  if (o.outputs.empty() && o.images.empty()) throw UsageError("--outputs is required");
  if (!o.gradients.empty() && !o.images.empty())
    throw UsageError("--gradients needs cotangents, which only --inputs can hold");
  add_model(*common.files, o.model);
  common.files->check();
  for (const std::string& path : {o.outputs, o.gradients}) require_writable(path);
}

int infer(const InferOptions& o, const CommonOptions& common) {
  check(o, common);
  const StopScope stopping;
  const DType dtype = o.dtype == "f64" ? DType::f64 : DType::f32;
  const Device device = requested_device(o.device);
  hub::LoadModelOptions options{.dtype = dtype};
  if (!o.image_size.empty()) options.image_size = parsed_size(o.image_size);
  Given given = given_by(o, dtype, options.image_size);
  const hub::LoadedModel loaded = opened_model(o.model, options);
  require_size(*loaded.model, given, o);
  const MatmulPrecisionScope products(effective_precision(o.precision, o.dtype, device));
  loaded.model->module().to(device);
  given = {.inputs = moved(std::move(given.inputs), device), .cotangents = moved(std::move(given.cotangents), device)};
  const Computed result = computed(*loaded.model, given, o);
  if (!o.outputs.empty()) data::save_safetensors(o.outputs, result.outputs);
  if (!o.gradients.empty()) data::save_safetensors(o.gradients, result.gradients);
  if (common.talks()) print(loaded, given, result, o);
  write_json(common, as_json(*loaded.model, result, o));
  return done;
}

} // namespace

Job declare_infer(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<InferOptions>();
  common.files
      ->input(app.add_option(
          "--model", o->model,
          "Model folder: config.json and model.safetensors or its shards; or a llama2.c checkpoint (.bin)"))
      ->required()
      ->type_name("DIR");
  common.files
      ->input(app.add_option(
          "--inputs", o->inputs,
          "Inputs by their usual names (pixel_values, input_ids, attention_mask, token_type_ids, position_ids); "
          "with --gradients also cotangent.OUTPUT"))
      ->type_name("IN.safetensors");
  common.files
      ->result(app.add_option("--outputs", o->outputs, "Receives last_hidden_state, pooler_output, logits, ..."))
      ->type_name("OUT.safetensors");
  common.files
      ->input(app.add_option("--image", o->images,
                             "PNGs or JPEGs instead of --inputs, by the folder's preprocessor_config.json (of timm: "
                             "pretrained_cfg): one or "
                             "more files"))
      ->type_name("FILE");
  common.files
      ->result(app.add_option(
          "--gradients", o->gradients,
          "Receives the gradient of the sum of <cotangent, output> by every parameter under its own name, and "
          "input.NAME for floating inputs"))
      ->type_name("GRADS.safetensors");
  app.add_option("--dtype", o->dtype, "f32 or f64 (default f32)")->check(one_of({"f32", "f64"}))->type_name("TYPE");
  add_precision(app, o->precision);
  add_device(app, o->device);
  app.add_option(
         "--image-size", o->image_size,
         "Size of the images where it is not the config's: --image files are resized to it; position embeddings are "
         "resampled")
      ->type_name("HEIGHTxWIDTH");
  return [o, &common]() {
    o->model = model_folder(o->model);
    return infer(*o, common);
  };
}

} // namespace eg::cli
