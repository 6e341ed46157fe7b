#pragma once
// Defines Tensor: a value-semantic handle on shared storage, with strides.

#include "core/base/error.h"
#include "core/dtype.h"
#include "core/memory/storage.h"
#include "core/shape.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace eg {

/// A strided array of one element type. Copying a Tensor copies the handle; views share storage. An undefined tensor
/// (default constructed) stands for "not given": it has no shape, dtype or values, and asking for them throws Error. A
/// meta tensor has shape and dtype but no storage.
///
/// Member functions that make tensors from tensors (views, contiguous, to) are operations of the registry, so an open
/// tape sees them.
class Tensor {
public:
  Tensor() = default;
  Tensor(const Tensor& other) noexcept : impl_(other.impl_) {
    if (impl_ != nullptr) impl_->handles.fetch_add(1, std::memory_order_relaxed);
  }
  Tensor(Tensor&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  Tensor& operator=(const Tensor& other) noexcept { return *this = Tensor(other); }
  Tensor& operator=(Tensor&& other) noexcept {
    Tensor taken(std::move(other)); // empties `other` before what this held goes, in case they are one
    std::swap(impl_, taken.impl_);
    return *this;
  }
  ~Tensor() {
    if (impl_ != nullptr) release();
  }

  /// Uninitialised, densely packed, on current_device() (DeviceScope), like zeros, ones, full and from. Throws
  /// MemoryError.
  static Tensor empty(const Shape& shape, DType dtype = DType::f32);
  /// The same on a device. Throws DeviceError where there is no such device.
  static Tensor empty(const Shape& shape, DType dtype, Device device);
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32);
  static Tensor ones(const Shape& shape, DType dtype = DType::f32);
  static Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
  /// Copies `values` in row-major order. Throws ShapeError when their number is not shape.numel().
  template <class T> static Tensor from(std::span<const T> values, const Shape& shape);
  template <class T> static Tensor from(std::initializer_list<T> values, const Shape& shape) {
    return from<T>(std::span<const T>(values.begin(), values.size()), shape);
  }
  template <class T> static Tensor from(const std::vector<T>& values, const Shape& shape) {
    return from<T>(std::span<const T>(values), shape);
  }
  /// A densely packed tensor on memory allocated elsewhere, which `memory` keeps alive; nothing is copied, and writing
  /// to the tensor writes there. `size` is the bytes from `memory` on. Throws ValueError when they are too few or do
  /// not begin at a multiple of the element's size.
  static Tensor adopt(std::shared_ptr<std::byte> memory, std::size_t size, const Shape& shape, DType dtype);
  /// 0, 1, ..., count-1.
  static Tensor arange(std::int64_t count, DType dtype = DType::i64);
  /// Shape and dtype without storage.
  static Tensor meta(const Shape& shape, DType dtype);

  bool defined() const { return impl_ != nullptr; }
  bool has_storage() const { return impl_ && impl_->storage; }
  const Shape& shape() const { return impl("shape").shape; }
  const Shape& strides() const { return impl("strides").strides; }
  DType dtype() const { return impl("dtype").dtype; }
  int rank() const { return impl("rank").shape.rank(); }
  std::int64_t size(int axis) const;
  std::int64_t numel() const { return impl("numel").numel; }
  /// Where the elements are; the CPU for a meta tensor.
  Device device() const { return impl("device").storage ? impl_->storage->device : Device::cpu(); }
  std::size_t nbytes() const { return static_cast<std::size_t>(impl("nbytes").numel) * size_of(impl_->dtype); }
  /// Elements are densely packed in row-major order (strides of extent-1 axes are ignored).
  bool is_contiguous() const;
  /// Unique for each tensor value made in this process; copies of a handle share it. Never reused.
  std::uint64_t id() const { return impl_ ? impl_->id : 0; }
  const std::shared_ptr<Storage>& storage() const { return impl("storage").storage; }
  /// True when this handle is the only one on its elements: no copy of it and no view shares them.
  bool exclusive() const {
    return has_storage() && impl_->handles.load(std::memory_order_acquire) == 1 && impl_->storage.use_count() == 1;
  }
  std::uint64_t version() const { return has_storage() ? impl_->storage->version : 0; }

