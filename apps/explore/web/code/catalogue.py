"""The catalogue of identities: both sides, their difference, and a control that must fail."""

import equigrad as eg

for row in eg.verify("thm4*"):
    print(f"{row.id:10} {row.error:.1e}  control {row.control_error:.1e}  {row.formula}")
    assert row, row
