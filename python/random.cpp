// Keys and the numbers that depend on them alone.

#include "core/random.h"
#include "core/device/device.h"

#include "bindings.h"
#include "constants.h"

#include <fmt/format.h>
#include <mutex>

namespace eg::python {
namespace {

/// The default sequence: number n of it is seed's fold(n). Keys are drawn with and without the interpreter's lock.
struct DefaultSequence {
  std::mutex mutex;
  std::uint64_t seed = 0, drawn = 0;
};
DefaultSequence& default_sequence() {
  static DefaultSequence sequence;
  return sequence;
}

DType floating(nb::handle dtype) { return dtype_from(dtype).value_or(DType::f32); }

void bind_key(nb::module_& m) {
  nb::class_<RandomKey>(m, "Key", "Names a sequence of random numbers: number i depends on (seed, stream, i) alone.")
      .def(nb::init<std::uint64_t, std::uint64_t>(), "seed"_a = 0, "stream"_a = 0)
      .def_ro("seed", &RandomKey::seed)
      .def_ro("stream", &RandomKey::stream)
      .def("fold", &RandomKey::fold, "tag"_a, "A key for a part of the work, unrelated to those of other tags.")
      .def(
          "keys", [](const RandomKey&) { return nb::make_tuple("seed", "stream"); },
          "With [...], for ops that take a seed and a stream: ops.dropout(x, p=0.1, **key).",
          nb::sig("def keys(self) -> tuple[str, str]"))
      .def(
          "__getitem__",
          [](const RandomKey& key, const std::string& name) {
            if (name == "seed") return key.seed;
            if (name == "stream") return key.stream;
            throw nb::key_error(name.c_str());
          },
          "name"_a)
      .def("__eq__",
           [](const RandomKey& a, nb::handle other) {
             if (!nb::isinstance<RandomKey>(other)) return false;
             const auto b = nb::cast<RandomKey>(other);
             return a.seed == b.seed && a.stream == b.stream;
           })
      .def("__hash__", [](const RandomKey& key) { return static_cast<std::int64_t>(key.fold(0).seed >> 1); })
      .def("__repr__",
           [](const RandomKey& key) { return fmt::format("Key(seed={}, stream={})", key.seed, key.stream); })
      .def("__reduce__", [](nb::handle self) {
        const auto key = nb::cast<RandomKey>(self);
        return nb::make_tuple(nb::handle(self.type()), nb::make_tuple(key.seed, key.stream));
      });
  nb::implicitly_convertible<std::uint64_t, RandomKey>();
}

} // namespace

RandomKey KeyDraw::key() const {
  DefaultSequence& sequence = default_sequence();
  const std::lock_guard lock(sequence.mutex);
  if (!number_) number_ = sequence.drawn++;
  return RandomKey{sequence.seed, 0x64656661756c74 /* "default" */}.fold(*number_);
}

/// The last key of all can be given back: one that was drawn later, by another thread, stays what it is.
KeyDraw::~KeyDraw() {
  if (!number_ || std::uncaught_exceptions() == exceptions_) return;
  DefaultSequence& sequence = default_sequence();
  const std::lock_guard lock(sequence.mutex);
  if (sequence.drawn == *number_ + 1) sequence.drawn = *number_;
}

std::optional<RandomKey> key_from(nb::handle object) {
  if (PyBool_Check(object.ptr())) return std::nullopt; // nn.Linear(2, 3, False) means bias=False elsewhere
  RandomKey key;
  return nb::try_cast(object, key) ? std::optional(key) : std::nullopt;
}

void bind_random(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("random", "Counter-based random numbers (Philox 4x32-10).");
  bind_key(m);
  m.def(
      "seed",
      [](std::uint64_t seed) {
        DefaultSequence& sequence = default_sequence();
        const std::lock_guard lock(sequence.mutex);
        sequence.seed = seed;
        sequence.drawn = 0;
      },
      "seed"_a,
      "Begins the default sequence anew: functions and modules that are given no key take its next one each. It begins "
      "with seed 0, so a program draws the same numbers every time.");
  m.def(
      "uniform",
      [](nb::handle shape, DefaultKey key, nb::handle low, nb::handle high, nb::handle dtype, nb::handle device) {
        const DeviceScope there(device_or_current(device, "uniform"));
        const char* const way_out = "low + (high - low) * uniform(shape, key)";
        return random_uniform(shape_from(shape), key, constant_from(low, "uniform", "low", way_out),
                              constant_from(high, "uniform", "high", way_out), floating(dtype));
      },
      "shape"_a, "key"_a = nb::none(), "low"_a = 0.0, "high"_a = 1.0, "dtype"_a = "f32", "device"_a = nb::none(),
      "Uniform in [low, high). The same numbers on every device.",
      nb::sig("def uniform(shape: int | collections.abc.Sequence[int], key: Key | int | None = None, low: float = 0.0, "
              "high: float = 1.0, dtype: str = 'f32', device: str | None = None) -> equigrad._core.Tensor"));
  m.def(
      "normal",
      [](nb::handle shape, DefaultKey key, nb::handle mean, nb::handle stddev, nb::handle dtype, nb::handle device) {
        const DeviceScope there(device_or_current(device, "normal"));
        const char* const way_out = "mean + stddev * normal(shape, key)";
        return random_normal(shape_from(shape), key, constant_from(mean, "normal", "mean", way_out),
                             constant_from(stddev, "normal", "stddev", way_out), floating(dtype));
      },
      "shape"_a, "key"_a = nb::none(), "mean"_a = 0.0, "stddev"_a = 1.0, "dtype"_a = "f32", "device"_a = nb::none(),
      "Normal(mean, stddev). The same numbers on every device.",
      nb::sig("def normal(shape: int | collections.abc.Sequence[int], key: Key | int | None = None, mean: float = 0.0, "
              "stddev: float = 1.0, dtype: str = 'f32', device: str | None = None) -> equigrad._core.Tensor"));
  m.def(
      "integers",
      [](nb::handle shape, DefaultKey key, std::int64_t low, std::optional<std::int64_t> high, nb::handle device) {
        if (!high) throw nb::type_error("integers: high must be given: integers(shape, low=0, high=10)");
        const DeviceScope there(device_or_current(device, "integers"));
        return random_integers(shape_from(shape), key, low, *high);
      },
      "shape"_a, "key"_a = nb::none(), "low"_a = 0, "high"_a = nb::none(), "device"_a = nb::none(),
      "Uniform integers in [low, high), i64.",
      nb::sig("def integers(shape: int | collections.abc.Sequence[int], key: Key | int | None = None, low: int = 0, "
              "high: int | None = None, "
              "device: str | None = None) -> equigrad._core.Tensor"));
  m.def(
      "permutation",
      [](std::int64_t count, DefaultKey key, nb::handle device) {
        const DeviceScope there(device_or_current(device, "permutation"));
        return random_permutation(count, key);
      },
      "count"_a, "key"_a = nb::none(), "device"_a = nb::none(), "A uniform permutation of 0..count-1, i64.",
      nb::sig("def permutation(count: int, key: Key | int | None = None, device: str | None = None) -> "
              "equigrad._core.Tensor"));
  m.def(
      "nonidentity_permutation",
      [](std::int64_t count, DefaultKey key, nb::handle device) {
        const DeviceScope there(device_or_current(device, "nonidentity_permutation"));
        return random_nonidentity_permutation(count, key);
      },
      "count"_a, "key"_a = nb::none(), "device"_a = nb::none(), "The same, never the identity; count >= 2.",
      nb::sig("def nonidentity_permutation(count: int, key: Key | int | None = None, device: str | None = None) -> "
              "equigrad._core.Tensor"));
}

} // namespace eg::python
