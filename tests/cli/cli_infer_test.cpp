// equigrad infer, as a person calls it.

#include "program.h"

#include "autograd/tape.h"
#include "core/base/json.h"
#include "core/ops.h"
#include "data/encode.h"
#include "data/image.h"
#include "data/preprocess.h"
#include "data/safetensors.h"
#include "nn/hub/folder.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace eg;
using nlohmann::json;
using test::Outcome;
using test::run_program;
using test::TemporaryFolder;

namespace {

/// A folder with a model and its inputs, and calls of infer in it.
class Scene {
public:
  Scene() {
    model_ = hub::make_model({{"model_type", "vit"},
                              {"architectures", {"ViTModel"}},
                              {"hidden_size", 12},
                              {"num_hidden_layers", 2},
                              {"num_attention_heads", 3},
                              {"intermediate_size", 10},
                              {"image_size", {8, 12}},
                              {"patch_size", 4}},
                             {1, 0});
    hub::save_model(*model_, folder.path("model"));
    write("in.safetensors", inputs());
  }

  static hub::Tensors inputs() {
    return {{"pixel_values", random_normal({2, 3, 8, 12}, {2, 0})},
            {"cotangent.pooler_output", random_normal({2, 12}, {3, 0})}};
  }
  void write(const std::string& name, const hub::Tensors& tensors) const {
    data::save_safetensors(folder.path(name), tensors);
  }
  data::TensorFile read(const std::string& name) const { return data::load_safetensors(folder.path(name)); }

  Outcome infer(std::vector<std::string> more, const std::string& in = "in.safetensors") const {
    std::vector<std::string> args = {"infer", "--model", "model", "--inputs", in};
    args.insert(args.end(), more.begin(), more.end());
    return run_program(args, folder.path());
  }
  void refused(const Outcome& outcome, const char* words) const {
    CHECK(outcome.code == 2);
    CHECK(outcome.err.find(words) != std::string::npos);
    CHECK_MESSAGE(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1, outcome.err);
  }

  TemporaryFolder folder;

private:
  std::unique_ptr<hub::Model> model_;
};

} // namespace

TEST_CASE("infer writes outputs and the gradients of every parameter and of the images") {
  const Scene scene;
  for (const char* dtype : {"f32", "f64"}) {
    const Outcome outcome = scene.infer({"--outputs", "out.safetensors", "--gradients", "grads.safetensors", "--dtype",
                                         dtype, "--json", "result.json", "--threads", "2"});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    const DType type = std::string(dtype) == "f64" ? DType::f64 : DType::f32;
    const auto loaded = hub::load_model(scene.folder.path("model"), {.dtype = type});
    const hub::Tensors given = Scene::inputs();
    const Tensor pixels = given[0].second.to(type);
    Tape tape;
    const hub::Tensors wanted = loaded.model->forward({{"pixel_values", pixels}});
    std::vector<Tensor> xs = loaded.model->module().parameters();
    xs.push_back(pixels);
    std::vector<Tensor> g = tape.gradient(hub::find(wanted, "pooler_output"), xs, given[1].second.to(type));
    const data::TensorFile out = scene.read("out.safetensors"), grads = scene.read("grads.safetensors");
    for (const auto& [name, tensor] : wanted) CHECK(same_bits(*out.find(name), tensor));
    CHECK(same_bits(*grads.find("input.pixel_values"), g.back()));
    g.pop_back();
    const hub::Tensors named = loaded.model->by_file_names(g);
    CHECK(grads.tensors.size() == named.size() + 1);
    for (const auto& entry : named) CHECK_MESSAGE(same_bits(*grads.find(entry.first), entry.second), entry.first);
    const json result = read_json(scene.folder.path("result.json"));
    CHECK(result["outputs"]["last_hidden_state"] == json::array({2, 7, 12}));
    CHECK(result["parameters"] == loaded.model->module().parameter_count());
  }
}

TEST_CASE("images of another size") {
  const Scene scene;
  scene.write("wide.safetensors", {{"pixel_values", Tensor::ones({1, 3, 16, 16})}});
  scene.refused(scene.infer({"--outputs", "o.safetensors"}, "wide.safetensors"),
                "vit: images must be [batch, 3, 8, 12], not [1, 3, 16, 16]");
  CHECK(scene.infer({"--outputs", "o.safetensors", "--image-size", "16x16"}, "wide.safetensors").code == 0);
  CHECK(scene.read("o.safetensors").find("last_hidden_state")->shape() == Shape{1, 17, 12});
  scene.refused(scene.infer({"--outputs", "o.safetensors", "--image-size", "16"}),
                "--image-size: '16' is not HEIGHTxWIDTH");
}

