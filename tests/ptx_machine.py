"""An interpreter of PTX, so that GPU kernels can be checked where there is no GPU.

All threads of a block are lanes of numpy arrays. They run the instruction that comes first in the program among those
where any of them stands, which brings threads together again after a branch; instructions that a whole warp does
together wait for the warp. Copies with `cp.async` arrive when they are waited for, memory that nobody wrote holds NaN,
and an access outside of every buffer is an error. What it cannot find are races between warps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

_UNSIGNED = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_FLOAT = {32: np.float32, 64: np.float64}
_BITS = {"%p": 1, "%rs": 16, "%r": 32, "%rd": 64, "%f": 32, "%fd": 64}
_TYPE = re.compile(r"^(bf|[busf])(8|16|32|64)$")
_GUARD = 1 << 12
_COLLECTIVE = ("mma", "ldmatrix", "shfl", "bar")


class MemoryFault(AssertionError):
    """An access outside of all buffers."""


@dataclass(frozen=True)
class Instruction:
    """One instruction: `@[!]guard name operands`; braces around several registers are a tuple."""

    guard: str
    negated: bool
    name: str
    operands: tuple
    line: int


@dataclass(frozen=True)
class Program:
    """A kernel: instructions, where labels stand among them, and how many threads a block has."""

    instructions: list[Instruction]
    labels: dict[str, int]
    threads: int


def parse(text: str) -> Program:
    """Read the PTX of a module with one kernel."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    threads = int(re.search(r"\.reqntid (\d+)", text)[1])
    body = text[text.index("{", text.index(".entry")) :]
    for number, line in enumerate(body.splitlines()):
        line = line.split("//")[0].strip()
        if ".section" in line:
            break
        label = re.match(r"^(\$\w+):$", line)
        if label:
            labels[label[1]] = len(instructions)
            continue
        if ".reg" in line and line.startswith("{"):
            line = line[1:].rstrip("} ")
        for part in line.split(";"):
            found = _instruction(part.strip(), number)
            if found:
                instructions.append(found)
    return Program(instructions, labels, threads)


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
    parts = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", text)
    return tuple(
        tuple(item.strip() for item in part[1:-1].split(",")) if part.startswith("{") else part.strip()
        for part in parts
    )


