#pragma once
// Declares what the files of the Python module share. Each bind_* function fills one part of the module; nothing here
// computes: it converts values, and releases the interpreter's lock around long work.

#include "core/attributes.h"
#include "core/base/interrupt.h"
#include "core/random.h"
#include "core/tensor.h"
#include "signals.h"

#include <exception>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace eg::python {

namespace nb = nanobind;
using namespace nb::literals;
using Tensors = std::vector<Tensor>;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// --- values across the border ---

/// The dtype that an argument names, or that NumPy's or PyTorch's type means; nullopt for None. Throws ValueError for
/// an unknown name.
std::optional<DType> dtype_from(nb::handle name);
/// The device that a str or an object of PyTorch's names: "cpu", "cuda", "cuda:1". nullopt for None and for what names
/// none. Throws ValueError for "cuda:x" and the like.
std::optional<Device> device_from(nb::handle name);
/// The device that an argument `device` names, this thread's for None. `who`: the function, for TypeError.
Device device_or_current(nb::handle device, const char* who);
/// A device as Python sees it: a str that is equal to "cuda" where it is "cuda:0".
nb::object name_for_python(Device device);
/// The dtype's name as Python has it: a str that compares with NumPy's and PyTorch's types too.
nb::object name_for_python(DType dtype);
/// A shape from one integer or a sequence of them. Throws TypeError for anything else.
Shape shape_from(nb::handle dims);
/// The extents (or strides) as a Python tuple.
nb::tuple tuple_of(const Shape& shape);

/// None for an undefined tensor.
nb::object to_python(const Tensor& tensor);
/// The tensor that a Python object is; nullptr for every other one, also for those that could be converted.
const Tensor* as_tensor(nb::handle object);
/// The tensors as a Python list, None where one is undefined.
nb::list to_python(const Tensors& tensors);
/// The tensors as a dict by name.
nb::dict dict_of(const NamedTensors& tensors);
/// The tensors of a dict in its order. Throws TypeError for names that are not str, and as tensor_from does; the words
/// begin with `what` and the name.
NamedTensors named_tensors_from(const nb::dict& dict, const char* what);
/// A Tensor as it is, undefined for None, and what tensor() takes for anything else but numbers and lists of numbers.
/// `what` begins the words of the TypeError: "softmax: input 'x'".
Tensor tensor_from(nb::handle object, const char* what);
/// The same for a sequence; one Tensor alone is a list of one.
Tensors tensors_from(nb::handle objects, const char* what);
/// What a function of the user's gives: an array is one tensor as a Tensor is, not a sequence of its rows.
Tensors results_from(nb::handle results, const char* what);
/// Throws TypeError: "WHAT must be WANTED, not int".
[[noreturn]] void refuse_type(std::string_view what, std::string_view wanted, nb::handle object);
/// The instance of a class of the module that a Python object is. Throws TypeError as refuse_type does, for one as well
/// whose __init__ was never called.
template <class T> T& instance_of(nb::handle object, std::string_view what, std::string_view wanted) {
  if (!nb::isinstance<T>(object) || !nb::inst_ready(object)) refuse_type(what, wanted, object);
  return *nb::inst_ptr<T>(object);
}
/// A str. Throws TypeError for anything else.
std::string text_from(nb::handle object, const char* what);
/// The only element as bool, int or float.
nb::object element_of_one(const Tensor& tensor);

/// An array of another library (or numbers) as a tensor, on the same memory where its layout, element type and
/// writability allow. copy: true always copies, false throws ValueError where a copy is needed, nullopt copies where it
/// is.
Tensor import_array(nb::handle object, std::optional<DType> dtype, std::optional<bool> copy);
/// Where a tensor lies in the memory of an array of another library (on the CPU), it and its views move to memory of
/// their own. For what is trained: the caller's array stays as it is.
void take_memory(const Tensor& tensor);
/// An array on the tensor's memory. Throws TypeError for bf16, which NumPy lacks, DeviceError for a tensor that is not
/// on the CPU.
nb::object export_numpy(nb::handle self, bool writable);
/// The DLPack capsule on the tensor's memory. Of a CUDA device, when its work so far is done, unless options say stream
/// -1. Throws DeviceError for the emulated device, whose memory no other framework knows, ValueError, TypeError and
/// BufferError for options that cannot be had.
nb::object export_dlpack(nb::handle self, const nb::kwargs& options);
/// DLPack's (type, number) of the tensor's device. Throws as export_dlpack.
nb::tuple dlpack_device(const Tensor& x);

