"""Which queries and keys look at each other when ranks have parts of a sequence: the blocks of each step.

In step j a rank has the keys of the rank j before it. Where each rank has one part of the sequence, in order, a causal
mask hides all of these from the first j ranks, and the last rank has work in every step. Where a rank has two parts,
one from the front and the mirrored one from the back (`Split.mirrored`), every rank has the same work in each step:

| keys are of an earlier rank | front queries see front keys | back queries see front keys |
|---|---|---|
| keys are of a later rank    | back queries see back keys   | back queries see front keys |

which is two blocks without a mask (Brandon et al., "Striped attention"; zigzag ring attention).
"""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import i32
from blu.dialects.tensor.arithmetic import where
from blu.dialects.tensor.arrangement import concatenate
from blu.dialects.tensor.promotion import as_tensor
from blu.dialects.tensor.tensor import Tensor

FRONT, BACK = 0, 1


@dataclass(frozen=True)
class SequenceRows:
    """What has rows of a rank's positions, [.., T, X], whole and in its parts along T."""

    whole: Tensor
    parts: tuple[Tensor, ...]

    @classmethod
    def of(cls, whole: Tensor, count: int) -> SequenceRows:
        """A tensor in equal parts."""
        return cls(whole, tuple(split(whole, count)))


@dataclass(frozen=True)
class Choice:
    """The rows of a block: all of them, or those of a part; with `otherwise`, of that part unless `condition` holds."""

    part: int | None = None
    otherwise: int | None = None
    condition: Tensor | None = None

    def take(self, rows: SequenceRows) -> Tensor:
        """These rows."""
        if self.part is None:
            return rows.whole
        if self.otherwise is None:
            return rows.parts[self.part]
        return where(self.condition, rows.parts[self.part], rows.parts[self.otherwise])

    def give(self, rows: Tensor, count: int, nothing: float | None = None) -> list[tuple[int, Tensor]]:
        """What was found for these rows, by the numbers of parts; `nothing` for a part that was not chosen.

        Without `nothing` it is the same for both parts that might be.
        """
        if self.part is None:
            return list(enumerate(split(rows, count)))
        if self.otherwise is None:
            return [(self.part, rows)]
        if nothing is None:
            return [(self.part, rows), (self.otherwise, rows)]
        other = as_tensor(nothing, rows.dtype)
        chosen = where(self.condition, rows, other), where(self.condition, other, rows)
        return list(zip((self.part, self.otherwise), chosen, strict=True))


@dataclass(frozen=True)
class ScoreBlock:
    """Queries that look at keys."""

    queries: Choice = Choice()
    keys: Choice = Choice()
    causal: bool = False
    offset: Tensor | None = None


def blocks_of(step: int, index: Tensor, rows: int, *, causal: bool, is_mirrored: bool) -> list[ScoreBlock]:
    """Those of a step of the rank `index`, whose part of the sequence has `rows` positions."""
    if not causal:
        return [ScoreBlock()]
    if step == 0:
        return [ScoreBlock(causal=True)]  # its own parts are in order
    is_earlier = index >= step
    if is_mirrored:
        one_of_them = Choice(FRONT, BACK, is_earlier)
        return [ScoreBlock(Choice(BACK), Choice(FRONT)), ScoreBlock(one_of_them, one_of_them)]
    all_or_none = where(is_earlier, as_tensor(rows, i32), as_tensor(-rows, i32))
    return [ScoreBlock(causal=True, offset=all_or_none)]


def split(rows: Tensor, count: int) -> list[Tensor]:
    """Equal parts along dimension -2."""
    if count == 1:
        return [rows]
    size = rows.shape[-2] // count
    return [rows[..., size * part : size * (part + 1), :] for part in range(count)]


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Parts along dimension -2 in one."""
    return concatenate(list(parts), axis=-2)
