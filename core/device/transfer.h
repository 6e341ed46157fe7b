#pragma once
// Moves and fills the elements of tensors on devices, unrecorded.

#include "core/tensor.h"

#include <cstddef>

namespace eg::device {

/// A packed copy of x in the memory of `to`.
Tensor transferred(const Tensor& x, Device to);
/// x if it is on the CPU, else a packed copy there.
Tensor on_cpu(const Tensor& x);
/// x, whose elements the host has written, on current_device(): for functions that make tensors.
Tensor on_current_device(const Tensor& x);

/// y[i] = x[i] for tensors of one shape and type, one of them at least on a device. They may share memory where their
/// elements lie alike.
void copy_elements(Tensor& y, const Tensor& x);
/// Every element of y, which is on a device, becomes the one that `element` points to.
void fill_elements(Tensor& y, const std::byte* element);

} // namespace eg::device
