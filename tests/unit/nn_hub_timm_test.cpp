// What is particular to timm: pooling by the mean, pretrained_cfg, names of classes.

#include "nn/hub/timm.h"

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/ops.h"
#include "nn/hub/folder.h"
#include "nn/vit.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>

using namespace eg;
using nlohmann::json;
using test::TemporaryFolder;

namespace {

json mean_config(const json& fc_norm) {
  return {{"architecture", "vit_tiny_patch16_224"},
          {"num_classes", 3},
          {"model_args",
           {{"img_size", 8},
            {"patch_size", 4},
            {"embed_dim", 8},
            {"num_heads", 2},
            {"depth", 2},
            {"class_token", false},
            {"global_pool", "avg"},
            {"fc_norm", fc_norm}}}};
}

std::string refusal(const json& config) {
  try {
    hub::make_model(config, {}, "c");
    hub::timm_preprocessing(config, "c");
  } catch (const FileError& e) {
    return e.what();
  }
  return {};
}

} // namespace

TEST_CASE("timm's mean pooling: the norm before the mean, or with fc_norm behind it; null is behind") {
  const Tensor x = random_normal({2, 3, 8, 8}, {5, 0});
  for (const json& fc_norm : {json(false), json(true), json(nullptr)}) {
    CAPTURE(fc_norm.dump());
    const auto model = hub::make_model(mean_config(fc_norm), {1, 0});
    test::draw_all(model->module(), {1, 1});
    model->module().eval();
    const auto& vit = dynamic_cast<const nn::Vit&>(model->module());
    const Tensor z = vit.encode(vit.embed(x));
    const bool behind = fc_norm != false;
    const Tensor pooled = behind ? vit.norm(mean(z, {1})) : mean(vit.norm(z), {1});
    const Tensor logits = hub::find(model->forward({{"pixel_values", x}}), "logits");
    CHECK(same_bits(logits, (*vit.classifier)(pooled)));
    const auto has = [&](const char* file) {
      return std::any_of(model->bindings().begin(), model->bindings().end(),
                         [&](const hub::Binding& b) { return b.file == file; });
    };
    CHECK(has("fc_norm.weight") == behind);
    CHECK(has("norm.weight") == !behind);
    const TemporaryFolder folder;
    hub::save_model(*model, folder.path());
    CHECK(same_bits(hub::find(hub::load_model(folder.path()).model->forward({{"pixel_values", x}}), "logits"), logits));
  }
}

TEST_CASE("timm's configs: what contradicts itself or is not supported is refused by name") {
  json config = mean_config(false);
  CHECK(refusal(config).empty());
  config["global_pool"] = "token";
  CHECK(refusal(config).find("field 'global_pool' is 'token', the model's arguments say 'avg'") != std::string::npos);
  config = mean_config(false);
  config["model_args"]["class_token"] = true;
  CHECK(refusal(config).find("field 'class_token' is true, which is not supported where global_pool is avg") !=
        std::string::npos);
  config["model_args"]["global_pool"] = "map";
  CHECK(refusal(config).find("field 'global_pool' is 'map'; supported are token, avg") != std::string::npos);
  const auto with = [](const char* field, const json& value) {
    json c = mean_config(false);
    c["pretrained_cfg"] = {{field, value}};
    return refusal(c);
  };
  for (const auto& [field, value] : std::initializer_list<std::pair<const char*, json>>{{"interpolation", "random"},
                                                                                        {"crop_pct", 1.5},
                                                                                        {"crop_pct", 0},
                                                                                        {"crop_mode", "border"},
                                                                                        {"mean", {"x"}},
                                                                                        {"mean", {1e300}},
                                                                                        {"std", {1.0, 0.0, 1.0}}})
    CHECK_MESSAGE(with(field, value).find(std::string("c: pretrained_cfg: field '") + field + "' ") == 0, field, ": ",
                  with(field, value));
}

