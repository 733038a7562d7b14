"""`blu.ctc_loss` beside torch's: losses, gradients, targets that cannot be spelled, lengths of 0, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import blu
from blu.errors import BluError

FRAMES, BATCH, CLASSES, LONGEST = 12, 4, 6, 5
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(FRAMES, BATCH, CLASSES))
TARGETS = RNG.integers(1, CLASSES, size=(BATCH, LONGEST))
TARGETS[1] = 2  # with the blanks between, nine frames are the least
SPELLED, ENDLESS = (np.array([12, 9, 0, 3]), np.array([5, 5, 0, 3])), (np.array([12, 8, 9, 2]), np.array([5, 5, 0, 3]))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("lengths", "zero"), [(SPELLED, False), (ENDLESS, False), (ENDLESS, True)])
def test_losses_and_gradients_are_torchs(reduction: str, lengths: tuple[np.ndarray, ...], zero: bool) -> None:
    @blu.jit
    def run(logits: Any, frames: Any, lengths: Any) -> Any:
        def loss(logits: Any) -> Any:
            spelled = blu.log_softmax(logits)
            return blu.ctc_loss(spelled, TARGETS, frames, lengths, reduction=reduction, zero_infinity=zero)

        return loss(logits), blu.grad(lambda logits: blu.sum(loss(logits)))(logits)

    ours, gradient = run(LOGITS, *lengths)
    given = torch.tensor(LOGITS, requires_grad=True)
    frames, counts = map(torch.tensor, lengths)
    theirs = torch.nn.functional.ctc_loss(
        given.log_softmax(-1), torch.tensor(TARGETS), frames, counts, reduction=reduction, zero_infinity=zero
    )
    theirs.sum().backward()
    assert given.grad is not None
    np.testing.assert_allclose(np.asarray(ours), theirs.detach(), rtol=1e-10)
    np.testing.assert_allclose(np.asarray(gradient), given.grad.nan_to_num(), rtol=1e-8, atol=1e-12)


def test_another_blank_and_what_is_not_counted() -> None:
    targets = np.where(np.arange(LONGEST) < 3, TARGETS - 1, -7)
    arguments = np.full(BATCH, FRAMES), np.full(BATCH, 3)
    spelled = torch.tensor(LOGITS).log_softmax(-1)
    theirs = torch.nn.functional.ctc_loss(
        spelled, torch.tensor(targets[:, :3]), *map(torch.tensor, arguments), blank=CLASSES - 1
    )
    ours = blu.nn.CTCLoss(blank=CLASSES - 1)(spelled.numpy(), targets, *arguments)
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": TARGETS.reshape(-1)}, r"targets \[N, S\].*i64\[20\]"),
        ({"target_lengths": np.ones(3, np.int64)}, r"lengths must be \[N\], 4"),
        ({"blank": 6}, "blank=6 is none of 6 classes"),
        ({"reduction": "all"}, "reduction must be one of"),
    ],
)
def test_errors(change: dict[str, Any], message: str) -> None:
    own = {"targets": TARGETS, "input_lengths": SPELLED[0], "target_lengths": SPELLED[1]}
    with pytest.raises(BluError, match=message):
        blu.ctc_loss(LOGITS, **(own | change))
