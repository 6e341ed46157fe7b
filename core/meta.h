#pragma once
// Runs models on shapes without values (meta tensors), so that models of any size need no memory.

namespace eg {

/// While it lives, Tensor::empty, zeros, ones and full of this thread give meta tensors, and fill leaves those alone.
class MetaTensorScope {
public:
  MetaTensorScope();
  ~MetaTensorScope();
  MetaTensorScope(const MetaTensorScope&) = delete;
  MetaTensorScope& operator=(const MetaTensorScope&) = delete;
};

/// While it lives, an operation of this thread that is given a meta tensor gives meta tensors: it is checked and
/// reported like any other, and nothing is computed. Operations on tensors with values are as ever.
class MetaCallScope {
public:
  MetaCallScope();
  ~MetaCallScope();
  MetaCallScope(const MetaCallScope&) = delete;
  MetaCallScope& operator=(const MetaCallScope&) = delete;
};

/// While it lives, operations of this thread give meta tensors whatever they are given, and recorders that observe do
/// not get them: for results whose values nobody reads, on a tape that needs to know how they were made. Only for
/// operations whose rule reads no output.
class ShapeOnlyScope {
public:
  ShapeOnlyScope();
  ~ShapeOnlyScope();
  ShapeOnlyScope(const ShapeOnlyScope&) = delete;
  ShapeOnlyScope& operator=(const ShapeOnlyScope&) = delete;
};

/// A scope of this thread lives.
bool making_meta_tensors();
bool is_shape_only();

} // namespace eg
