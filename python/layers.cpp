// The layers of nn.

#include "nn/layers.h"
#include "nn/conv.h"
#include "nn/norms.h"

#include "modules.h"

namespace eg::python {

nn::NormKind norm_kind_named(std::string_view name);

namespace {

using MaybeTensor = std::optional<Tensor>;

void bind_linear(nb::module_& m) {
  nb::class_<nn::Linear, nn::Module> cls(m, "Linear", "x W^T + b: weight [out, in], bias [out].");
  cls.def(nb::init<std::int64_t, std::int64_t, DefaultKey, bool>(), "in_features"_a, "out_features"_a,
          "key"_a = nb::none(), "bias"_a = true)
      .def(
          "__call__",
          [](const nn::Linear& self, const Tensor& x, const MaybeTensor& addend) {
            return released([&] { return self(x, or_undefined(addend)); });
          },
          "x"_a, nb::kw_only(), "addend"_a = nb::none(), "x [..., in] -> [..., out]; addend [..., out] is added.");
  tensor_attribute(cls, "weight", &nn::Linear::weight);
  tensor_attribute(cls, "bias", &nn::Linear::bias, Missing::sometimes);
  made_from<nn::Linear>(cls, [](const nn::Linear& self) {
    return arguments("in_features", self.weight.size(1), "out_features", self.weight.size(0), "key", 0, "bias",
                     self.bias.defined());
  });
}

/// A class whose only call takes x.
template <class Layer, class Cls> void call_with_x(Cls& cls, const char* doc) {
  cls.def(
      "__call__", [](Layer& self, const Tensor& x) { return released([&] { return self(x); }); }, "x"_a, doc);
}

/// One whose call takes x and the key of what it draws.
template <class Layer, class Cls> void call_with_key(Cls& cls, const char* doc) {
  cls.def(
      "__call__",
      [](const Layer& self, const Tensor& x, CallKey key) {
        return released([&, drawn = key.of(self)] { return self(x, drawn); });
      },
      "x"_a, "key"_a = nb::none(), doc);
}

void bind_norms(nb::module_& m) {
  nb::class_<nn::LayerNorm, nn::Module> layer(m, "LayerNorm",
                                              "(x - mean) / sqrt(var + eps) * weight + bias over the last axis.");
  layer.def(nb::init<std::int64_t, double>(), "dim"_a, "eps"_a = 1e-5).def_ro("eps", &nn::LayerNorm::eps);
  call_with_x<nn::LayerNorm>(layer, "x [..., dim] -> [..., dim]");
  tensor_attribute(layer, "weight", &nn::LayerNorm::weight);
  tensor_attribute(layer, "bias", &nn::LayerNorm::bias);
  made_from<nn::LayerNorm>(
      layer, [](const nn::LayerNorm& self) { return arguments("dim", self.weight.size(0), "eps", self.eps); });

  nb::class_<nn::RmsNorm, nn::Module> rms(m, "RmsNorm", "x / sqrt(mean(x^2) + eps) * weight over the last axis.");
  rms.def(nb::init<std::int64_t, double>(), "dim"_a, "eps"_a = 1e-6).def_ro("eps", &nn::RmsNorm::eps);
  call_with_x<nn::RmsNorm>(rms, "x [..., dim] -> [..., dim]");
  tensor_attribute(rms, "weight", &nn::RmsNorm::weight);
  made_from<nn::RmsNorm>(
      rms, [](const nn::RmsNorm& self) { return arguments("dim", self.weight.size(0), "eps", self.eps); });

  nb::class_<nn::Norm, nn::Module> norm(m, "Norm", "A block's norm: LayerNorm or RmsNorm by its kind.");
  const auto kind_of = [](const nn::Norm& self) { return self.kind == nn::NormKind::rms ? "rms" : "layer"; };
  norm.def(
          "__init__",
          [](nn::Norm* self, const std::string& kind, std::int64_t dim, double eps) {
            new (self) nn::Norm(norm_kind_named(kind), dim, eps);
          },
          "kind"_a, "dim"_a, "eps"_a)
      .def_ro("eps", &nn::Norm::eps)
      .def_prop_ro("kind", kind_of);
  made_from<nn::Norm>(norm, [kind_of](const nn::Norm& self) {
    return arguments("kind", kind_of(self), "dim", self.weight.size(0), "eps", self.eps);
  });
  call_with_x<nn::Norm>(norm, "x [..., dim] -> [..., dim]");
  tensor_attribute(norm, "weight", &nn::Norm::weight);
  tensor_attribute(norm, "bias", &nn::Norm::bias, Missing::sometimes, "None for rms.");

  nb::class_<nn::BatchNorm, nn::Module> batch(m, "BatchNorm",
                                              "Normalisation of each channel of x [N, C, ...] over the batch, with "
                                              "running statistics for evaluation.");
  batch.def(nb::init<std::int64_t, double, double>(), "channels"_a, "eps"_a = 1e-5, "momentum"_a = 0.1)
      .def_ro("eps", &nn::BatchNorm::eps)
      .def_ro("momentum", &nn::BatchNorm::momentum);
  call_with_x<nn::BatchNorm>(batch, "x [N, C] or [N, C, ...], the same shape comes out");
  tensor_attribute(batch, "weight", &nn::BatchNorm::weight);
  tensor_attribute(batch, "bias", &nn::BatchNorm::bias);
  tensor_attribute(batch, "running_mean", &nn::BatchNorm::running_mean);
  tensor_attribute(batch, "running_var", &nn::BatchNorm::running_var);
  made_from<nn::BatchNorm>(batch, [](const nn::BatchNorm& self) {
    return arguments("channels", self.weight.size(0), "eps", self.eps, "momentum", self.momentum);
  });

  nb::class_<nn::GroupNorm, nn::Module> group(m, "GroupNorm",
                                              "Normalisation over the channels of a group and all places of a sample.");
  group.def(nb::init<std::int64_t, std::int64_t, double>(), "groups"_a, "channels"_a, "eps"_a = 1e-5)
      .def_ro("groups", &nn::GroupNorm::groups)
      .def_ro("eps", &nn::GroupNorm::eps);
  call_with_x<nn::GroupNorm>(group, "x [N, C, ...], the same shape comes out");
  tensor_attribute(group, "weight", &nn::GroupNorm::weight);
  tensor_attribute(group, "bias", &nn::GroupNorm::bias);
  made_from<nn::GroupNorm>(group, [](const nn::GroupNorm& self) {
    return arguments("groups", self.groups, "channels", self.weight.size(0), "eps", self.eps);
  });
}

void bind_small_layers(nb::module_& m) {
  nb::class_<nn::Embedding, nn::Module> embedding(m, "Embedding", "Rows of weight [count, dim] by ids.");
  embedding
      .def(nb::init<std::int64_t, std::int64_t, DefaultKey, std::int64_t>(), "count"_a, "dim"_a, nb::kw_only(),
           "key"_a = nb::none(), "padding"_a = -1, "padding: an id whose row stays zero; -1: none.")
      .def(
          "__call__", [](const nn::Embedding& self, const Tensor& ids) { return released([&] { return self(ids); }); },
          "ids"_a, "ids [...] i64 -> [..., dim]");
  tensor_attribute(embedding, "weight", &nn::Embedding::weight);
  made_from<nn::Embedding>(embedding, [](const nn::Embedding& self) {
    return arguments("count", self.weight.size(0), "dim", self.weight.size(1), "key", 0, "padding", self.padding);
  });

  nb::class_<nn::Dropout, nn::Module> dropout(m, "Dropout", "Elements are zero with probability p in training.");
  dropout.def(nb::init<double>(), "p"_a).def_ro("p", &nn::Dropout::p);
  call_with_key<nn::Dropout>(dropout, "The mask depends on `key` alone.");
  made_from<nn::Dropout>(dropout, [](const nn::Dropout& self) { return arguments("p", self.p); });

  nb::class_<nn::DropPath, nn::Module> path(m, "DropPath", "Whole samples are dropped with probability p in training.");
  path.def(nb::init<double>(), "p"_a).def_ro("p", &nn::DropPath::p);
  call_with_key<nn::DropPath>(path, "Which samples: by `key` alone.");
  made_from<nn::DropPath>(path, [](const nn::DropPath& self) { return arguments("p", self.p); });
}

Conv2dOptions conv_options(nb::handle stride, nb::handle padding, nb::handle dilation, std::int64_t groups) {
  const auto pair = [](nb::handle value, const char* name) {
    const auto given = attribute_from(value, AttrKind::integers);
    const std::string hint =
        nb::isinstance<nb::str>(value) ? ": an odd kernel k keeps rows and columns with k // 2" : "";
    if (!given) refuse_type(fmt::format("Conv2d: {}", name), "a number, or two, of rows and columns" + hint, value);
    const Shape sizes(std::get<std::vector<std::int64_t>>(*given));
    if (sizes.rank() != 1 && sizes.rank() != 2)
      throw ValueError(fmt::format("Conv2d: {}: give one number, or rows and columns", name));
    return Size2(sizes[0], sizes[-1]);
  };
  return {.stride = pair(stride, "stride"),
          .padding = pair(padding, "padding"),
          .dilation = pair(dilation, "dilation"),
          .groups = groups};
}

void bind_conv(nb::module_& m) {
  nb::class_<nn::Conv2d, nn::Module> cls(m, "Conv2d", "weight [out, in / groups, kh, kw], bias [out].");
  cls.def(
      "__init__",
      [](nn::Conv2d* self, std::int64_t in, std::int64_t out, nb::handle kernel, DefaultKey key, nb::handle stride,
         nb::handle padding, nb::handle dilation, std::int64_t groups, bool bias) {
        const Shape size = shape_from(kernel);
        new (self)
            nn::Conv2d(in, out, Size2(size[0], size[-1]), key, conv_options(stride, padding, dilation, groups), bias);
      },
      "in_channels"_a, "out_channels"_a, "kernel"_a, nb::kw_only(), "key"_a = nb::none(), "stride"_a = 1,
      "padding"_a = 0, "dilation"_a = 1, "groups"_a = 1, "bias"_a = true,
      nb::sig("def __init__(self, in_channels: int, out_channels: int, kernel: int | tuple[int, int], *, key: "
              "equigrad._core.random.Key | int | None = None, stride: int | tuple[int, int] = 1, padding: int | "
              "tuple[int, int] = "
              "0, dilation: int | tuple[int, int] = 1, groups: int = 1, bias: bool = True) -> None"));
  call_with_x<nn::Conv2d>(cls, "x [N, in, H, W] -> [N, out, rows, columns]");
  tensor_attribute(cls, "weight", &nn::Conv2d::weight);
  tensor_attribute(cls, "bias", &nn::Conv2d::bias, Missing::sometimes);
  made_from<nn::Conv2d>(cls, [](const nn::Conv2d& self) {
    const auto pair = [](Size2 size) { return std::pair(size.rows, size.columns); };
    const Conv2dOptions& o = self.options;
    return arguments("in_channels", self.weight.size(1) * o.groups, "out_channels", self.weight.size(0), "kernel",
                     std::pair(self.weight.size(2), self.weight.size(3)), "key", 0, "stride", pair(o.stride), "padding",
                     pair(o.padding), "dilation", pair(o.dilation), "groups", o.groups, "bias", self.bias.defined());
  });
}

void bind_mlp(nb::module_& m) {
  nb::class_<nn::Mlp, nn::Module> cls(m, "Mlp", "fc2(activation(fc1(x))); gated: fc2(activation(gate) up).");
  cls.def(
         "__init__",
         [](nn::Mlp* self, std::int64_t dim, std::int64_t hidden, const std::string& activation, DefaultKey key,
            bool bias,
            bool gated) { new (self) nn::Mlp(dim, hidden, nn::activation_named(activation), key, bias, gated); },
         "dim"_a, "hidden"_a, "activation"_a = "gelu", "key"_a = nb::none(), "bias"_a = true, "gated"_a = false)
      .def(
          "__call__",
          [](const nn::Mlp& self, const Tensor& x, const MaybeTensor& addend) {
            return released([&] { return self(x, or_undefined(addend)); });
          },
          "x"_a, nb::kw_only(), "addend"_a = nb::none(), "x [..., dim] -> [..., dim]")
      .def_ro("fc1", &nn::Mlp::fc1)
      .def_ro("fc2", &nn::Mlp::fc2);
  made_from<nn::Mlp>(cls, [](const nn::Mlp& self) {
    return arguments("dim", self.fc2.weight.size(0), "hidden", self.fc2.weight.size(1), "activation",
                     std::string(nn::name_of(self.activation)), "key", 0, "bias", self.fc1.bias.defined(), "gated",
                     self.gated);
  });
}

} // namespace

void bind_layers(nb::module_& parent) {
  nb::module_ m = nb::borrow<nb::module_>(parent.attr("nn"));
  bind_linear(m);
  bind_norms(m);
  bind_small_layers(m);
  bind_conv(m);
  bind_mlp(m);
  m.def(
      "activate",
      [](const Tensor& x, const std::string& name) {
        return released([&, activation = nn::activation_named(name)] { return nn::activate(x, activation); });
      },
      "x"_a, "activation"_a, "gelu, relu, silu, ... of x.");
}

} // namespace eg::python