TEST_CASE("pictures instead of tensors: by the folder's preprocessor, and what inspect says of the folder") {
  const TemporaryFolder folder;
  json config = {{"model_type", "vit"},
                 {"architectures", {"ViTForImageClassification"}},
                 {"hidden_size", 12},
                 {"num_hidden_layers", 1},
                 {"num_attention_heads", 3},
                 {"intermediate_size", 10},
                 {"image_size", 8},
                 {"patch_size", 4},
                 {"id2label", {{"0", "cat"}, {"1", "dog"}, {"2", "newt"}}}};
  hub::save_model(*hub::make_model(config, {1, 0}), folder.path("model"));
  write_json(folder.path("model/preprocessor_config.json"),
             json{{"image_processor_type", "ViTImageProcessor"}, {"size", {{"height", 8}, {"width", 8}}}});
  data::Image image{.height = 6, .width = 5, .channels = 3, .pixels = {}};
  for (int i = 0; i < 90; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * 37));
  write_file(folder.path("a.png"), data::encode_png(image));
  const Outcome outcome =
      run_program({"infer", "--model", "model", "--image", "a.png", "--image", "a.png", "--outputs", "o.safetensors"},
                  folder.path());
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(outcome.out.find("a.png: ") != std::string::npos);
  CHECK(outcome.out.find("newt") != std::string::npos);
  const Tensor pixels =
      data::preprocess(image, data::read_preprocessing(folder.path("model/preprocessor_config.json")));
  const auto loaded = hub::load_model(folder.path("model"));
  const Tensor wanted = loaded.model->forward({{"pixel_values", stack({pixels, pixels}, 0)}})[0].second;
  CHECK(same_bits(*data::load_safetensors(folder.path("o.safetensors")).find("logits"), wanted));
  const Outcome many = run_program(
      {"infer", "--model", "model/config.json", "--image", "a.png", "a.png", "--json", "-", "--threads", "1"},
      folder.path());
  REQUIRE_MESSAGE(many.code == 0, many.err);
  const json images = json::parse(many.out)["images"];
  const std::vector<double> p = softmax(wanted.to(DType::f64), -1).to_vector<double>();
  REQUIRE(images.size() == 2);
  CHECK(images[1]["file"] == "a.png");
  REQUIRE(images[1]["classes"].size() == 3);
  for (const json& c : images[1]["classes"]) {
    const auto id = c["id"].get<std::size_t>();
    CHECK(c["label"] == config["id2label"][std::to_string(id)]);
    CHECK(c["p"].get<double>() == doctest::Approx(p[3 + id]));
  }
  CHECK(images[1]["classes"][0]["p"] >= images[1]["classes"][1]["p"]);
  const Outcome both = run_program({"infer", "--model", "model", "--image", "a.png", "--inputs", "x"}, folder.path());
  CHECK(both.err.find("give either --inputs or --image") != std::string::npos);
  CHECK(run_program({"infer", "--model", "model", "--image", "none.png"}, folder.path()).err.find("none.png") !=
        std::string::npos);
  CHECK(run_program({"inspect", "model"}, folder.path()).out.find("equigrad infer reads it: every tensor found") !=
        std::string::npos);
}

TEST_CASE("--image-size goes before the preprocessor's size and crop") {
  const TemporaryFolder folder;
  const json config = {
      {"model_type", "deit"},     {"architectures", {"DeiTModel"}}, {"hidden_size", 12}, {"num_hidden_layers", 1},
      {"num_attention_heads", 3}, {"intermediate_size", 10},        {"image_size", 8},   {"patch_size", 4}};
  hub::save_model(*hub::make_model(config, {1, 0}), folder.path("model"));
  write_json(folder.path("model/preprocessor_config.json"),
             json{{"image_processor_type", "DeiTImageProcessor"}, {"size", 10}, {"crop_size", 8}});
  data::Image image{.height = 20, .width = 30, .channels = 3, .pixels = std::vector<std::uint8_t>(1800)};
  for (std::size_t i = 0; i < 1800; ++i) image.pixels[i] = static_cast<std::uint8_t>(i * 37);
  write_file(folder.path("a.png"), data::encode_png(image));
  const Outcome outcome = run_program(
      {"infer", "--model", "model", "--image", "a.png", "--image-size", "16x12", "--outputs", "o.safetensors"},
      folder.path());
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  data::Preprocessing steps = data::read_preprocessing(folder.path("model/preprocessor_config.json"));
  steps.size = {16, 12};
  steps.center_crop = false;
  const auto loaded =
      hub::load_model(folder.path("model"), {.image_size = std::pair<std::int64_t, std::int64_t>{16, 12}});
  const Tensor wanted = loaded.model->forward({{"pixel_values", stack({data::preprocess(image, steps)}, 0)}})[0].second;
  CHECK(same_bits(*data::load_safetensors(folder.path("o.safetensors")).find("last_hidden_state"), wanted));
}

TEST_CASE("what is wrong is said in one line, and nothing is written") {
  const Scene scene;
  const std::vector<std::string> out = {"--outputs", "o.safetensors", "--gradients", "g.safetensors"};
  scene.write("bad.safetensors", {{"pixel_valus", Tensor::ones({1, 3, 8, 12})}});
  scene.refused(scene.infer(out, "bad.safetensors"), "did you mean pixel_values?");
  scene.write("bad.safetensors", {{"pixel_values", Tensor::ones({1, 3, 8, 12})}});
  scene.refused(scene.infer(out, "bad.safetensors"), "--gradients needs a tensor cotangent.OUTPUT");
  scene.write("bad.safetensors",
              {{"pixel_values", Tensor::ones({1, 3, 8, 12})}, {"cotangent.pooler", Tensor::ones({1, 12})}});
  scene.refused(scene.infer(out, "bad.safetensors"), "cotangent.pooler: the model has no output pooler");
  scene.write("bad.safetensors",
              {{"pixel_values", Tensor::ones({1, 3, 8, 12})}, {"cotangent.pooler_output", Tensor::ones({12})}});
  scene.refused(scene.infer(out, "bad.safetensors"), "cotangent.pooler_output is f32 [12], the output is f32 [1, 12]");
  scene.refused(scene.infer(out, "none.safetensors"), "none.safetensors");
  scene.refused(scene.infer({"--outputs", "no/folder/o.safetensors"}), "no/folder/o.safetensors: cannot be written");
  scene.refused(run_program({"infer", "--model", "nowhere", "--inputs", "in.safetensors", "--outputs", "o.safetensors"},
                            scene.folder.path()),
                "nowhere/config.json");
  for (const std::string& name : scene.folder.names()) CHECK(name != "o.safetensors");
}
