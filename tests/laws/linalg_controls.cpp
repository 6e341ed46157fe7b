// How the rows of linear algebra move under permutations, with the symmetries that they do not have: each must be
// caught.

#include "controls.h"
#include "core/call.h"
#include "core/ops.h"
#include "core/registry.h"
#include "support/laws.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace eg;
using laws::must_accept;
using laws::must_catch;
using laws::spoiled;

namespace {

/// A row that declares one more symmetry.
template <class Make> OpDef with(const char* name, Make) {
  return spoiled(name, [](OpDef& op) {
    op.symmetries = [](const Sample& sample) { return std::vector<Symmetry>{Make{}(sample)}; };
  });
}

/// Legs on input 0 (rows, columns) and on outputs.
template <bool rows, bool columns, int first_axis, int second_axis = 0> struct Claim {
  Symmetry operator()(const Sample&) const {
    Symmetry claim{.name = "claim", .legs = {}};
    if (rows) claim.legs.push_back(in_leg(0, -2));
    if (columns) claim.legs.push_back(in_leg(0, -1));
    if (first_axis != 0) claim.legs.push_back(out_leg(0, first_axis));
    if (second_axis != 0)
      claim.legs.push_back(out_leg(second_axis > 0 ? 1 : 0, second_axis > 0 ? -second_axis : second_axis));
    return claim;
  }
};

} // namespace

// CTest runs this file twice, the second time with EQUIGRAD_LINALG=own: the laws hold by either engine.
TEST_CASE("rows of linear algebra keep the laws, and move as they declare") {
  for (const char* name :
       {"cholesky", "solve", "solve_triangular", "inv", "pinv", "det", "slogdet", "qr", "eigh", "svd"})
    for (const laws::Law law : {laws::symmetry_law, laws::backward_symmetry_law, laws::reference_law,
                                laws::gradient_law, laws::second_derivative_law, laws::layout_law, laws::placement_law,
                                laws::small_extent_law, laws::dtype_law, laws::errors_law, laws::exact_law})
      must_accept(law, name);
}

TEST_CASE("and no others: cholesky") {
  must_catch(laws::symmetry_law, "chol(P A P^T) = P chol(A)", with("cholesky", Claim<true, true, -2>{}));
  must_catch(laws::symmetry_law, "chol(P A P^T) = P chol(A) P^T", with("cholesky", Claim<true, true, -2, -1>{}));
  must_catch(laws::symmetry_law, "chol(P A P^T) = chol(A)", with("cholesky", Claim<true, true, 0>{}));
}

TEST_CASE("and no others: inverse, systems, determinants") {
  must_catch(laws::symmetry_law, "inv(P A) = P inv(A)", with("inv", Claim<true, false, -2>{}));
  must_catch(laws::symmetry_law, "inv(A Q) = inv(A) Q", with("inv", Claim<false, true, -1>{}));
  must_catch(laws::symmetry_law, "pinv(P A) = pinv(A)", with("pinv", Claim<true, false, 0>{}));
  must_catch(laws::symmetry_law, "solve(P A, B) = solve(A, B)", with("solve", Claim<true, false, 0>{}));
  must_catch(laws::symmetry_law, "solve(A Q, B) = solve(A, B)", with("solve", Claim<false, true, 0>{}));
  must_catch(laws::symmetry_law, "triangles stay where rows and columns move",
             with("solve_triangular", Claim<true, true, -2>{}));
  must_catch(laws::symmetry_law, "det(P A) = det A", with("det", Claim<true, false, 0>{}));
  must_catch(laws::symmetry_law, "slogdet(A Q) = slogdet A", with("slogdet", Claim<false, true, 0>{}));
}

TEST_CASE("and no others: qr, eigh, svd") {
  must_catch(laws::symmetry_law, "qr(A Q) = (Q', R Q)", with("qr", Claim<false, true, 0, 1>{}));
  must_catch(laws::symmetry_law, "qr(P A) = (Q, R)", with("qr", Claim<true, false, 0>{}));
  must_catch(laws::symmetry_law, "eigh(P A P^T): vectors stay", with("eigh", Claim<true, true, 0>{}));
  must_catch(laws::symmetry_law, "eigh(P A P^T): values move", with("eigh", Claim<true, true, -1, 2>{}));
  must_catch(laws::symmetry_law, "svd(P A): u stays", with("svd", Claim<true, false, 0>{}));
  must_catch(laws::symmetry_law, "svd(A Q): vh stays", with("svd", Claim<false, true, 0>{}));
}

TEST_CASE("without its refusal of exact mode, elimination is not exact") {
  for (const char* name : {"solve", "inv", "qr", "eigh", "svd"}) {
    must_accept(laws::exact_law, name);
    must_catch(laws::exact_law, name, spoiled(name, [](OpDef& op) { op.no_exact = {}; }));
  }
}