TEST_CASE("timm's pretrained_cfg as pixels: defaults, scale and crop") {
  json config = mean_config(false);
  const data::Preprocessing usual = hub::timm_preprocessing(config, "c");
  CHECK(usual.resample == data::PillowFilter::bicubic);
  CHECK(usual.shortest_edge == 9); // floor(8 / 0.875)
  CHECK(usual.crop_size == data::ImageSize{8, 8});
  CHECK(usual.mean == std::vector<double>{0.485, 0.456, 0.406});
  config["pretrained_cfg"] = {{"crop_mode", "squash"},
                              {"crop_pct", 0.5},
                              {"interpolation", "bilinear"},
                              {"mean", {0.5, 0.5, 0.5}},
                              {"std", {0.25, 0.5, 1.0}}};
  const data::Preprocessing squashed = hub::timm_preprocessing(config, "c");
  CHECK(!squashed.shortest_edge);
  CHECK(squashed.size == data::ImageSize{16, 16});
  CHECK(squashed.deviation == std::vector<double>{0.25, 0.5, 1.0});
  // torchvision's crop of an odd difference: half of 7 goes to 4, transformers' to 3.
  data::Image image{.height = 8, .width = 15, .channels = 1, .pixels = {}};
  for (int i = 0; i < 120; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i % 15));
  data::Preprocessing crop;
  crop.resize = crop.rescale = crop.normalize = false;
  crop.center_crop = true;
  crop.crop_size = {8, 8};
  CHECK(data::preprocess(image, crop).at({0, 0, 0}) == 3.0);
  crop.crop_to_even = true;
  CHECK(data::preprocess(image, crop).at({0, 0, 0}) == 4.0);
}

TEST_CASE("names of classes: id2label, or label_names in the words of label_descriptions") {
  CHECK(hub::class_names({{"model_type", "vit"}, {"id2label", {{"0", "cat"}}}}) == json{{"0", "cat"}});
  CHECK(hub::class_names(
            {{"architecture", "x"}, {"label_names", {"n1", "n2"}}, {"label_descriptions", {{"n2", "dog"}}}}) ==
        json{{"0", "n1"}, {"1", "dog"}});
  CHECK(hub::class_names({{"architecture", "x"}}).is_null());
  CHECK(hub::image_channels({{"model_type", "vit"}, {"num_channels", 1}}) == 1);
  CHECK(hub::image_channels({{"architecture", "x"}, {"model_args", {{"in_chans", 1}}}}) == 1);
}

TEST_CASE("a ViT with mean pooling as a config of timm: its MLP comes back whole, and what timm lacks has none") {
  nn::VitConfig c;
  c.pooling = nn::Pooling::mean;
  c.encoder.dim = 48;
  c.encoder.heads = 3;
  for (c.encoder.mlp = 1; c.encoder.mlp < 400; ++c.encoder.mlp) {
    const auto config = hub::timm_config(c, {"a", "b"}, {0.5}, {0.5});
    REQUIRE(config);
    const double ratio = (*config)["model_args"]["mlp_ratio"];
    CHECK(static_cast<std::int64_t>(48.0 * ratio) == c.encoder.mlp);
  }
  const auto none = [&](auto&& change) {
    nn::VitConfig other = c;
    change(other);
    return !hub::timm_config(other, {"a", "b"}, {0.5}, {0.5});
  };
  CHECK(none([](nn::VitConfig& o) { o.pooling = nn::Pooling::cls; }));
  CHECK(none([](nn::VitConfig& o) { o.position = nn::PositionEmbedding::sinusoidal; }));
  CHECK(none([](nn::VitConfig& o) { o.encoder.pre_norm = false; }));
  CHECK(none([](nn::VitConfig& o) { o.encoder.activation = nn::Activation::relu; }));
  CHECK(none([](nn::VitConfig& o) { o.encoder.norm_eps = 1e-5; }));
}
