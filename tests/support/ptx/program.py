"""PTX read into instructions, for the machine of machine.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

import ml_dtypes
import numpy as np

PIECE_BYTES = 16
"""What the widest instructions of a thread access at once, and bulk copies are made of."""
UNSIGNED = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
FLOAT = {32: np.float32, 64: np.float64}
# What a warp, a warpgroup or more threads do together or wait for, and what may end the wait of others.
_COLLECTIVE = (
    "mma", "ldmatrix", "stmatrix", "shfl", "bar", "mbarrier.try_wait", "wgmma", "setmaxnreg", "elect",
    "vote",
)  # fmt: skip
_EVENTS = ("bra", "ret", "mbarrier", "bar", "cp.async.bulk", "st.async", "setmaxnreg")
_TYPE = re.compile(r"^(bf|[busf])(8|16|32|64)$")

_FLOAT = re.compile(r"^b?f\d+$")
_NUMBERS = re.compile(r"^(tf|bf|[busf])\d+(x2)?$")
_SOME_REGISTER = re.compile(r"%\w+")
# What does not write to its first operand, or does not only write to it.
_NO_TARGETS = ("st", "bra", "bar", "barrier", "mbarrier", "cp", "wgmma", "prefetch", "red", "stmatrix")


_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Kind:
    """What all instructions of a name have in common; `float` is the type of a result that ptxas takes for a float."""

    parts: list[str]
    handler: str
    is_collective: bool
    is_event: bool
    float: tuple[str, int] | None


@cache
def kind_named(name: str) -> Kind:
    """The kind of instructions of a name."""
    parts = name.split(".")
    types = [part for part in parts if _NUMBERS.match(part)]
    float_ = type_named(types[0]) if types and _FLOAT.match(types[0]) else None
    return Kind(parts, f"_do_{parts[0]}", name.startswith(_COLLECTIVE), name.startswith(_EVENTS), float_)


class Instruction:
    """One instruction: `@[!]guard name operands`; braces around several registers are a tuple."""

    def __init__(self, guard: str, negated: bool, name: str, operands: tuple, line: int):
        self.guard, self.negated, self.name, self.operands, self.line = guard, negated, name, operands, line
        self.kind = kind_named(name)
        # The name between its points; the machine's method that runs it.
        self.parts, self.handler = self.kind.parts, self.kind.handler
        # What runs it, once it has been decoded; whether that only computes a register, `target`, which has so many
        # bytes, for all active threads; under which names the sources of that are in registers.
        self.run: Callable[..., Any] | None = None
        self.is_plain, self.target, self.target_bytes = False, "", 0
        self.sources: tuple[str, ...] = ()
        # Whether it uses registers of asynchronous products, and which of them it writes.
        self.is_watched, self.of_products = False, _NONE

    @property
    def writes(self) -> bool:
        """Whether the first operand is what it writes, and nothing that it reads."""
        return bool(self.operands) and self.parts[0] not in _NO_TARGETS

    @property
    def targets(self) -> tuple[str, ...]:
        """The first operand, which most instructions write to: a register, or several."""
        return self.operands[0] if isinstance(self.operands[0], tuple) else self.operands[:1]

    @property
    def names(self) -> Sequence[str]:
        """The operands, those in braces one by one."""
        if not any(type(item) is tuple for item in self.operands):
            return self.operands
        return [name for item in self.operands for name in (item if isinstance(item, tuple) else (item,))]

    @cached_property
    def registers(self) -> frozenset[str]:
        """All registers among the operands, those in brackets left out."""
        return frozenset(name for name in self.names if name.startswith("%"))


@dataclass(frozen=True)
class Program:
    """A kernel: instructions, where labels stand among them, threads of a block and blocks of a cluster."""

    instructions: list[Instruction]
    labels: dict[str, int]
    threads: int
    cluster: int

    @cached_property
    def is_collective(self) -> list[bool]:
        """For each instruction, whether threads wait there for others; False after the last one."""
        return [item.kind.is_collective for item in self.instructions] + [False]

    @cached_property
    def is_event(self) -> list[bool]:
        """For each instruction, whether others may have to run after it."""
        return [item.kind.is_event for item in self.instructions]

    @cached_property
    def stops(self) -> list[int]:
        """For each instruction, the first one after it that threads do not come to without looking at others."""
        found = [len(self.instructions)]
        for place in reversed(range(len(self.instructions))):
            found.append(place + 1 if self.is_event[place] or self.is_collective[place + 1] else found[-1])
        return found[:0:-1]

    @cached_property
    def unit(self) -> int:
        """Bytes of the smallest piece of shared memory that an instruction accesses, at most those of a bulk copy's."""
        return min([PIECE_BYTES, *filter(None, map(_shared_bytes, self._of_memory))])

    @cached_property
    def global_unit(self) -> int:
        """The same for global memory; bulk copies may access less."""
        return min([PIECE_BYTES, *filter(None, map(_global_bytes, self._of_memory))])

    @cached_property
    def _of_memory(self) -> list[Instruction]:
        """What may access memory."""
        return [item for item in self.instructions if item.parts[0] in ("ld", "st", "cp")]

    @cached_property
    def temporaries(self) -> frozenset[str]:
        """Registers that nobody has use for but the threads that wrote them, before others come: those that one
        instruction writes, and only those read that stand behind it where threads go straight on together."""
        written: dict[str, int] = {}
        lasting: set[str] = set()
        for stretch, item in self._stretches():
            operands = item.operands
            for operand in (item.guard, *(operands[1:] if item.writes else operands)):
                for name in _registers_in(operand):
                    if written.get(name) != stretch:
                        lasting.add(name)
            for name in item.targets if item.writes else ():
                if item.guard or name in written:
                    lasting.add(name)
                written[name] = stretch
        return frozenset(written) - lasting

    def _stretches(self) -> Iterator[tuple[int, Instruction]]:
        """Each instruction, and the number of the stretch in which it stands: what is run at once or not at all."""
        number, starts = 0, set(self.labels.values())
        for place, item in enumerate(self.instructions):
            number += place in starts or self.is_collective[place]
            yield number, item
            number += self.is_event[place]

    @cached_property
    def sums(self) -> frozenset[str]:
        """Registers of the sums of asynchronous products."""
        products = [item for item in self.instructions if item.name.startswith("wgmma.mma_async")]
        return frozenset(name for item in products for name in item.operands[0])

    @cached_property
    def of_products(self) -> frozenset[str]:
        """Those, and the registers of left factors of such products."""
        products = [item for item in self.instructions if item.name.startswith("wgmma.mma_async")]
        factors = (name for item in products if isinstance(item.operands[1], tuple) for name in item.operands[1])
        return self.sums | frozenset(factors)

    @cached_property
    def floats(self) -> dict[str, tuple[str, int]]:
        """The registers that ptxas takes for floats, and their types: that of the result of an instruction."""
        found: dict[str, tuple[str, int]] = {}
        for item in self.instructions:
            if item.kind.float and item.operands:
                found.update(dict.fromkeys(item.targets, item.kind.float))
        return found


