#include "core/tensor.h"
#include "core/meta.h"

#include "core/call.h"
#include "core/device/device.h"
#include "core/device/transfer.h"
#include "core/element.h"
#include "core/ops/views/strided_copy.h"
#include "core/strided.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>

namespace eg {
namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> counter{0};
  return ++counter;
}

/// True when some axis has several elements but all share one address.
bool repeats(const Shape& shape, const Shape& strides) {
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] > 1 && strides[axis] == 0) return true;
  return false;
}

/// Every element of a view that begins at element `first` is inside the storage.
bool lies_within(const Storage& storage, DType dtype, const Shape& shape, const Shape& strides, std::int64_t first) {
  if (shape.numel() == 0) return true;
  std::int64_t lowest = first;
  std::int64_t highest = first;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    std::int64_t reach = 0;
    std::int64_t& side = strides[axis] < 0 ? lowest : highest;
    if (__builtin_mul_overflow(strides[axis], shape[axis] - 1, &reach) || __builtin_add_overflow(side, reach, &side))
      return false;
  }
  return lowest >= 0 && static_cast<std::size_t>(highest) < storage.size_bytes / size_of(dtype);
}

void require_both(const char* asked, const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined())
    throw Error(fmt::format("{}: tensor {} is undefined: default constructed, it stands for \"not given\"", asked,
                            a.defined() ? 'b' : 'a'));
}

} // namespace

void Tensor::refuse_undefined(const char* asked) {
  throw Error(fmt::format("{}: this tensor is undefined: default constructed, it stands for \"not given\"", asked));
}

void Tensor::release() noexcept {
  if (impl_->handles.fetch_sub(1, std::memory_order_acq_rel) == 1) delete impl_;
}

Tensor Tensor::make(std::shared_ptr<Storage> storage, const Shape& shape, const Shape& strides, std::int64_t offset,
                    DType dtype) {
  Tensor result;
  result.impl_ = new Impl;
  Impl& impl = *result.impl_;
  impl.storage = std::move(storage);
  impl.shape = shape;
  impl.strides = strides;
  impl.offset = offset;
  impl.numel = shape.numel();
  impl.id = next_id();
  impl.dtype = dtype;
  return result;
}

Tensor Tensor::empty(const Shape& shape, DType dtype) { return empty(shape, dtype, current_device()); }

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  if (making_meta_tensors()) return meta(shape, dtype);
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(shape.numel()), size_of(dtype), &bytes))
    throw MemoryError(fmt::format("tensor: {} of {} has more bytes than can be counted", shape.str(), name_of(dtype)));
  return make(std::make_shared<Storage>(bytes, device), shape, contiguous_strides(shape), 0, dtype);
}

Tensor Tensor::adopt(std::shared_ptr<std::byte> memory, std::size_t size, const Shape& shape, DType dtype) {
  const std::size_t element = size_of(dtype);
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(shape.numel()), element, &bytes) || bytes > size ||
      (bytes > 0 && memory == nullptr))
    throw ValueError(fmt::format("adopt: {} of {} do not lie in {} bytes", shape.str(), name_of(dtype), size));
  if (reinterpret_cast<std::uintptr_t>(memory.get()) % element != 0)
    throw ValueError(
        fmt::format("adopt: elements of {} must begin at a multiple of {} bytes", name_of(dtype), element));
  return make(std::make_shared<Storage>(std::move(memory), size), shape, contiguous_strides(shape), 0, dtype);
}

Tensor Tensor::zeros(const Shape& shape, DType dtype) {
  Tensor result = empty(shape, dtype);
  if (!result.has_storage()) return result; // in a MetaTensorScope
  if (!result.device().is_cpu())
    result.fill(0.0);
  else
    std::memset(result.mutable_bytes("zeros"), 0, result.nbytes());
  return result;
}

Tensor Tensor::ones(const Shape& shape, DType dtype) { return full(shape, 1.0, dtype); }

Tensor Tensor::full(const Shape& shape, double value, DType dtype) {
  Tensor result = empty(shape, dtype);
  result.fill(value);
  return result;
}

template <class T> Tensor Tensor::from(std::span<const T> values, const Shape& shape) {
  if (static_cast<std::int64_t>(values.size()) != shape.numel())
    throw ShapeError(fmt::format("tensor: {} values do not fill {}", values.size(), shape.str()));
  if (making_meta_tensors()) return meta(shape, dtype_of<T>);
  Tensor result = empty(shape, dtype_of<T>, Device::cpu());
  std::copy(values.begin(), values.end(), result.mutable_data<T>("from"));
  return device::on_current_device(result);
}
template Tensor Tensor::from<float>(std::span<const float>, const Shape&);
template Tensor Tensor::from<double>(std::span<const double>, const Shape&);
template Tensor Tensor::from<std::int64_t>(std::span<const std::int64_t>, const Shape&);
template Tensor Tensor::from<std::uint8_t>(std::span<const std::uint8_t>, const Shape&);
template Tensor Tensor::from<bool>(std::span<const bool>, const Shape&);
template Tensor Tensor::from<BFloat16>(std::span<const BFloat16>, const Shape&);

