// Permutations, and how they move the weights of a model.

#include "permute/axes.h"
#include "permute/blocks_key.h"
#include "permute/key.h"
#include "permute/permutation.h"
#include "permute/permutation_file.h"
#include "permute/recovery/assignment.h"

#include "modules.h"
#include "path.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/map.h>

namespace eg::python {

void bind_symmetries(nb::module_& m);

namespace {

using permute::AxisMap;
using permute::ParameterAxes;
using permute::Permutation;
using permute::PermutationSet;

PermutationSet set_from(const nb::dict& dict) {
  PermutationSet set;
  for (const auto [key, value] : dict) {
    const std::string name = text_from(key, "permutations: a name");
    set.emplace(name, instance_of<Permutation>(value, fmt::format("permutations: '{}'", name), "a Permutation"));
  }
  return set;
}

nb::dict dict_of(const PermutationSet& set) {
  nb::dict dict;
  for (const auto& [name, permutation] : set) dict[name.c_str()] = permutation;
  return dict;
}

void bind_permutation(nb::module_& m) {
  nb::class_<Permutation>(m, "Permutation", "A permutation p used as a gather: y[i] = x[p[i]] along an axis.")
      .def(
          "__init__",
          [](Permutation* self, nb::handle gather) {
            const auto list = attribute_from(gather, AttrKind::integers);
            if (!list) throw nb::type_error("Permutation: give a sequence of integers");
            new (self) Permutation(std::get<std::vector<std::int64_t>>(*list));
          },
          "gather"_a, nb::sig("def __init__(self, gather: collections.abc.Sequence[int]) -> None"))
      .def_static("identity", &Permutation::identity, "size"_a)
      .def_static("random", &Permutation::random, "size"_a, "key"_a, "Uniform; not secret.")
      .def_static("random_nonidentity", &Permutation::random_nonidentity, "size"_a, "key"_a,
                  "Uniform among all but the identity; size >= 2.")
      .def("__len__", &Permutation::size)
      .def("__getitem__",
           [](const Permutation& p, std::int64_t i) {
             if (i < 0 || i >= p.size()) throw nb::index_error();
             return p[i];
           })
      .def_prop_ro("gather", &Permutation::gather, "p as a list.")
      .def("is_identity", &Permutation::is_identity)
      .def("inverse", &Permutation::inverse)
      .def("then", &Permutation::then, "next"_a, "Gathering with the result is gathering with self, then with next.")
      .def("tensor", &Permutation::tensor, "The indices, i64 [size], for ops.permute_rows and ops.permute_columns.")
      .def("apply", &Permutation::apply, "x"_a, "axis"_a, "x gathered along one axis.")
      .def(
          "rows", [](const Permutation& p, const Tensor& x) { return p.apply(x, -2); }, "x"_a,
          "P_R X: [..., rows, columns].")
      .def(
          "columns", [](const Permutation& p, const Tensor& x) { return p.apply(x, -1); }, "x"_a,
          "X P_C: [..., columns].")
      .def("__eq__",
           [](const Permutation& p, nb::handle other) {
             return nb::isinstance<Permutation>(other) && p == nb::cast<const Permutation&>(other);
           })
      .def("__reduce__",
           [](const Permutation& p) { return nb::make_tuple(nb::type<Permutation>(), nb::make_tuple(p.gather())); })
      .def("__repr__", [](const Permutation& p) { return fmt::format("<permutation of {}>", p.size()); });
  m.def("from_paper001", &permute::from_paper001, "p"_a, "A permutation as paper 001 writes it: its inverse.");
}

void bind_axes(nb::module_& m) {
  nb::class_<ParameterAxes>(m, "ParameterAxes", "The permutation group of each axis of one parameter, '' for none.")
      .def(
          "__init__",
          [](ParameterAxes* self, const std::string& parameter, const std::vector<std::string>& groups) {
            new (self) ParameterAxes{parameter, groups};
          },
          "parameter"_a, "groups"_a)
      .def_ro("parameter", &ParameterAxes::parameter)
      .def_ro("groups", &ParameterAxes::groups)
      .def("__repr__", [](const ParameterAxes& axes) {
        return fmt::format("<{}: [{}]>", axes.parameter, fmt::join(axes.groups, ", "));
      });
  const char* const sig = "def transform(tensors: collections.abc.Mapping[str, equigrad._core.Tensor], axes: "
                          "collections.abc.Sequence[ParameterAxes], permutations: collections.abc.Mapping[str, "
                          "Permutation]) -> dict[str, equigrad._core.Tensor]";
  m.def(
      "transform",
      [](const nb::dict& tensors, const AxisMap& axes, const nb::dict& permutations) {
        return python::dict_of(
            permute::transform(named_tensors_from(tensors, "transform"), axes, set_from(permutations)));
      },
      "tensors"_a, "axes"_a, "permutations"_a,
      "Weights, gradients or optimiser state by parameter name, moved: W'[i, j] = W[out[i], in[j]].", nb::sig(sig));
  m.def(
      "transform_module",
      [](nn::Module& module, const AxisMap& axes, const nb::dict& permutations) {
        permute::transform_module(module, axes, set_from(permutations));
      },
      "module"_a, "axes"_a, "permutations"_a, "Moves every parameter of a module, in place.",
      nb::sig("def transform_module(module: equigrad._core.nn.Module, axes: collections.abc.Sequence[ParameterAxes], "
              "permutations: collections.abc.Mapping[str, Permutation]) -> None"));
  m.def(
      "transform_optimizer",
      [](optim::Optimizer& optimizer, const std::vector<std::string>& names, const AxisMap& axes,
         const nb::dict& permutations) {
        permute::transform_optimizer(optimizer, names, axes, set_from(permutations));
      },
      "optimizer"_a, "names"_a, "axes"_a, "permutations"_a,
      "Moves every state tensor of an optimiser, in place; `names`: the parameters' names in its order.",
      nb::sig("def transform_optimizer(optimizer: equigrad._core.optim.Optimizer, names: "
              "collections.abc.Sequence[str], axes: collections.abc.Sequence[ParameterAxes], permutations: "
              "collections.abc.Mapping[str, Permutation]) -> None"));
  m.def(
      "inverse", [](const nb::dict& set) { return dict_of(permute::inverse(set_from(set))); }, "permutations"_a,
      "The permutations that undo these.",
      nb::sig("def inverse(permutations: collections.abc.Mapping[str, Permutation]) -> dict[str, Permutation]"));
  m.def(
      "between",
      [](const nb::dict& from, const nb::dict& to) { return dict_of(permute::between(set_from(from), set_from(to))); },
      "from_"_a, "to"_a, "Those that lead from weights moved by `from_` to weights moved by `to`.",
      nb::sig("def between(from_: collections.abc.Mapping[str, Permutation], to: collections.abc.Mapping[str, "
              "Permutation]) -> dict[str, Permutation]"));
  m.def(
      "save_permutations",
      [](const Path& path, const nb::dict& set) { permute::save_permutations(path.str(), set_from(set)); }, "path"_a,
      "permutations"_a, "As JSON; not secret.",
      nb::sig("def save_permutations(path: str | os.PathLike, permutations: collections.abc.Mapping[str, Permutation]) "
              "-> None"));
  m.def(
      "load_permutations", [](const Path& path) { return dict_of(permute::load_permutations(path.str())); }, "path"_a,
      nb::sig("def load_permutations(path: str | os.PathLike) -> dict[str, Permutation]"));
}

void bind_blocks_key(nb::module_& m) {
  using permute::BlocksKey;
  nb::class_<BlocksKey>(m, "BlocksKey", "Permutations of a stack of encoder blocks that share the residual axis.")
      .def_static(
          "random",
          [](const nn::BlockConfig& config, std::int64_t layers, const std::string& form, RandomKey key) {
            return BlocksKey::random(config, layers, permute::key_form_named(form), key);
          },
          "config"_a, "layers"_a, "form"_a, "key"_a, "form: paper, tied, decoupled or residual; not secret.")
      .def_static("identity", &BlocksKey::identity, "config"_a, "layers"_a)
      .def_ro("residual", &BlocksKey::residual, "P_C.")
      .def("inverse", &BlocksKey::inverse)
      .def(
          "permutations",
          [](const BlocksKey& key, const nn::BlockConfig& config) { return dict_of(key.permutations(config)); },
          "config"_a, "By group name, as vit_axes() names them.",
          nb::sig("def permutations(self, config: equigrad._core.nn.BlockConfig) -> dict[str, Permutation]"))
      .def("apply_columns", &BlocksKey::apply_columns, "z"_a, "Z P_C.")
      .def("undo_columns", &BlocksKey::undo_columns, "z"_a);
  m.def(
      "block_axes", [](std::int64_t layer, const std::string& prefix) { return permute::block_axes(layer, prefix); },
      "layer"_a = 0, "prefix"_a = "", "Axis map of one EncoderBlock whose parameters' names begin with `prefix`.");
  m.def(
      "vit_axes",
      [](const nn::VitConfig& config, const std::string& scope) {
        if (scope != "encoder" && scope != "model")
          throw ValueError(fmt::format("vit_axes: scope '{}' is neither 'encoder' nor 'model'", scope));
        return permute::vit_axes(config, scope == "model" ? permute::KeyScope::model : permute::KeyScope::encoder);
      },
      "config"_a, "scope"_a = "encoder",
      "Axis map of a Vit. scope 'encoder': P_C acts on Z around the blocks; 'model': images to logits.");
  m.def(
      "key_space_log2",
      [](const nn::BlockConfig& config, std::int64_t layers, const std::string& form) {
        return permute::log2_count(config, layers, permute::key_form_named(form));
      },
      "config"_a, "layers"_a, "form"_a, "log2 of the number of keys of a form.");
  m.def(
      "row_permutations",
      [](std::int64_t samples, std::int64_t tokens, RandomKey key) {
        return permute::row_permutations(samples, tokens, key);
      },
      "samples"_a, "tokens"_a, "key"_a, "One row permutation a sample, none the identity: i64 [samples, tokens].");
}

void bind_assignment(nb::module_& m) {
  m.def(
      "assignment",
      [](nb::handle cost, bool maximize) {
        const Tensor given = tensor_from(cost, "assignment: cost");
        const permute::Assignment found = released(
            [&] { return permute::hungarian(given.dtype() == DType::i64 ? given.to(DType::f64) : given, maximize); });
        return nb::make_tuple(found.rows, found.columns);
      },
      "cost_matrix"_a, "maximize"_a = false,
      "(rows, columns): the min(n, m) pairs of distinct rows and columns of cost [n, m] with the least sum of costs "
      "(maximize: the largest), rows ascending, i64, as SciPy's linear_sum_assignment gives them. +inf (maximize: "
      "-inf) "
      "forbids a pair. Raises ValueError for a NaN, an infinity of the other sign, and where no assignment is left. No "
      "gradient: the pairs do not change when costs change a little.",
      nb::sig("def assignment(cost_matrix: typing.Any, maximize: bool = False) -> tuple[equigrad._core.Tensor, "
              "equigrad._core.Tensor]"));
}

void bind_secret_key(nb::module_& m) {
  using permute::SecretKey;
  nb::class_<SecretKey>(m, "SecretKey",
                        "32 secret bytes from which permutations are drawn. Obfuscation, not encryption. Cannot be "
                        "copied, printed or pickled; permutations drawn from it are ordinary values.")
      .def_static(
          "generate", [](std::string label) { return SecretKey::generate(std::move(label)); }, "label"_a = "",
          "A fresh key from the system's random source. `label` says what it is for and is not secret.")
      .def_prop_ro("label", &SecretKey::label)
      .def_static(
          "load", [](const Path& path) { return SecretKey::load(path.str()); }, "path"_a)
      .def(
          "save", [](const SecretKey& key, const Path& path) { key.save(path.str()); }, "path"_a,
          "Writes a file of mode 0600; nothing is overwritten.")
      .def("fingerprint", &SecretKey::fingerprint, "16 digits that name the key without telling it.")
      .def(
          "permutation",
          [](const SecretKey& key, std::int64_t size, const std::string& site, const std::string& model,
             std::uint64_t layer, std::uint64_t sample) {
            return key.nonidentity_permutation(size, {.model = model, .site = site, .layer = layer, .sample = sample});
          },
          "size"_a, "site"_a, "model"_a = "", "layer"_a = 0, "sample"_a = 0, "Never the identity; size >= 2.")
      .def(
          "blocks_key",
          [](const SecretKey& key, const nn::BlockConfig& config, std::int64_t layers, const std::string& form,
             const std::string& model) {
            return permute::BlocksKey::draw(config, layers, permute::key_form_named(form), key.source(model));
          },
          "config"_a, "layers"_a, "form"_a, "model"_a = "", "A BlocksKey drawn from this key.")
      .def(
          "__reduce_ex__",
          [](nb::handle, int) -> nb::object {
            throw nb::type_error(
                "a SecretKey cannot be copied or pickled; save(path) writes it to a file for its owner alone");
          },
          nb::sig("def __reduce_ex__(self, protocol: typing.SupportsIndex, /) -> typing.Any"))
      .def("__repr__", [](const SecretKey& key) { return "<secret key " + key.fingerprint() + ">"; });
}

} // namespace

void bind_permute(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("permute", "Permutations, keys, and how they move a model's weights.");
  bind_permutation(m);
  bind_axes(m);
  bind_blocks_key(m);
  bind_secret_key(m);
  bind_assignment(m);
  bind_symmetries(m);
}

} // namespace eg::python
