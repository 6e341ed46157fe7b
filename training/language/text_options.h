#pragma once
// Declares the options that models of text share: sizes of a transformer.

#include "training/option.h"

namespace eg::training {

/// Sizes are looked at where the run does not begin from a model, which has its own.
template <class O> bool has_sizes(const O& o) { return !o.start.begins(); }
template <class O> std::string sizes_of_start(const O& o) {
  return unless(has_sizes(o), "the model of {} has sizes of its own", o.start.from);
}

/// A row with one of these sizes.
template <class O, class Field> OptionRow<O, Field> size_row(OptionRow<O, Field> row) {
  return row.checked_if(has_sizes<O>).idle(sizes_of_start<O>);
}

/// dim, layers and heads.
template <class O> void add_text_width(OptionTable<O>& t, const char* dim, const char* layers) {
  size_row(t.add("dim", &O::dim, dim)).must(positive, at_most(1 << 16)).must([](const O& o) {
    return unless(o.heads <= 0 || o.dim % o.heads == 0, "{} is not a multiple of heads {}", o.dim, o.heads);
  });
  size_row(t.add("layers", &O::layers, layers)).must(positive, at_most(1 << 16));
  size_row(t.add("heads", &O::heads, "Attention heads")).must(positive, at_most(1 << 16));
}

/// `help`: what 0 stands for differs between families.
template <class O> void add_text_mlp(OptionTable<O>& t, const char* help) {
  size_row(t.add("mlp", &O::mlp, help)).must(not_negative, at_most(1 << 20));
}

} // namespace eg::training
