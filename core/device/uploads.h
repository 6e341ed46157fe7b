#pragma once
// Copies batches from the host to a device on its copy stream, while the device computes.

#include "core/tensor.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace eg::device {

/// Copies batches of tensors to one device through pinned memory of its own, so that the host waits for no copy. On the
/// CPU batches are handed through. Used by one thread at a time.
///
/// Three waits keep the order. The copy stream waits for the compute stream before it writes: the memory may have
/// belonged to a tensor that queued work still reads. The compute stream waits for the copy when a batch is taken or
/// dropped: so the device's cache may hand its memory out again like all other memory. The host waits for the copy
/// before it writes into the same pinned memory again.
class Uploads {
  class Event;
  struct Pinned;

public:
  /// A batch whose copy is queued.
  class Batch {
  public:
    /// Drops the batch where it was not taken.
    ~Batch();
    Batch(Batch&& other) noexcept;
    Batch& operator=(Batch&& other) noexcept;
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

    /// Gives the tensors, once. Work that is queued from now on runs after their copy. Throws DeviceError.
    std::vector<Tensor> take();

  private:
    friend class Uploads;
    Batch(std::vector<Tensor> tensors, std::shared_ptr<const Event> copied);
    void drop() noexcept;
    std::vector<Tensor> tensors_;
    std::shared_ptr<const Event> copied_; ///< null where nothing was copied
  };

  /// Throws DeviceError where there is no such device.
  explicit Uploads(Device device);
  ~Uploads();
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  /// Queues the copy of a batch. Its elements are read before this returns. Undefined tensors and tensors on the device
  /// are handed through. Throws MemoryError and DeviceError.
  Batch begin(std::vector<Tensor> batch);

private:
  std::shared_ptr<const Event> copy(std::vector<Tensor>& batch);

  Device device_;
  std::vector<std::unique_ptr<Pinned>> pinned_; ///< used in turn
  std::size_t next_ = 0;
};

} // namespace eg::device
