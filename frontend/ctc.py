"""The loss of sequences without an alignment (Graves and others, 2006): `ctc_loss`."""

from __future__ import annotations

from typing import Any

from blu.dialects.core.dtypes import computing_dtype
from blu.dialects.tensor.arithmetic import equal, less, logaddexp, logical_and, maximum, not_equal, where
from blu.dialects.tensor.arrangement import broadcast_to, concatenate, expand_dims, stack
from blu.dialects.tensor.basic_indexing import as_indices
from blu.dialects.tensor.folding import logsumexp
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError
from blu.frontend.functional.creation import full, iota
from blu.frontend.functional.indexing import take_along_axis
from blu.frontend.functional.losses.losses import check_reduction, reduced
from blu.frontend.loops import scan

__all__ = ["ctc_loss"]

# The logarithm of a probability of 0: finite, so that differences of two of them and their gradients are numbers.
NEVER, IMPOSSIBLE = -1e30, 1e29


@public
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability that frames spell targets, over all alignments with repetitions and blanks.

    log_probs [T, N, C] are log-probabilities of C classes in each of T frames; targets [N, S] are integers other than
    `blank`, of which `target_lengths` [N] count, as `input_lengths` [N] of the frames do. The result is the "sum" or
    all ("none") of the N losses, or the mean of what each loss is over its target's length. Where a target has more
    elements than its frames can spell, the loss is infinite, or 0 with `zero_infinity`; its gradient is 0 then.
    ShapeError for operands of other shapes, ArgumentError for a `blank` that is no class.
    """
    check_reduction(reduction)
    (given,) = promoted_floats(log_probs)
    labels, frames, lengths = (as_indices(value) for value in (targets, input_lengths, target_lengths))
    _check(given, labels, frames, lengths, blank)
    scores = given.astype(computing_dtype(given.dtype))
    spelled = _with_blanks(labels, lengths, blank)
    places = broadcast_to(expand_dims(spelled, 0), (scores.shape[0], *spelled.shape))
    final = _forward(take_along_axis(scores, places, axis=2), spelled, frames, blank)
    losses = _at_the_end(final, lengths)
    unlikely = less(IMPOSSIBLE, losses)
    losses = where(unlikely, 0.0 if zero_infinity else float("inf"), losses)
    if reduction == "mean":
        losses = losses / maximum(lengths, 1).astype(losses.dtype)
    return reduced(losses, reduction)


def _check(scores: Tensor, labels: Tensor, frames: Tensor, lengths: Tensor, blank: int) -> None:
    if scores.ndim != 3 or labels.ndim != 2 or labels.shape[0] != scores.shape[1]:
        raise ShapeError(
            f"ctc_loss: log_probs must be [T, N, C] and targets [N, S], got {scores.type} and {labels.type}",
            advice="Targets that lie one after the other have to be padded to one length.",
        )
    if frames.shape != labels.shape[:1] or lengths.shape != labels.shape[:1]:
        raise ShapeError(f"ctc_loss: lengths must be [N], {labels.shape[0]}, got {frames.type} and {lengths.type}")
    if not 0 <= blank < scores.shape[2]:
        raise ArgumentError(f"ctc_loss: blank={blank} is none of {scores.shape[2]} classes")


def _with_blanks(labels: Tensor, lengths: Tensor, blank: int) -> Tensor:
    """[N, 2 S + 1]: the targets with a blank before, between and after them; blanks also where none count."""
    count = labels.shape[1]
    counted = less(iota((1, count), 1, dtype=lengths.dtype), expand_dims(lengths, 1))
    own = where(counted, labels, blank)
    blanks = full(own.shape, blank, own.dtype)
    pairs = stack([blanks, own], axis=2).reshape((own.shape[0], 2 * count))
    return concatenate([pairs, full((own.shape[0], 1), blank, own.dtype)], axis=1)


def _forward(scores: Tensor, spelled: Tensor, frames: Tensor, blank: int) -> Tensor:
    """Logarithms of the probability to have come to each place of what is spelled after the last frame: [N, 2 S + 1].

    scores [T, N, 2 S + 1] are those of the places.
    """
    before = concatenate([full((spelled.shape[0], 2), blank, spelled.dtype), spelled], axis=1)[:, : spelled.shape[1]]
    may_skip = logical_and(not_equal(spelled, blank), not_equal(spelled, before))
    place = iota(spelled.shape, 1, dtype=spelled.dtype)
    begun = where(equal(place, 0), full(spelled.shape, 0.0, scores.dtype), NEVER)

    def step(reached: Tensor, given: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        frame, score = given
        skipped = where(may_skip, _moved(reached, 2), NEVER)
        after = logaddexp(logaddexp(reached, _moved(reached, 1)), skipped) + score
        return where(less(frame, expand_dims(frames, 1)), after, reached), None

    last, _ = scan(step, begun, (iota((scores.shape[0],), 0, dtype=frames.dtype), scores))
    return last


def _moved(reached: Tensor, count: int) -> Tensor:
    """What is `count` places before each."""
    never = full((reached.shape[0], count), NEVER, reached.dtype)
    return concatenate([never, reached], axis=1)[:, : reached.shape[1]]


def _at_the_end(final: Tensor, lengths: Tensor) -> Tensor:
    """The losses [N]: all is spelled at the last target, and at the blank after it."""
    end = expand_dims(lengths * 2, 1)
    apart = end - iota(final.shape, 1, dtype=end.dtype)
    return -logsumexp(where(logical_and(less(-1, apart), less(apart, 2)), final, NEVER), axis=1)
