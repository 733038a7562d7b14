"""The threads' registers, and the instructions of PTX that compute with them, each decoded once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from tests.support.ptx.computing import form_of
from tests.support.ptx.program import UNSIGNED, Instruction, Program, dtype_of, type_named
from tests.support.ptx.registers import Lanes, Registers, Team, bits_of, bytes_of, is_literal, read_dtype, source
from tests.support.ptx.rounding import as_stored, read_as


@dataclass(kw_only=True)
class Arithmetic:
    """Each register is an array with an element for each thread; `_do_x` runs an instruction x for active threads."""

    threads: int
    program: Program
    registers: Registers = field(init=False)
    # The only threads that ever wrote to a register: nobody reads what others have there.
    writers: dict[str, Lanes] = field(default_factory=dict)
    team: Team = field(default_factory=Team)
    # Threads that were asked for last: most instructions follow others of the same threads.
    asked: Lanes = field(init=False)

    def __post_init__(self) -> None:
        self.registers = Registers(self.threads)
        self.asked = self.team.of(np.ones(self.threads, np.bool_))

    def _asked(self, active: np.ndarray) -> Lanes:
        if self.asked.active is not active:
            self.asked = self.team.of(active)
        return self.asked

    def _numbers_of(self, active: np.ndarray) -> np.ndarray:
        """The numbers of the active threads."""
        return self._asked(active).numbers

    def _is_all(self, active: np.ndarray) -> bool:
        return self._asked(active).are_all

    def _chosen(self, active: np.ndarray, *values: np.ndarray) -> tuple[np.ndarray, ...]:
        """What each of some arrays [threads] has for the active threads."""
        return values if self._is_all(active) else tuple(value[self._numbers_of(active)] for value in values)

    def _read(self, operand: str, bits: int, kind: str = "b") -> np.ndarray:
        """An operand's value in every thread, as a type of so many bits."""
        dtype = read_dtype(kind, bits)
        value = self.registers[source(operand, dtype)]
        return value if value.dtype is dtype else read_as(value, dtype)

    def _stored(self, operand: str, bits: int, floats: dict[str, tuple[str, int]]) -> np.ndarray:
        """What a store of so many bits writes: of a wider register of `floats`, as ptxas 13.0 has it, the number
        converted to an unsigned integer."""
        kind, width = floats.get(operand, ("b", 0))
        if width <= bits:
            return self._read(operand, bits)
        number = np.trunc(self._read(operand, width).view(dtype_of(kind, width)).astype(np.float64))
        most = float(np.iinfo(UNSIGNED[bits]).max)
        return np.clip(np.nan_to_num(number, nan=0.0), 0.0, most).astype(UNSIGNED[bits])

    def _write(self, name: str, value: np.ndarray, active: np.ndarray) -> None:
        self.put(name, value if value.flags.c_contiguous else np.ascontiguousarray(value), self._asked(active))

    def set(self, item: Instruction, value: np.ndarray, lanes: Lanes) -> None:
        """Let the register that an instruction computes have a value in some threads."""
        name = item.target
        if value.itemsize != item.target_bytes:
            self.put(name, value, lanes)
        elif self.writers.get(name) is lanes:
            self.registers[name] = value
        else:
            self._keep(name, value, lanes)

    def put(self, name: str, value: np.ndarray, lanes: Lanes) -> None:
        """Let a register have a value in some threads."""
        self._keep(name, as_stored(value, bits_of(name)), lanes)

    def _keep(self, name: str, value: np.ndarray, lanes: Lanes) -> None:
        """The same of a value of the register's size."""
        registers, writers = self.registers, self.writers
        if writers.get(name) is not lanes:
            if lanes.are_all or name not in registers:
                writers[name] = lanes
            elif name not in self.program.temporaries:
                value = np.where(lanes.active, value, read_as(registers[name], value.dtype))
                writers.pop(name, None)
        registers[name] = value

    def _do_mov(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        """Numbers put together, or taken apart."""
        bits = type_named(parts[-1])[1]
        target, sources = operands
        if isinstance(target, tuple):
            narrow = self._read(sources, bits).view(UNSIGNED[bits // len(target)]).reshape(-1, len(target))
            for place, name in enumerate(target):
                self._write(name, narrow[:, place], active)
        else:
            narrow = np.stack([self._read(name, bits // len(sources)) for name in sources], -1)
            self._write(target, narrow.view(UNSIGNED[bits])[:, 0], active)

    def _do_shf(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        assert parts[1:3] == ["r", "wrap"], parts
        low, high, count = (self._read(name, 32).astype(np.uint64) for name in operands[1:])
        self._write(operands[0], ((high << np.uint64(32) | low) >> (count & np.uint64(31))).astype(np.uint32), active)

    def _do_bfe(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        """Bits `first` to `first + length`, the last of which is a sign where the type has one."""
        kind, bits = type_named(parts[-1])
        value = self._read(operands[1], bits, kind)
        first, length = (self._read(name, 32).astype(value.dtype) for name in operands[2:])
        assert ((length > 0) & (first + length <= bits))[active].all(), f"{'.'.join(parts)} of bits that there are not"
        rest = np.where(active, bits - length, 0).astype(value.dtype)
        self._write(operands[0], value << (rest - np.where(active, first, 0).astype(value.dtype)) >> rest, active)

    def _do_prmt(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        low, high, chosen = (self._read(name, 32).astype(np.uint64) for name in operands[1:])
        assert parts[1:] == ["b32"], parts
        both, value = high << np.uint64(32) | low, np.zeros_like(low)
        for place in range(4):
            origin = chosen >> np.uint64(4 * place)
            byte = both >> ((origin & np.uint64(7)) * np.uint64(8)) & np.uint64(0xFF)
            signs = np.where(byte >> np.uint64(7), np.uint64(0xFF), np.uint64(0))
            value |= np.where(origin & np.uint64(8), signs, byte) << np.uint64(8 * place)
        self._write(operands[0], value.astype(np.uint32), active)

    def _do_setp(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        """Two numbers of 16 bits in each operand, and a predicate for each in `%p1|%p2`."""
        assert parts[-1].endswith("x2"), parts
        form = form_of(".".join(parts).removesuffix("x2"), len(operands))
        assert form
        pairs = [self._read(operands[place], 32).view(dtype).reshape(-1, 2) for place, dtype in form.sources]
        for place, predicate in enumerate(operands[0].split("|")):
            self._write(predicate, form.compute(*(np.ascontiguousarray(each[:, place]) for each in pairs)), active)


Run = Callable[[Arithmetic, Lanes, Instruction], None]


def decode(item: Instruction) -> bool:
    """Note how an instruction is run; whether it only computes a register."""
    operands, name = item.operands, item.name
    last = operands[2] if len(operands) == 3 and name.startswith("sh") else ""
    known = _run_of(name, len(operands), last if last and is_literal(last) else "")
    if known is None or (name.startswith("mov") and tuple in map(type, operands)):
        item.run = _by_handler
        return False
    item.run, sources = known
    item.target, item.target_bytes = operands[0], bytes_of(operands[0])
    item.sources = tuple([source(operands[place], dtype) for place, dtype in sources])
    return True


@cache
def _run_of(name: str, count: int, shift: str) -> tuple[Run, tuple[tuple[int, np.dtype], ...]] | None:
    """What runs instructions of a name, and the places and dtypes of their sources."""
    form = form_of(name, count, shift)
    return form and (_RUNS[len(form.sources) - 1](form.compute, *(dtype for _, dtype in form.sources)), form.sources)


def _by_handler(machine: Arithmetic, lanes: Lanes, item: Instruction) -> None:
    handler = getattr(machine, item.handler, None)
    assert handler is not None, f"the machine does not know {item.name} (line {item.line})"
    machine.asked = lanes
    handler(item.parts, item.operands, lanes.active)


def _of_one(compute: Callable, dtype: np.dtype) -> Run:
    def run(machine: Arithmetic, lanes: Lanes, item: Instruction) -> None:
        value = machine.registers[item.sources[0]]
        value = compute(value if value.dtype is dtype else read_as(value, dtype))
        machine.set(item, value, lanes)

    return run


def _of_two(compute: Callable, of_left: np.dtype, of_right: np.dtype) -> Run:
    def run(machine: Arithmetic, lanes: Lanes, item: Instruction) -> None:
        left, right = item.sources
        first, second = machine.registers[left], machine.registers[right]
        first = first if first.dtype is of_left else read_as(first, of_left)
        value = compute(first, second if second.dtype is of_right else read_as(second, of_right))
        machine.set(item, value, lanes)

    return run


def _of_three(compute: Callable, of_left: np.dtype, of_right: np.dtype, of_more: np.dtype) -> Run:
    def run(machine: Arithmetic, lanes: Lanes, item: Instruction) -> None:
        registers, (left, right, more) = machine.registers, item.sources
        first, second, third = registers[left], registers[right], registers[more]
        first = first if first.dtype is of_left else read_as(first, of_left)
        second = second if second.dtype is of_right else read_as(second, of_right)
        value = compute(first, second, third if third.dtype is of_more else read_as(third, of_more))
        machine.set(item, value, lanes)

    return run


_RUNS: tuple[Callable[..., Run], ...] = (_of_one, _of_two, _of_three)
