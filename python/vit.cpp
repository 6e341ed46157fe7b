// The vision transformer.

#include "nn/vit.h"

#include "config.h"
#include "modules.h"
#include "traces.h"

namespace eg::python {

namespace {

void bind_config(nb::module_& m) {
  using C = nn::VitConfig;
  Config<C>(m, "VitConfig", "A vision transformer's sizes.")
      .field("image", &C::image, "height, pixels")
      .field("image_width", &C::image_width, "pixels; 0: as high as wide")
      .field("channels", &C::channels, "colours")
      .field("patch", &C::patch, "side of a patch, pixels")
      .field("classes", &C::classes, "number of classes; 0: no classifier")
      .field("layers", &C::layers, "number of blocks")
      .field("encoder", &C::encoder, "the blocks' sizes")
      .field("embedding_dropout", &C::embedding_dropout, "of the tokens that enter the encoder")
      .word(
          "pooling", &C::pooling, nn::pooling_named, [](nn::Pooling p) { return nn::name_of(p); }, "cls or mean")
      .word(
          "position", &C::position, nn::position_embedding_named,
          [](nn::PositionEmbedding p) { return nn::name_of(p); }, "learned, sinusoidal or none")
      .field("distillation", &C::distillation, "DeiT: a second token after the class token")
      .field("distillation_head", &C::distillation_head, "with a classifier of its own")
      .field("pooler", &C::pooler, "width of a pooler on the class token; 0: none")
      .word(
          "pooler_activation", &C::pooler_activation, nn::activation_named,
          [](nn::Activation a) { return nn::name_of(a); }, "its activation")
      .done()
      .def_prop_ro("patches", &C::patches, "Patches of one image.")
      .def_prop_ro("tokens", &C::tokens, "Tokens that pass through the encoder.");
}

void bind_parts(nb::class_<nn::Vit, nn::Module>& cls) {
  cls.def_ro("config", &nn::Vit::config)
      .def_ro("patch_embedding", &nn::Vit::patch_embedding)
      .def_ro("norm", &nn::Vit::norm)
      .def_prop_ro(
          "blocks", [](nb::handle self) { return children(self, nb::cast<nn::Vit&>(self).blocks); },
          nb::sig("def blocks(self) -> tuple[Block, ...]"));
  optional_child(cls, "classifier", &nn::Vit::classifier, "Linear");
  optional_child(cls, "distillation_classifier", &nn::Vit::distillation_classifier, "Linear");
  optional_child(cls, "pooler", &nn::Vit::pooler, "Linear");
  tensor_attribute(cls, "cls_token", &nn::Vit::cls_token, Missing::sometimes, "[1, 1, dim]; None for mean pooling.");
  tensor_attribute(cls, "position_embedding", &nn::Vit::position_embedding, Missing::sometimes,
                   "[1, T, dim]; None for none.");
  tensor_attribute(cls, "distillation_token", &nn::Vit::distillation_token, Missing::sometimes,
                   "[1, 1, dim]; None without one.");
}

} // namespace

void bind_vit(nb::module_& parent) {
  nb::module_ m = nb::borrow<nb::module_>(parent.attr("nn"));
  bind_config(m);
  nb::class_<nn::PatchEmbedding, nn::Linear> patches(m, "PatchEmbedding", "Images cut into patches, each projected.");
  patches
      .def(nb::init<std::int64_t, std::int64_t, std::int64_t, DefaultKey>(), "channels"_a, "patch"_a, "dim"_a,
           "key"_a = nb::none())
      .def(
          "__call__",
          [](const nn::PatchEmbedding& self, const Tensor& images) { return released([&] { return self(images); }); },
          "images"_a, "[B, C, H, W] -> [B, (H/p)(W/p), dim]")
      .def_ro("patch", &nn::PatchEmbedding::patch);
  made_from<nn::PatchEmbedding>(patches, [](const nn::PatchEmbedding& self) {
    return arguments("channels", self.weight.size(1) / (self.patch * self.patch), "patch", self.patch, "dim",
                     self.weight.size(0), "key", 0);
  });
  nb::class_<nn::Vit, nn::Module> cls(m, "Vit", "Vision transformer: embed, encode, head.");
  made_from_config<nn::Vit>(cls);
  cls.def(nb::init<const nn::VitConfig&, DefaultKey>(), "config"_a, "key"_a = nb::none())
      .def(
          "__call__",
          [](const nn::Vit& self, const Tensor& images, CallKey key) {
            return released([&, drawn = key.of(self)] { return self(images, drawn); });
          },
          "images"_a, "dropout_key"_a = nb::none(), "images [B, C, H, W] -> logits [B, classes]")
      .def(
          "embed",
          [](const nn::Vit& self, const Tensor& images, CallKey key) {
            return released([&, drawn = key.of(self)] { return self.embed(images, drawn); });
          },
          "images"_a, "key"_a = nb::none(), "[B, C, H, W] -> Z [B, T, dim]")
      .def(
          "encode",
          [](const nn::Vit& self, const Tensor& z, CallKey key) {
            return released([&, drawn = key.of(self)] { return self.encode(z, drawn); });
          },
          "z"_a, "key"_a = nb::none(), "Z -> [B, T, dim], all blocks")
      .def(
          "head", [](const nn::Vit& self, const Tensor& z) { return released([&] { return self.head(z); }); }, "z"_a,
          "Final norm, pooling, linear -> [B, classes]")
      .def(
          "pool", [](const nn::Vit& self, const Tensor& z) { return released([&] { return self.pool(z); }); }, "z"_a,
          "The pooler of the normed class token, [B, pooler].")
      .def(
          "heads",
          [](const nn::Vit& self, const Tensor& z) {
            const auto both = released([&] { return self.heads(z); });
            return std::make_pair(both.classes, both.distillation);
          },
          "z"_a, "Logits of the class token's and the distillation token's classifier, [B, classes] each.")
      .def(
          "trace",
          [](const nn::Vit& self, const Tensor& images) {
            nb::list layers;
            const auto traces = released([&] { return self.trace(images); });
            for (std::size_t i = 0; i < traces.size(); ++i)
              layers.append(dict_of(traces[i], self.blocks[i]->attention.scale()));
            return layers;
          },
          "images"_a, "What every block's attention computed: q, k, v, logits, attention, a, output.",
          nb::sig("def trace(self, images: equigrad._core.Tensor) -> list[dict[str, equigrad._core.Tensor]]"));
  bind_parts(cls);
  m.def(
      "sinusoidal_positions",
      [](std::int64_t tokens, std::int64_t dim, nb::handle dtype) {
        return nn::sinusoidal_positions(tokens, dim, dtype_from(dtype).value_or(DType::f32));
      },
      "tokens"_a, "dim"_a, "dtype"_a = "f32", "[tokens, dim] of sines and cosines.",
      nb::sig("def sinusoidal_positions(tokens: int, dim: int, dtype: str = 'f32') -> equigrad._core.Tensor"));
}

} // namespace eg::python