Tensor Tensor::arange(std::int64_t count, DType dtype) {
  if (making_meta_tensors()) return meta({count}, dtype);
  Tensor result = empty({count}, dtype, Device::cpu());
  visit_dtype(dtype, [&]<class T>() {
    T* values = result.mutable_data<T>("arange");
    if (count > 0) element_of<T>("arange", static_cast<double>(count - 1));
    for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<T>(i);
  });
  return device::on_current_device(result);
}

Tensor Tensor::meta(const Shape& shape, DType dtype) {
  return make(nullptr, shape, contiguous_strides(shape), 0, dtype);
}

std::int64_t Tensor::size(int axis) const {
  const Shape& own = impl("size").shape;
  return own[normalize_axis("size", axis, own.rank())];
}

bool Tensor::is_contiguous() const {
  const Impl& own = impl("is_contiguous");
  std::int64_t step = 1;
  for (int axis = own.shape.rank() - 1; axis >= 0; --axis) {
    if (own.shape[axis] != 1 && own.strides[axis] != step) return false;
    step *= std::max<std::int64_t>(own.shape[axis], 1);
  }
  return true;
}

const std::byte* Tensor::device_bytes() const {
  if (!impl("data").storage) throw Error("tensor: a tensor without storage has no values");
  return impl_->storage->bytes.get() + static_cast<std::ptrdiff_t>(size_of(impl_->dtype)) * impl_->offset;
}

const std::byte* Tensor::bytes() const {
  const std::byte* const address = device_bytes();
  if (!impl_->storage->device.is_cpu()) [[unlikely]]
    throw DeviceError(
        fmt::format("data: this tensor is on {}; copy it with to(Device::cpu())", impl_->storage->device.str()));
  return address;
}

std::byte* Tensor::mutable_bytes(const char* writer) {
  bytes();
  return mutable_device_bytes(writer);
}

std::byte* Tensor::mutable_device_bytes(const char* writer) {
  const std::byte* const address = device_bytes();
  Storage& storage = *impl_->storage;
  storage.writer = writer;
  // The first write fills a new tensor; only later ones change values that may have been saved.
  if (storage.version++ > 0) storage.writer_place = current_place();
  return const_cast<std::byte*>(address);
}

const void* Tensor::raw(DType wanted) const {
  const DType own = impl("data").dtype;
  if (wanted != own) throw DTypeError(fmt::format("tensor: elements are {}, not {}", name_of(own), name_of(wanted)));
  return bytes();
}

void* Tensor::raw_mutable(DType wanted, const char* writer) {
  raw(wanted);
  return mutable_bytes(writer);
}

double Tensor::item() const {
  if (impl("item").numel != 1)
    throw ShapeError(fmt::format("item: the tensor has {} elements, not one: {}", numel(), shape().str()));
  const Tensor here = device::on_cpu(*this);
  double value = 0;
  visit_dtype(dtype(), [&]<class T>() { value = static_cast<double>(*here.data<T>()); });
  return value;
}

double Tensor::at(std::initializer_list<std::int64_t> index) const {
  const Shape where(index);
  if (where.rank() != impl("at").shape.rank())
    throw IndexError(fmt::format("at: {} indices for {}", where.rank(), shape().str()));
  std::int64_t offset = 0;
  for (int axis = 0; axis < rank(); ++axis) {
    if (where[axis] < 0 || where[axis] >= shape()[axis])
      throw IndexError(fmt::format("at: {} is outside {}", where.str(), shape().str()));
    offset += where[axis] * strides()[axis];
  }
  if (!device().is_cpu()) return view_as({}, {}, offset).item();
  double value = 0;
  visit_dtype(dtype(), [&]<class T>() { value = static_cast<double>(data<T>()[offset]); });
  return value;
}

template <class T> std::vector<T> Tensor::to_vector() const {
  impl("data"); // an undefined tensor is refused in these words
  if (!device().is_cpu()) return device::on_cpu(*this).to_vector<T>();
  const T* source = data<T>();
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(numel()));
  for_each_offset(shape(), strides(), [&](std::int64_t offset) { values.push_back(source[offset]); });
  return values;
}
template std::vector<float> Tensor::to_vector<float>() const;
template std::vector<double> Tensor::to_vector<double>() const;
template std::vector<std::int64_t> Tensor::to_vector<std::int64_t>() const;
template std::vector<std::uint8_t> Tensor::to_vector<std::uint8_t>() const;
template std::vector<bool> Tensor::to_vector<bool>() const;
template std::vector<BFloat16> Tensor::to_vector<BFloat16>() const;

