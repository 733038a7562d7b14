"""Registers of threads, and which of the threads run."""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np

from tests.support.ptx.program import FLOAT, SIGNED, UNSIGNED, constant

WARP, WARPGROUP = 32, 128
_BITS = {"%p": 1, "p": 1, "%rs": 16, "%r": 32, "%rd": 64, "%f": 32, "%fd": 64}
_LETTERS = re.compile(r"%?[a-z]*")
_DTYPES = {
    **{("b", bits): np.dtype(each) for bits, each in UNSIGNED.items()},
    **{("u", bits): np.dtype(each) for bits, each in UNSIGNED.items()},
    **{("s", bits): np.dtype(each) for bits, each in SIGNED.items()},
    **{("f", bits): np.dtype(each) for bits, each in FLOAT.items()},
}
_CODES = {dtype: dtype.str for dtype in _DTYPES.values()}


def bits_of(register: str) -> int:
    """The bits of a register, which its name says, up to what is no letter."""
    return _BITS.get(register.rstrip("0123456789")) or _BITS.get(_LETTERS.match(register)[0], 16)


def bytes_of(register: str) -> int:
    """Bytes of a number in a register's array."""
    return max(1, bits_of(register) // 8)


def read_dtype(kind: str, bits: int) -> np.dtype:
    """The dtype that numbers of a kind and so many bits are computed in."""
    return _DTYPES[kind, bits]


def is_literal(operand: str | tuple) -> bool:
    """Whether an operand is a number, or the address of shared memory, which is 0."""
    return operand[0] in "-0123456789" or operand == "blu_shared"


def source(operand: str, dtype: np.dtype) -> str:
    """Under which name registers have what an operand is as a dtype: a register's own, or that of a literal."""
    return operand if operand[0] == "%" or not is_literal(operand) else f"{operand}:{_CODES[dtype]}"


class Registers(dict[str, np.ndarray]):
    """An array for each register, and for each literal that was asked for, with an element for each thread.

    Arrays are never changed: an instruction puts another in the place of one. Its dtype is one of the register's size.
    """

    def __init__(self, threads: int):
        super().__init__()
        self._threads = threads

    def __missing__(self, name: str) -> np.ndarray:
        operand, is_read_as, text = name.partition(":")
        assert is_read_as, f"{name} is read before it is written"
        dtype = np.dtype(text)
        number = 0 if operand == "blu_shared" else constant(operand, 1 if dtype.kind == "b" else 8 * dtype.itemsize)
        found = self[name] = np.full(self._threads, number, UNSIGNED[_width(dtype)]).view(dtype)
        found.flags.writeable = False
        return found


def _width(dtype: np.dtype) -> int:
    return 1 if dtype.kind == "b" else 8 * dtype.itemsize


class Lanes:
    """Some of the threads, and what is asked of them again and again."""

    def __init__(self, active: np.ndarray, key: bytes):
        self.active, self.key = active, key
        self.count = key.count(1)
        self.are_all = self.count == len(active)

    @cached_property
    def numbers(self) -> np.ndarray:
        """Which ones they are."""
        return self.active.nonzero()[0]

    @cached_property
    def groups(self) -> list[int]:
        """The warpgroups that they are in."""
        return sorted(set((self.numbers // WARPGROUP).tolist()))

    @cached_property
    def of_whole_warps(self) -> Lanes:
        """Those of warps that are all there."""
        return self._of_whole(WARP)

    @cached_property
    def of_whole_groups(self) -> Lanes:
        """Those of warpgroups that are all there."""
        return self._of_whole(WARPGROUP)

    def _of_whole(self, size: int) -> Lanes:
        if self.are_all:
            return self
        whole = np.repeat(self.active.reshape(-1, size).all(axis=1), size)
        key = whole.tobytes()
        return self if key == self.key else Lanes(whole, key)


class Team(dict[bytes, Lanes]):
    """The threads that were asked for, by a byte for each."""

    _MOST = 4096

    def of(self, active: np.ndarray) -> Lanes:
        """Those that are active."""
        key = active.tobytes()
        found = self.get(key)
        if found is None:
            if len(self) == self._MOST:
                self.clear()
            found = self[key] = Lanes(active, key)
        return found
