#pragma once
// Declares the options that permuted runs share: which keys, which twins.

#include "permute/blocks_key.h"
#include "permute/permuted_pass.h"
#include "training/option.h"
#include "training/options.h"

namespace eg::training {

template <class O> bool permutes_at_all(const O& o) { return o.permute != permute::PermuteMode::none; }

/// `columns`: whether the options permute any; `how`: the value of --permute that does.
template <class O> void add_key_form(OptionTable<O>& t, bool (*columns)(const O&), const char* how) {
  t.word("key_form", &O::key_form, permute::key_form_named,
         "Which permutations the weights carry: paper, tied, decoupled or residual")
      .idle([=](const O& o) { return unless(columns(o), "no columns are permuted (--permute {})", how); });
}

/// `permutes`: whether the options permute anything.
template <class O> void add_key(OptionTable<O>& t, bool (*permutes)(const O&), const char* help) {
  t.add("key", &O::key, help)
      .must([=](const O& o) { return unless(o.key.empty() || permutes(o), "is given, but nothing is permuted"); })
      .names(OptionPath::input, OnResume::free);
}

template <class O> OptionRow<O, bool O::*> add_twin(OptionTable<O>& t) {
  return t
      .add("twin", &O::twin,
           "Train the plain model beside the permuted one and report how far they drift apart (f64: rounding alone; "
           "f32 with Adam: up to 8e-4 in 60 steps, 4e-5 with --eps 1e-6 --warmup 10)")
      .must([](const O& o) {
        return unless(!o.twin || permutes_at_all(o), "needs a permutation to compare with: give permute");
      });
}

/// `several`: whether models are trained side by side.
template <class O> void add_drift(OptionTable<O>& t, bool (*several)(const O&)) {
  t.add("drift_every", &O::drift_every, "Steps between measurements of the drift (0: at the end only)")
      .must(not_negative)
      .idle([=](const O& o) { return unless(several(o), "there is no twin to drift from (--twin)"); })
      .resumes(OnResume::free);
}

/// What is wrong with dropout where models are trained side by side; "" for nothing.
inline std::string dropout_of_twins(bool several, double dropout) {
  return unless(!several || dropout == 0.0,
                "must be 0 for twins: masks are drawn by place, so a permuted twin would drop other elements");
}

/// Throws ValueError where models that are trained side by side would not all take every step.
template <class O> void check_twins(const O& o, bool several) {
  const char* why = "is for one model: of twins each would skip steps of its own, by the rounding of its loss";
  need(!several || o.spike_guard == 0.0, o, o.spike_guard, why);
  need(!several || o.on_divergence == OnDivergence::stop, o, o.on_divergence, why);
}

} // namespace eg::training