def _registers_in(operand: str | tuple[str, ...]) -> Sequence[str]:
    """All registers that an operand names."""
    if isinstance(operand, tuple):
        return operand
    if operand[:1] == "%" and "|" not in operand:
        return (operand,)
    return _SOME_REGISTER.findall(operand) if "%" in operand else ()


def _shared_bytes(item: Instruction) -> int:
    """Bytes of shared memory that a thread accesses at once, at a multiple of as many; 0: none, or a bulk copy's."""
    first, space, *_ = [*item.parts, ""]
    if item.name.startswith("st.async"):
        return 4
    if first in ("ld", "st") and space.startswith("shared"):
        return _width(item)
    return int(item.operands[2]) if item.name.startswith(("cp.async.ca", "cp.async.cg")) else 0


def _global_bytes(item: Instruction) -> int:
    """Bytes of global memory that a thread accesses at once; 0: none, or a bulk copy's."""
    if item.name.startswith(("ld.global", "st.global")):
        return _width(item)
    if item.name.startswith(("cp.async.ca", "cp.async.cg")):  # some elements of it, if they are counted
        return int(item.operands[2]) if len(item.operands) == 3 else 2
    return 0


def _width(item: Instruction) -> int:
    """Bytes that a load or a store accesses."""
    data = item.operands[0 if item.parts[0] == "ld" else 1]
    return type_named(item.parts[-1])[1] // 8 * (len(data) if isinstance(data, tuple) else 1)