/// A Python value as an attribute of a kind; nullopt where it is not of that kind. Throws ValueError for integers that
/// 64 bits with a sign do not hold.
std::optional<AttrValue> attribute_from(nb::handle value, AttrKind kind);
/// A number as a real attribute: integers of 64 bits stay whole, so that a row for i64 gets them exactly; larger ones
/// are rounded. nullopt for everything else.
std::optional<AttrValue> real_attribute_from(nb::handle value);
/// An integer of 64 bits; nullopt for larger ones and everything else.
std::optional<std::int64_t> whole_number_from(nb::handle value);
/// attribute_from() for a seed or stream of random numbers, 64 bits without a sign: those of 2^63 and more wrap.
std::optional<AttrValue> seed_from(nb::handle value);
nb::object to_python(const AttrValue& value);
/// A whole number for a tensor of i64, as one without axes: double would round beyond 2^53. nullopt for other numbers
/// and types. Throws ValueError as attribute_from does.
std::optional<Tensor> whole_element(nb::handle value, DType dtype);

/// x[index]: integers, slices, None, Ellipsis, lists of positions, masks, as PyTorch reads them. Recorded.
Tensor get_item(const Tensor& x, nb::handle index);
/// x[index] = value, written in place. Throws AutogradError while a tape listens.
void set_item(Tensor& x, nb::handle index, nb::handle value);

// --- keys of calls without a key ---

/// Takes the next key of the default sequence for one call, and gives it back where the call fails. Copies are draws of
/// their own.
class KeyDraw {
public:
  KeyDraw() = default;
  KeyDraw(const KeyDraw&) {}
  KeyDraw& operator=(const KeyDraw&) { return *this; }
  ~KeyDraw();
  /// The next key, the same one every time.
  RandomKey key() const;

private:
  mutable std::optional<std::uint64_t> number_; ///< in the default sequence, where it was taken
  int exceptions_ = std::uncaught_exceptions();
};
/// The key of an argument; for None, the next of the default sequence (random.seed()) when it is first used.
struct DefaultKey {
  std::optional<RandomKey> given;
  KeyDraw drawn;
  operator RandomKey() const { return given ? *given : drawn.key(); } // NOLINT(google-explicit-constructor)
};
/// The key of a call, where None stands for the default.
struct CallKey {
  std::optional<RandomKey> given;
  KeyDraw drawn;
  /// For None, the next of the default sequence where `module` is in training; in evaluation nothing is drawn.
  template <class Module> RandomKey of(const Module& module) const {
    if (given) return *given;
    return module.training() ? drawn.key() : RandomKey{};
  }
};
/// The key that `object` is; nullopt for other types.
std::optional<RandomKey> key_from(nb::handle object);

// --- the interpreter's lock ---

/// Runs f without the lock; signals are looked at on the way (signals.h).
template <class F> auto released(F&& f) {
  const nb::gil_scoped_release unlocked;
  if (!handles_signals()) return f();
  const auto look = [] { look_at_signals(); };
  const InterruptScope scope(look);
  return f();
}

/// A Python object that C++ may copy, call and drop without holding the lock.
class Held {
public:
  explicit Held(nb::handle object);
  /// Only with the lock.
  nb::handle get() const { return object_.get(); }

private:
  std::shared_ptr<PyObject> object_;
};

// --- the parts of the module ---

void bind_errors(nb::module_& m);
void bind_tensor(nb::module_& m);
void bind_random(nb::module_& m);
void bind_ops(nb::module_& m);
void bind_autograd(nb::module_& m);
void bind_custom_ops(nb::module_& m);
void bind_functional(nb::module_& m);
void bind_checks(nb::module_& m);
void bind_modules(nb::module_& m);
void bind_module_copies(nb::module_& m);
void bind_layers(nb::module_& m);
void bind_blocks(nb::module_& m);
void bind_vit(nb::module_& m);
void bind_language_models(nb::module_& m);
void bind_more_models(nb::module_& m);
void bind_optim(nb::module_& m);
void bind_permute(nb::module_& m);
void bind_catalogue(nb::module_& m);
void bind_data(nb::module_& m);
void bind_files(nb::module_& m);
void bind_hub(nb::module_& m);
void bind_tokenizers(nb::module_& m);
void bind_system(nb::module_& m);
void bind_devices(nb::module_& m);
void bind_pickles(nb::module_& m);
/// In builds without libarchive: the library reads xz and tar through Python's modules from now on.
void lend_python_archives();

} // namespace eg::python

template <> struct nanobind::detail::type_caster<eg::python::DefaultKey> {
  NB_TYPE_CASTER(eg::python::DefaultKey, const_name("equigrad._core.random.Key | int | None"))
  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    try {
      value.given = source.is_none() ? std::nullopt : eg::python::key_from(source);
      return source.is_none() || value.given.has_value();
    } catch (...) {
      return false;
    }
  }
};

template <> struct nanobind::detail::type_caster<eg::python::CallKey> {
  NB_TYPE_CASTER(eg::python::CallKey, const_name("equigrad._core.random.Key | int | None"))
  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    try {
      value.given = source.is_none() ? std::nullopt : eg::python::key_from(source);
      return source.is_none() || value.given.has_value();
    } catch (...) {
      return false;
    }
  }
};
