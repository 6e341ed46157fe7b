#include "core/device/uploads.h"

#include "core/base/error.h"
#include "core/call.h"
#include "core/device/device.h"
#include "core/device/module.h"
#include "core/device/transfer.h"
#include "core/ops/views/strided_copy.h"

#include <cstdint>
#include <cstring>
#include <utility>

namespace eg::device {
namespace {

constexpr std::size_t alignment = 256; // of a tensor in pinned memory
constexpr std::size_t places = 2;      // one is filled while the other is copied

std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

} // namespace

/// A mark in the work of a lane.
class Uploads::Event {
public:
  explicit Event(Device device) : device_(device) {
    require(device_, "event", module_table().make_event(device_.index, &event_));
  }
  ~Event() {
    try {
      module_table().drop_event(device_.index, event_);
    } catch (const Error&) { // a child of fork() leaves it to its parent
    }
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(Lane lane) { require(device_, "event", module_table().record(device_.index, lane, event_)); }
  void wait(Lane lane) const { require(device_, "event", module_table().wait(device_.index, lane, event_)); }
  void wait_here() const { require(device_, "event", module_table().wait_here(device_.index, event_)); }

private:
  Device device_;
  void* event_ = nullptr;
};

/// Pinned host memory, and when the device has read it.
struct Uploads::Pinned {
  explicit Pinned(Device on) : device(on) {}
  ~Pinned() {
    if (bytes == nullptr) return;
    try {
      if (copied != nullptr) copied->wait_here();
      module_table().release_pinned(device.index, bytes);
    } catch (const Error&) { // a child of fork() leaves it to its parent; a device that failed says so at its next use
    }
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  /// Ready to be written.
  std::byte* of_size(std::size_t wanted) {
    if (copied != nullptr) std::exchange(copied, nullptr)->wait_here();
    if (wanted > size) {
      if (bytes != nullptr) require(device, "pinned memory", module_table().release_pinned(device.index, bytes));
      size = 0;
      void* block = std::exchange(bytes, nullptr);
      require(device, "pinned memory", module_table().allocate_pinned(device.index, wanted, &block));
      bytes = static_cast<std::byte*>(block);
      size = wanted;
    }
    return bytes;
  }

  Device device;
  std::byte* bytes = nullptr;
  std::size_t size = 0;
  std::shared_ptr<const Event> copied;
};

Uploads::Batch::Batch(std::vector<Tensor> tensors, std::shared_ptr<const Event> copied)
    : tensors_(std::move(tensors)), copied_(std::move(copied)) {}
Uploads::Batch::Batch(Batch&& other) noexcept = default;
Uploads::Batch& Uploads::Batch::operator=(Batch&& other) noexcept {
  drop();
  tensors_ = std::move(other.tensors_);
  copied_ = std::move(other.copied_);
  return *this;
}
Uploads::Batch::~Batch() { drop(); }

void Uploads::Batch::drop() noexcept {
  try {
    take();
  } catch (const Error&) { // a device that failed says so at its next use; a child of fork() hands nothing out
  }
}

std::vector<Tensor> Uploads::Batch::take() {
  if (const std::shared_ptr<const Event> copied = std::move(copied_); copied != nullptr) copied->wait(Lane::compute);
  return std::move(tensors_);
}

Uploads::Uploads(Device device) : device_(device) {
  require_device(device);
  if (device.is_cpu()) return;
  for (std::size_t i = 0; i < places; ++i) pinned_.push_back(std::make_unique<Pinned>(device));
}

Uploads::~Uploads() = default;

Uploads::Batch Uploads::begin(std::vector<Tensor> batch) {
  const Clock::time_point began = recording() ? Clock::now() : Clock::time_point();
  double bytes = 0;
  for (const Tensor& x : batch)
    if (x.defined() && x.device() != device_) bytes += static_cast<double>(x.nbytes());
  std::shared_ptr<const Event> copied;
  {
    const PauseRecording pause;
    if (!device_.is_cpu()) copied = copy(batch);
  }
  if (bytes > 0 && recording()) notify_recorders(Activity{"copy of a batch", {.flops = 0, .bytes = bytes}, began});
  return {std::move(batch), std::move(copied)};
}

/// Puts tensors on the device in the places of those on the host.
std::shared_ptr<const Uploads::Event> Uploads::copy(std::vector<Tensor>& batch) {
  std::size_t bytes = 0;
  for (Tensor& x : batch) {
    if (!x.defined()) continue;
    if (!x.device().is_cpu() && x.device() != device_) x = transferred(x, device_);
    if (!x.device().is_cpu() || x.numel() == 0) continue;
    if (!x.is_contiguous()) x = packed_copy(x);
    bytes += aligned(x.nbytes());
  }
  Pinned& pinned = *pinned_[next_];
  std::byte* const host = bytes > 0 ? pinned.of_size(bytes) : nullptr;
  std::vector<Tensor> there = batch;
  for (Tensor& x : there)
    if (x.defined() && x.device() != device_) x = Tensor::empty(x.shape(), x.dtype(), device_);
  std::shared_ptr<Event> copied;
  if (bytes > 0) {
    Event unused(device_); // when the memory is
    copied = std::make_shared<Event>(device_);
    unused.record(Lane::compute);
    unused.wait(Lane::copy);
    std::size_t at = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const Tensor& x = batch[i];
      if (!x.defined() || !x.device().is_cpu() || x.numel() == 0) continue;
      std::memcpy(host + at, x.device_bytes(), x.nbytes());
      require(device_, "copy to the device",
              module_table().copy_pinned(device_.index, there[i].mutable_device_bytes("copy"), host + at, x.nbytes()));
      at += aligned(x.nbytes());
    }
    copied->record(Lane::copy);
    pinned.copied = copied;
    next_ = (next_ + 1) % places;
  }
  batch = std::move(there);
  return copied;
}

} // namespace eg::device