  /// First element. Throws DTypeError when T is not the element type, Error for a meta tensor, DeviceError for a tensor
  /// that is not on the CPU.
  template <class T> const T* data() const { return static_cast<const T*>(raw(dtype_of<T>)); }
  /// The same for writing; raises the storage's version.
  template <class T> T* mutable_data(const char* writer = "write") {
    return static_cast<T*>(raw_mutable(dtype_of<T>, writer));
  }
  /// First element as bytes, whatever the dtype.
  const std::byte* bytes() const;
  std::byte* mutable_bytes(const char* writer = "write");
  /// First element as an address in the memory of its device: for device kernels. The host may follow it for tensors on
  /// the CPU alone.
  const std::byte* device_bytes() const;
  std::byte* mutable_device_bytes(const char* writer = "write");

  // These four wait for the device and copy what they need.

  /// The only element, as double. Throws ShapeError when there is not exactly one.
  double item() const;
  /// One element by index, as double. Throws IndexError.
  double at(std::initializer_list<std::int64_t> index) const;
  /// All elements in row-major order; T must be the element type.
  template <class T> std::vector<T> to_vector() const;

  /// Writes `source` (same shape and dtype, any device) into this tensor's elements. Throws AutogradError while a tape
  /// records.
  void copy_from(const Tensor& source);
  void fill(double value);
  /// A packed copy in new memory. Recorded: its gradient is the cotangent.
  Tensor clone() const;

  // --- views: share storage, recorded on a tape ---

  /// Same elements, other extents; one extent may be -1. Copies only when the strides leave no other way.
  Tensor reshape(const Shape& shape) const;
  Tensor transpose(int axis_a = -2, int axis_b = -1) const;
  /// Axis i of the result is axis axes[i] of this tensor.
  Tensor permute(std::initializer_list<std::int64_t> axes) const;
  /// Elements start, start+step, ... below stop along `axis`; negative start and stop count from the end.
  Tensor slice(int axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1) const;
  /// One index along `axis`; the axis is removed.
  Tensor select(int axis, std::int64_t index) const;
  Tensor expand(const Shape& shape) const;
  Tensor squeeze(int axis) const;
  Tensor unsqueeze(int axis) const;

  /// This tensor if it is packed, else a packed copy. Recorded.
  Tensor contiguous() const;
  /// Element type conversion; the identity for the same type. Recorded.
  Tensor to(DType dtype) const;
  /// A packed copy on another device; the identity for the same one. Recorded: the gradient goes back.
  Tensor to(Device device) const;
  /// The same elements with a new id that is on no tape: gradients stop here.
  Tensor detach() const;

  /// Values laid out as nested brackets, long axes shortened in the middle, with shape and dtype.
  std::string str(int precision = 4) const;

  /// A view on the same storage, made with plain numbers; what the view operations are made of, not recorded.
  /// `offset` is in elements from this tensor's first one. Throws ShapeError when some element would be outside the
  /// storage.
  Tensor view_as(const Shape& shape, const Shape& strides, std::int64_t offset) const;

private:
  /// Counted here and not by a std::shared_ptr, whose inlined copies and destructors made up a tenth of all code.
  struct Impl {
    std::atomic<std::uint32_t> handles = 1;
    std::shared_ptr<Storage> storage;
    Shape shape;
    Shape strides;
    std::int64_t offset = 0;
    std::int64_t numel = 0;
    std::uint64_t id = 0;
    DType dtype = DType::f32;
  };
  static Tensor make(std::shared_ptr<Storage> storage, const Shape& shape, const Shape& strides, std::int64_t offset,
                     DType dtype);
  const Impl& impl(const char* asked) const {
    if (impl_ == nullptr) [[unlikely]]
      refuse_undefined(asked);
    return *impl_;
  }
  [[noreturn]] static void refuse_undefined(const char* asked);
  /// Gives up this handle; the last one takes shape and storage with it.
  void release() noexcept;
  const void* raw(DType wanted) const;
  void* raw_mutable(DType wanted, const char* writer);

  Impl* impl_ = nullptr;
};

/// True when both have the same dtype, shape and bytes (a NaN equals itself, 0 differs from -0).
bool same_bits(const Tensor& a, const Tensor& b);
/// max |a - b| / max |reference b|, in double; 0 for empty tensors, NaN or infinity count as infinity unless equal.
double relative_error(const Tensor& a, const Tensor& reference);

} // namespace eg
