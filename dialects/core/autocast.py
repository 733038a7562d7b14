"""The policies of automatic mixed precision, and how ops remember the policy that they were traced under.

| policy | what it means for contractions and attention of f32 |
|---|---|
| bf16, f16 | operands are rounded to that dtype, products summed in f32, results stored in that dtype |
| tf32 | operands of products are rounded to 10 bits of fraction where the target multiplies so; all else is f32 |
| f32 | IEEE f32, also for ops that ask for a lower precision |
"""

from __future__ import annotations

from blu.errors import ArgumentError

# For each policy the precision of contractions.
POLICIES = {"bf16": "bf16", "f16": "f16", "tf32": "tf32", "f32": "highest"}
# The dtypes that policies store results in.
HALVES = ("bf16", "f16")
# The ops that a policy is about, and the attribute that says which one; it goes when the pass `autocast` has run.
GOVERNED = ("matmul", "einsum", "convolution", "attention", "standardize")
ATTRIBUTE = "blu.autocast"


def check_policy(policy: object) -> str:
    """The policy's name. ArgumentError lists those there are."""
    if not isinstance(policy, str) or policy not in POLICIES:
        raise ArgumentError(f"autocast does not know the policy {policy!r}", advice=f"One of {', '.join(POLICIES)}.")
    return policy