_OPERAND = r"(?:[^,;{}\s\[/]+|\[[^,;{}\s/]+\])"
# What most lines are: an instruction with operands none of which is in braces or has commas.
_SIMPLE = re.compile(rf"\t([a-z]\w*(?:[.:]+\w+)*)[ \t]+({_OPERAND}(?:, {_OPERAND})*);$")


@lru_cache(maxsize=64)
def parse(text: str) -> Program:
    """Read the PTX of a module with one kernel."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    threads = int(re.search(r"\.reqntid (\d+)", text)[1])
    cluster = re.search(r"\.reqnctapercluster (\d+)", text)
    body = text[text.index("{", text.index(".entry")) :]
    for number, line in enumerate(body.splitlines()):
        known = _SIMPLE.match(line)
        if known:
            name, operands = known.groups()
            instructions.append(Instruction("", False, name, tuple(operands.split(", ")), number))
            continue
        if line.startswith("\t//"):
            continue
        line = line.split("//")[0].strip()
        if ".section" in line:
            break
        if line.startswith("$") and line.endswith(":"):
            labels[line[:-1]] = len(instructions)
            continue
        if ".reg" in line and line.startswith("{"):
            line = line[1:].rstrip("} ")
        for part in line.split(";"):
            found = _instruction(part.strip(), number)
            if found:
                instructions.append(found)
    return Program(instructions, labels, threads, int(cluster[1]) if cluster else 1)


def _instruction(text: str, line: int) -> Instruction | None:
    if not text or text[0] in "{}." or text.startswith((".", "pragma")):
        return None
    guard, negated = "", False
    if text.startswith("@"):
        word, text = text.split(None, 1)
        negated, guard = word[1] == "!", word.lstrip("@!")
    name, *rest = text.split(None, 1)
    return Instruction(guard, negated, name, _operands("".join(rest).strip()), line)


def _operands(text: str) -> tuple:
    if "{" not in text and "[" not in text:
        return tuple(part.strip() for part in text.split(",")) if text else ()
    parts = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", text)
    return tuple(
        tuple(item.strip() for item in part[1:-1].split(",")) if part.startswith("{") else part.strip()
        for part in parts
    )


@cache
def type_named(text: str) -> tuple[str, int]:
    """A type's kind (b, u, s, f, bf) and bits."""
    found = _TYPE.match(text)
    assert found, f"no type of PTX that the machine knows: {text}"
    return found[1], int(found[2])


def dtype_of(kind: str, bits: int) -> type:
    """The numpy type of a type."""
    if kind == "bf":
        return ml_dtypes.bfloat16
    if kind == "f":
        return np.float16 if bits == 16 else FLOAT[bits]
    return (SIGNED if kind == "s" else UNSIGNED)[bits]


@cache
def constant(text: str, bits: int) -> np.generic:
    """A literal operand as a number of so many bits."""
    if re.match(r"^0[fd][0-9A-Fa-f]+$", text):
        return UNSIGNED[bits](int(text[2:], 16))
    return UNSIGNED[bits](int(text.rstrip("U"), 0) % (1 << bits)) if bits > 1 else np.bool_(int(text, 0))
