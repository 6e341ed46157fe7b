#include "core/reduction.h"
#include "core/registry.h"
#include "support/laws.h"

#include <doctest/doctest.h>

#include <string>

using namespace eg;

namespace {

void pass_everywhere(laws::Law law) {
  for (const OpDef* op : registry()) {
    if (!op->no_exact.empty() && reduction() == Reduction::exact) continue; // exact_law asks it
    const laws::Verdict verdict = law(*op);
    CHECK_MESSAGE(verdict.pass(), std::string(op->name), ":", verdict.text());
  }
}

} // namespace

TEST_CASE("an offset that counts for nothing costs no digits") { pass_everywhere(laws::offset_law); }

TEST_CASE("large inputs give what moderate ones foretell") { pass_everywhere(laws::large_law); }

TEST_CASE("the same of exact reductions") {
  const ReductionScope exact(Reduction::exact);
  pass_everywhere(laws::offset_law);
  pass_everywhere(laws::large_law);
}

TEST_CASE("the rows that promise to take no notice of an offset are asked") {
  for (const char* name : {"softmax", "log_softmax", "masked_softmax", "cross_entropy", "soft_cross_entropy",
                           "layer_norm", "layer_norm_backward", "group_norm", "instance_norm", "batch_norm",
                           "batch_norm_backward", "center", "var", "std", "mse_loss", "l1_loss", "sub"}) {
    const laws::Verdict verdict = laws::offset_law(find_op(name));
    CHECK_MESSAGE(verdict.checked > 0, std::string(name));
  }
}

TEST_CASE("nearly every row is asked what it does with large inputs") {
  int asked = 0;
  for (const OpDef* op : registry()) asked += laws::large_law(*op).checked > 0 ? 1 : 0;
  CHECK(asked > 140);
}
