"""All samples of one op as one program, for tests that compile them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blu.dialects.core.evaluation import evaluate, on_operand
from blu.dialects.core.op import Op, Sample


def flat(operands: tuple) -> list:
    """All operands in a row, absent ones left out."""
    return [item for group in operands if group is not None for item in (group if isinstance(group, list) else [group])]


def regrouped(operands: tuple, values: Sequence[Any]) -> list:
    """`values` in the grouping of `operands`."""
    remaining = iter(values)
    return [on_operand(lambda _: next(remaining), group) for group in operands]


def arrays_of(samples: Sequence[Sample]) -> list[np.ndarray]:
    """The operands of all samples in a row."""
    return [array for sample in samples for array in flat(sample.operands)]


def program_of(cls: type[Op], samples: Sequence[Sample]) -> Callable[[list[Any]], list[Any]]:
    """A function of all the samples' operands that applies the op to each sample."""

    def apply_to_all(tensors: list[Any]) -> list[Any]:
        remaining, results = list(tensors), []
        for sample in samples:
            count = len(flat(sample.operands))
            own, remaining = remaining[:count], remaining[count:]
            found = cls(*regrouped(sample.operands, own), **sample.attributes)
            results.extend(found if isinstance(found, tuple) else (found,))
        return results

    return apply_to_all


def expected_of(cls: type[Op], samples: Sequence[Sample]) -> list[np.ndarray]:
    """The references' results in the order in which the program gives them."""
    return [result for sample in samples for result in evaluate(cls, sample.operands, sample.attributes)]