class Memory:
    """Global memory: buffers with unmapped bytes between them."""

    def __init__(self, buffers: Sequence[np.ndarray]):
        self.starts, self.ends, total = [], [], _GUARD
        for buffer in buffers:
            self.starts.append(total)
            self.ends.append(total + buffer.nbytes)
            total = -(-self.ends[-1] // _GUARD) * _GUARD + _GUARD
        self.bytes = np.full(total, 0xFF, np.uint8)
        self.mapped = np.zeros(total, np.bool_)
        for buffer, start, end in zip(buffers, self.starts, self.ends, strict=True):
            self.bytes[start:end] = np.ascontiguousarray(buffer).reshape(-1).view(np.uint8)
            self.mapped[start:end] = True

    def read_back(self, buffers: Sequence[np.ndarray]) -> None:
        """Copy memory into the arrays it was made from."""
        for buffer, start, end in zip(buffers, self.starts, self.ends, strict=True):
            buffer.reshape(-1).view(np.uint8)[:] = self.bytes[start:end]


def run(ptx: str, grid: Sequence[int], buffers: Sequence[np.ndarray], shared_bytes: int = 0) -> None:
    """Run a kernel whose parameters are pointers to `buffers`, which are changed in place."""
    program, memory = parse(ptx), Memory(buffers)
    blocks = [*grid, 1, 1][:3]
    with np.errstate(all="ignore"):
        for z in range(blocks[2]):
            for y in range(blocks[1]):
                for x in range(blocks[0]):
                    _Block(program, memory, (x, y, z), shared_bytes).run()
    memory.read_back(buffers)


@dataclass
class _Block:
    program: Program
    memory: Memory
    block: tuple[int, int, int]
    shared_bytes: int
    registers: dict[str, np.ndarray] = field(default_factory=dict)
    pending: list[Callable[[], None]] = field(default_factory=list)

    def run(self) -> None:
        """Until every thread has returned."""
        threads = self.program.threads
        static = np.full(self.shared_bytes, 0xFF, np.uint8)
        self.shared, self.place = static, np.zeros(threads, np.int64)
        self.end = len(self.program.instructions)
        for name, values in (("%tid", (np.arange(threads), 0, 0)), ("%ctaid", self.block), ("%ntid", (threads, 1, 1))):
            for axis, value in zip("xyz", values, strict=True):
                self.registers[f"{name}.{axis}"] = np.broadcast_to(np.asarray(value, np.uint32), threads)
        while (self.place < self.end).any():
            self._step()

    def _step(self) -> None:
        for place in np.unique(self.place[self.place < self.end]):
            instruction, active = self.program.instructions[place], self.place == place
            if instruction.name.startswith(_COLLECTIVE) and not self._is_together(instruction.name, active):
                continue
            self.place[active] = place + 1
            if instruction.guard:
                active = active & (self._read(instruction.guard, 1) != instruction.negated)
            if active.any():
                self._execute(instruction, active)
            return
        raise AssertionError("threads wait for each other forever")

    def _is_together(self, name: str, active: np.ndarray) -> bool:
        """Whether whole warps stand at an instruction, or the whole block at a barrier."""
        if name.startswith(("bar.sync", "barrier")):
            return bool(active.all())
        warps = active.reshape(-1, 32)
        return bool((warps.all(axis=1) | ~warps.any(axis=1)).all())

    # -- registers ---------------------------------------------------------------------------------------------------

    def _read(self, operand: str, bits: int, kind: str = "b") -> np.ndarray:
        """An operand's value in every thread, as a type of so many bits."""
        threads = self.program.threads
        if operand in self.registers:
            value = self.registers[operand]
            if value.dtype.itemsize * 8 > bits and bits > 1:
                value = value.astype(_UNSIGNED[bits])
        elif operand == "blu_shared":
            value = np.zeros(threads, _UNSIGNED[bits])
        elif operand.startswith("%"):
            raise AssertionError(f"{operand} is read before it is written")
        else:
            value = np.full(threads, _constant(operand, bits))
        if kind == "f":
            return value.view(_FLOAT[bits])
        return value.view(_SIGNED[bits]) if kind == "s" else value

    def _write(self, name: str, value: np.ndarray, active: np.ndarray) -> None:
        bits = _BITS.get(re.match(r"%?[a-z]*", name)[0], 16)
        value = np.ascontiguousarray(value)
        if bits > 1:
            value = value.view(_UNSIGNED[value.dtype.itemsize * 8]).astype(_UNSIGNED[bits])
        if not active.all():
            before = self.registers.get(name)
            value = np.where(active, value, np.zeros_like(value) if before is None else before)
        self.registers[name] = value

    # -- instructions ------------------------------------------------------------------------------------------------

    def _execute(self, item: Instruction, active: np.ndarray) -> None:
        parts = item.name.split(".")
        handler = getattr(self, f"_do_{parts[0]}", None)
        assert handler is not None, f"the machine does not know {item.name} (line {item.line})"
        handler(parts, item.operands, active)

    def _do_bra(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        self.place[active] = self.program.labels[operands[0]]

    def _do_ret(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        self.place[active] = self.end

    def _do_bar(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        """Threads run together already."""

    _do_barrier = _do_bar

    def _do_mov(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        bits = 1 if parts[-1] == "pred" else _type(parts[-1])[1]
        target, source = operands
        if isinstance(target, tuple):
            value = self._read(source, bits)
            for place, name in enumerate(target):
                half = (value >> _UNSIGNED[bits](place * bits // len(target))).astype(_UNSIGNED[bits // len(target)])
                self._write(name, half, active)
        elif isinstance(source, tuple):
            narrow = [self._read(name, bits // len(source)) for name in source]
            self._write(target, np.stack(narrow, -1).view(_UNSIGNED[bits])[:, 0], active)
        else:
            self._write(target, self._read(source, bits), active)

    def _binary(self, parts: list[str], operands: tuple, active: np.ndarray, compute: Callable) -> None:
        kind, bits = ("b", 1) if parts[-1] == "pred" else _type(parts[-1])
        values = [self._read(name, bits, kind) for name in operands[1:]]
        self._write(operands[0], compute(*values), active)

    def _do_add(self, *rest) -> None:
        self._binary(*rest, np.add)

    def _do_sub(self, *rest) -> None:
        self._binary(*rest, np.subtract)

    def _do_min(self, *rest) -> None:
        self._binary(*rest, np.fmin)

    def _do_max(self, *rest) -> None:
        self._binary(*rest, np.fmax)

    def _do_and(self, *rest) -> None:
        self._binary(*rest, np.bitwise_and)

    def _do_or(self, *rest) -> None:
        self._binary(*rest, np.bitwise_or)

    def _do_xor(self, *rest) -> None:
        self._binary(*rest, np.bitwise_xor)

    def _do_not(self, *rest) -> None:
        self._binary(*rest, np.invert)

    def _do_neg(self, *rest) -> None:
        self._binary(*rest, np.negative)

    def _do_abs(self, *rest) -> None:
        self._binary(*rest, np.abs)

    def _do_div(self, *rest) -> None:
        self._binary(*rest, lambda a, b: a / b if a.dtype.kind == "f" else a // np.where(b == 0, 1, b))

    def _do_rem(self, *rest) -> None:
        self._binary(*rest, lambda a, b: a % np.where(b == 0, 1, b))

    def _do_rcp(self, *rest) -> None:
        self._binary(*rest, lambda a: np.float32(1) / a)

    def _do_sqrt(self, *rest) -> None:
        self._binary(*rest, np.sqrt)

    def _do_ex2(self, *rest) -> None:
        self._binary(*rest, np.exp2)

    def _do_lg2(self, *rest) -> None:
        self._binary(*rest, np.log2)

    def _do_fma(self, *rest) -> None:
        self._binary(*rest, lambda a, b, c: (a.astype(np.float64) * b + c).astype(a.dtype))

    def _do_mul(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        if parts[1] != "wide":
            self._binary(parts, operands, active, np.multiply)
            return
        kind, bits = _type(parts[-1])
        wide = (_SIGNED if kind == "s" else _UNSIGNED)[2 * bits]
        left, right = (self._read(name, bits, kind).astype(wide) for name in operands[1:])
        self._write(operands[0], left * right, active)

    def _do_mad(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        if parts[1] != "wide":
            self._binary(parts, operands, active, lambda a, b, c: a * b + c)
            return
        kind, bits = _type(parts[-1])
        wide = (_SIGNED if kind == "s" else _UNSIGNED)[2 * bits]
        left, right = (self._read(name, bits, kind).astype(wide) for name in operands[1:3])
        self._write(operands[0], left * right + self._read(operands[3], 2 * bits, kind), active)

    def _do_shl(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        bits = _type(parts[-1])[1]
        value, count = self._read(operands[1], bits), self._read(operands[2], 32)
        self._write(operands[0], np.where(count < bits, value << count.astype(value.dtype), 0).astype(value.dtype), active)

    def _do_shr(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        kind, bits = _type(parts[-1])
        value, count = self._read(operands[1], bits, kind), self._read(operands[2], 32)
        self._write(operands[0], value >> np.minimum(count, bits - 1).astype(value.dtype), active)

    def _do_bfe(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        value, first, length = (self._read(name, 32) for name in operands[1:])
        assert parts[-1] == "u32"
        self._write(operands[0], (value >> first) & ((np.uint32(1) << length) - np.uint32(1)), active)

    def _do_setp(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        kind, bits = _type(parts[-1])
        left, right = (self._read(name, bits, kind) for name in operands[1:])
        name = parts[1]
        unordered = (np.isnan(left) | np.isnan(right)) if kind == "f" else False
        if kind == "f" and len(name) == 3 and name.endswith("u"):
            self._write(operands[0], _COMPARE[name[:2]](left, right) | unordered, active)
        else:
            self._write(operands[0], _COMPARE[name](left, right) & ~np.asarray(unordered), active)

    def _do_selp(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        bits = _type(parts[-1])[1]
        yes, no = (self._read(name, bits) for name in operands[1:3])
        self._write(operands[0], np.where(self._read(operands[3], 1), yes, no), active)

    def _do_cvt(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        target, source = parts[-2:]
        if target.endswith("x2"):
            dtype = ml_dtypes.bfloat16 if target.startswith("bf16") else np.float16
            high, low = (self._read(name, 32, "f").astype(dtype).view(np.uint16) for name in operands[1:])
            self._write(operands[0], low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16)), active)
            return
        value = self._numbers(operands[1], *_type(source))
        dtype = _dtype(*_type(target))
        self._write(operands[0], value.astype(dtype), active)

    def _numbers(self, operand: str, kind: str, bits: int) -> np.ndarray:
        return np.ascontiguousarray(self._read(operand, bits)).view(_dtype(kind, bits))

    def _do_cvta(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        self._write(operands[0], self._read(operands[1], 64), active)

    def _do_shfl(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        value, distance = self._read(operands[1], 32), self._read(operands[2], 32)
        lanes = np.arange(self.program.threads)
        if parts[2] == "bfly":
            source = lanes ^ distance
        else:
            assert parts[2] == "idx", parts
            source = (lanes & ~31) | (distance & 31)
        target = operands[0].split("|")[0]
        self._write(target, value[source.astype(np.int64)], active)

    # -- memory ------------------------------------------------------------------------------------------------------

    def _address(self, operand: str, bits: int) -> np.ndarray:
        name, _, offset = operand.strip("[]").replace("+-", "-").replace("-", "+-").partition("+")
        return self._read(name, bits).astype(np.int64) + (int(offset) if offset else 0)

    def _places(self, space: str, address: np.ndarray, size: int, active: np.ndarray) -> np.ndarray:
        """Indices [threads, size] of bytes in a space; the first byte for threads that are not active."""
        places = np.where(active, address, 0)[:, None] + np.arange(size)
        limit = len(self.memory.bytes) if space == "global" else len(self.shared)
        inside = (places >= 0) & (places < limit)
        if space == "global":
            inside &= self.memory.mapped[np.where(inside, places, 0)]
        if not inside[active].all():
            raise MemoryFault(f"{space} memory is accessed at {address[active & ~inside.all(axis=1)][:4]}")
        if (address[active] % size).any():
            raise MemoryFault(f"{space} memory is accessed at {address[active][:4]}, in pieces of {size} bytes")
        return places

    def _do_ld(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        space, bits = parts[1], _type(parts[-1])[1]
        if space == "param":
            number = int(re.search(r"_param_(\d+)", operands[1])[1])
            value = np.full(self.program.threads, self.memory.starts[number], np.uint64)
            self._write(operands[0], value, active)
            return
        targets = operands[0] if isinstance(operands[0], tuple) else (operands[0],)
        size = bits // 8
        data = self._load(space, operands[1], size * len(targets), active)
        for place, name in enumerate(targets):
            part = np.ascontiguousarray(data[:, place * size : (place + 1) * size]).view(_dtype(*_type(parts[-1])))[:, 0]
            self._write(name, part, active)

    def _load(self, space: str, operand: str, size: int, active: np.ndarray) -> np.ndarray:
        places = self._places(space, self._address(operand, 64 if space == "global" else 32), size, active)
        source = self.memory.bytes if space == "global" else self.shared
        return source[np.where(active[:, None], places, 0)]

    def _do_st(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        space, bits = parts[1], _type(parts[-1])[1]
        sources = operands[1] if isinstance(operands[1], tuple) else (operands[1],)
        data = np.stack([self._read(name, bits) for name in sources], -1).view(np.uint8)
        address = self._address(operands[0], 64 if space == "global" else 32)
        places = self._places(space, address, data.shape[1], active)
        target = self.memory.bytes if space == "global" else self.shared
        target[places[active]] = data[active]

    def _do_cp(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        if parts[2] in ("wait_all", "wait_group"):
            assert parts[2] == "wait_all", parts
            for copy in self.pending:
                copy()
            self.pending.clear()
        elif parts[2] in ("cg", "ca"):
            size = int(operands[2])
            present = self._read(operands[3], 32) if len(operands) > 3 else np.full(self.program.threads, size)
            data = np.zeros((self.program.threads, size), np.uint8)
            full = active & (present == size)
            assert ((present == size) | (present == 0))[active].all()
            if full.any():
                data[full] = self._load("global", operands[1], size, full)[full]
            places = self._places("shared", self._address(operands[0], 32), size, active)
            shared = self.shared
            # Until it is waited for, nothing can be said of what is there.
            shared[places[active]] = 0xFF
            self.pending.append(lambda: shared.__setitem__(places[active], data[active]))

    def _do_ldmatrix(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        rows = self._load("shared", operands[1], 16, active).view(np.uint16)
        count = len(operands[0])
        matrices = rows.reshape(-1, 32 // 8, 8, 8)[:, :count]
        if "trans" in parts:
            matrices = matrices.swapaxes(-1, -2)
        pairs = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, count, 32)
        for place, name in enumerate(operands[0]):
            self._write(name, pairs[:, place].reshape(-1), active)

    def _do_mma(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        assert parts[3] == "m16n8k16", parts
        dtype = ml_dtypes.bfloat16 if parts[7] == "bf16" else np.float16
        left, right = (
            np.stack([self._read(name, 32) for name in operands[place]], 1).reshape(-1, 32, len(operands[place]))
            for place in (1, 2)
        )
        a = self._matrix(left, dtype, ((0, 0), (8, 0), (0, 8), (8, 8)), (16, 16))
        b = self._matrix(right, dtype, ((0, 0), (0, 8)), (8, 16))
        product = a @ b.swapaxes(-1, -2)
        lane = np.arange(32)
        row, column = lane // 4, lane % 4 * 2
        for place, (name, before) in enumerate(zip(operands[0], operands[3], strict=True)):
            part = product[:, row + place // 2 * 8, column + place % 2].reshape(-1)
            self._write(name, (part + self._read(before, 32, "f")).astype(np.float32), active)

    def _matrix(self, registers: np.ndarray, dtype: type, corners: Sequence, shape: tuple[int, int]) -> np.ndarray:
        """Matrices [warps, *shape] of f64 from the fragments [warps, lanes, registers]."""
        lane = np.arange(32)
        result = np.zeros((len(registers), *shape))
        halves = np.ascontiguousarray(registers).view(dtype).astype(np.float64)
        for place, (row, column) in enumerate(corners):
            for half in (0, 1):
                result[:, row + lane // 4, column + lane % 4 * 2 + half] = halves[:, :, 2 * place + half]
        return result


_COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


def _type(text: str) -> tuple[str, int]:
    found = _TYPE.match(text)
    assert found, f"no type of PTX that the machine knows: {text}"
    return found[1], int(found[2])


def _dtype(kind: str, bits: int) -> type:
    if kind == "bf":
        return ml_dtypes.bfloat16
    if kind == "f":
        return np.float16 if bits == 16 else _FLOAT[bits]
    return (_SIGNED if kind == "s" else _UNSIGNED)[bits]


def _constant(text: str, bits: int) -> np.generic:
    if text in ("0f", "0d"):
        raise AssertionError(text)
    if re.match(r"^0[fd][0-9A-Fa-f]+$", text):
        return _UNSIGNED[bits](int(text[2:], 16))
    return _UNSIGNED[bits](int(text, 0) % (1 << bits)) if bits > 1 else np.bool_(int(text, 0))