void Tensor::copy_from(const Tensor& source) {
  if (!defined()) throw Error("copy_from: the tensor to write to is undefined");
  if (!source.defined()) throw Error("copy_from: the source is undefined");
  if (source.shape() != shape() || source.dtype() != dtype())
    throw ShapeError(fmt::format("copy_from: {} {} does not fit {} {}", name_of(source.dtype()), source.shape().str(),
                                 name_of(dtype()), shape().str()));
  if (graph_recording())
    throw AutogradError(
        "copy_from: a tape is recording and would not see this write, so no gradient would pass it; "
        "compute the value with an operation (clone, where, concat), or write while recording is paused");
  const bool shared = has_storage() && impl_->storage == source.impl_->storage;
  if (!device().is_cpu() || !source.device().is_cpu()) {
    device::copy_elements(*this, source);
  } else if (is_contiguous() && source.is_contiguous()) {
    const std::byte* from = source.bytes();
    std::memmove(mutable_bytes("copy_from"), from, nbytes());
  } else if (shared) {
    // An element may be written before it is read through the other view.
    if (impl_->offset != source.impl_->offset || strides() != source.strides()) copy_from(packed_copy(source));
  } else if (repeats(shape(), strides())) {
    visit_dtype(dtype(), [&]<class T>() {
      const T* from = source.data<T>();
      T* to = mutable_data<T>("copy_from");
      for_each_offset2(shape(), strides(), source.strides(),
                       [&](std::int64_t out, std::int64_t in) { to[out] = from[in]; });
    });
  } else {
    const std::byte* from = source.bytes();
    strided_copy(dtype(), shape(), mutable_bytes("copy_from"), strides(), from, source.strides());
  }
}

void Tensor::fill(double value) {
  if (making_meta_tensors() && !has_storage()) return;
  visit_dtype(impl("fill").dtype, [&]<class T>() {
    if (!device().is_cpu()) {
      const T element = element_of<T>("fill", value);
      return device::fill_elements(*this, reinterpret_cast<const std::byte*>(&element));
    }
    T* to = mutable_data<T>("fill");
    const T element = element_of<T>("fill", value);
    for_each_offset(shape(), strides(), [&](std::int64_t offset) { to[offset] = element; });
  });
}

Tensor Tensor::detach() const {
  const Impl& own = impl("detach");
  return make(own.storage, own.shape, own.strides, own.offset, own.dtype);
}

Tensor Tensor::view_as(const Shape& shape, const Shape& strides, std::int64_t offset) const {
  const Impl& own = impl("view_as");
  // A view without elements touches none, so it may stay where this tensor is.
  const std::int64_t first = shape.numel() == 0 ? own.offset : own.offset + offset;
  if (strides.rank() != shape.rank() || (own.storage && !lies_within(*own.storage, own.dtype, shape, strides, first)))
    throw ShapeError(fmt::format("view_as: {} with strides {} at element {} does not lie in the storage of {} {}",
                                 shape.str(), strides.str(), own.offset + offset, name_of(own.dtype), own.shape.str()));
  return make(own.storage, shape, strides, first, own.dtype);
}

bool same_bits(const Tensor& first, const Tensor& second) {
  require_both("same_bits", first, second);
  if (first.dtype() != second.dtype() || first.shape() != second.shape()) return false;
  const Tensor a = device::on_cpu(first), b = device::on_cpu(second);
  bool same = true;
  visit_dtype(a.dtype(), [&]<class T>() {
    const T* x = a.data<T>();
    const T* y = b.data<T>();
    for_each_offset2(a.shape(), a.strides(), b.strides(),
                     [&](std::int64_t i, std::int64_t j) { same = same && std::memcmp(x + i, y + j, sizeof(T)) == 0; });
  });
  return same;
}

double relative_error(const Tensor& given, const Tensor& wanted_values) {
  require_both("relative_error", given, wanted_values);
  if (given.shape() != wanted_values.shape())
    throw ShapeError(fmt::format("relative_error: a is {}, b is {}", given.shape().str(), wanted_values.shape().str()));
  const Tensor a = device::on_cpu(given), reference = device::on_cpu(wanted_values);
  double difference = 0;
  double scale = 0;
  visit_dtype(a.dtype(), [&]<class T>() {
    visit_dtype(reference.dtype(), [&]<class U>() {
      const T* x = a.data<T>();
      const U* y = reference.data<U>();
      for_each_offset2(a.shape(), a.strides(), reference.strides(), [&](std::int64_t i, std::int64_t j) {
        const auto value = static_cast<double>(x[i]);
        const auto wanted = static_cast<double>(y[j]);
        if (value == wanted || (std::isnan(value) && std::isnan(wanted))) {
          if (std::isfinite(wanted)) scale = std::max(scale, std::abs(wanted));
          return;
        }
        const double gap = std::abs(value - wanted);
        difference = std::isfinite(gap) ? std::max(difference, gap) : std::numeric_limits<double>::infinity();
        if (std::isfinite(wanted)) scale = std::max(scale, std::abs(wanted));
      });
    });
  });
  if (difference == 0) return 0;
  return scale > 0 ? difference / scale : std::numeric_limits<double>::infinity();
}

} // namespace eg
