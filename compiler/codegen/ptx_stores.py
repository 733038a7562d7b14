"""Stores of the low bits of a number that was computed as a float: what ptxas makes of them, and how they are written.

PTX lets a store be narrower than its register. LLVM uses that: for the low half of an f64 it writes

    add.rn.f64      %rd37, %rd3, %rd36;
    st.shared.b32   [%rd40], %rd37;

where ptxas (13.0) takes the register for an f64 and stores the number converted to an unsigned integer. So it does for
every store (.b32, .u32, .b16, .b8, single or vectors) of a wider register that an instruction on f64, f32, f16 or bf16
has defined; `cvt` cuts rightly, and moves, shuffles and atomics of another width than their register are refused.
"""

from __future__ import annotations

import re

from blu.dataclass import dataclass
from blu.errors import PassError

_INSTRUCTION = re.compile(
    r"(?:^|[;{}])[ \t]*(?:@!?%\w+[ \t]+)?(?P<name>[a-z]\w*(?:\.[\w:]+)+)[ \t]+(?P<operands>[^;]+)", re.MULTILINE
)
# It begins with letters, which a search leaps to.
_STORE = re.compile(r"(?P<name>st\.[\w:.]+)[ \t]+(?P<operands>\[[^;]+)")
_BEFORE_STORE = re.compile(r"(?:@!?%\w+[ \t]+|(?<![\w.%$]))$")
_LONGEST_PREDICATE = 64
_DECLARATION = re.compile(r"\.reg[ \t]+\.(?:pred|[a-z]+(?P<bits>\d+))[ \t]+(?P<names>[^;]+);")
_FLOAT = re.compile(r"^(?:b?f16(?:x2)?|f32|f64|tf32)$")
_TYPE = re.compile(r"^(?:b?f|tf|[bus])(?P<bits>\d+)(?:x2)?$")
_REGISTER = re.compile(r"[%\w]+")
_COUNT = re.compile(r"\.reg[ \t]+\.b\d+[ \t]+(%\w+)<(\d+)>;")
_CLASSES = {16: "%rs", 32: "%r", 64: "%rd"}


@dataclass(frozen=True)
class _WideStore:
    """A store of `bits` from a float's register of `width` bits; `start` and `end` are its operands in the text."""

    start: int
    end: int
    statement: int
    register: str
    width: int
    bits: int


def narrow_stores(ptx: str) -> str:
    """PTX whose stores of a part of a float store a register of their own width, cut by a `cvt`.

    cvt.u32.u64     %r36, %rd37;
    st.shared.b32   [%rd40], %r36;
    """
    found = _wide_stores(ptx)
    counts = {name: int(count) for name, count in _COUNT.findall(ptx)}
    changed, fresh = [], dict(counts)
    for store in found:
        bits = max(16, store.bits)
        register = f"{_CLASSES[bits]}{fresh.setdefault(_CLASSES[bits], 1)}"
        fresh[_CLASSES[bits]] += 1
        kind = "u16.u8" if store.bits == 8 else f"u{bits}.u{store.width}"
        changed.append((store.statement, store.statement, f"cvt.{kind} \t{register}, {store.register};\n\t"))
        changed.append((store.start, store.end, register))
    return _declare(_replace(ptx, sorted(changed)), counts, fresh) if found else ptx


def check_stores(ptx: str, kernel: str) -> None:
    """Refuse PTX that stores a part of a float's register. PassError: the code generator is wrong, not the user."""
    for store in _wide_stores(ptx):
        line = ptx.count("\n", 0, store.start) + 1
        raise PassError(
            f"line {line} of the PTX of '{kernel}' stores {store.bits} of the {store.width} bits of {store.register}, "
            "which a floating-point instruction defines: ptxas would store the number converted to an integer",
            pass_name="ptx",
            operation=kernel,
        )


def _wide_stores(ptx: str) -> list[_WideStore]:
    """In the order of the text."""
    found, widths = [], _widths(ptx)
    for instruction in _STORE.finditer(ptx):
        type_ = _TYPE.match(instruction["name"].rpartition(".")[2])
        before = _BEFORE_STORE.search(ptx, max(0, instruction.start() - _LONGEST_PREDICATE), instruction.start())
        if type_ is None or before is None:
            continue
        bits, first = int(type_["bits"]), instruction.start("operands")
        for operand in _REGISTER.finditer(instruction["operands"], instruction["operands"].index("]") + 1):
            width = widths.get(_class_of(operand[0]), 0)
            if width > bits:
                start, end = first + operand.start(), first + operand.end()
                found.append(_WideStore(start, end, before.start(), operand[0], width, bits))
    floats = _floats(ptx) if found else ()  # which takes time
    return [store for store in found if store.register in floats]


def _widths(ptx: str) -> dict[str, int]:
    """The bits of registers, by what their names begin with (%rd) or are (of inline assembly)."""
    widths: dict[str, int] = {}
    for declaration in _DECLARATION.finditer(ptx):
        for name in declaration["names"].split(","):
            known = widths.get(_class_of(name.strip()), 0)
            widths[_class_of(name.strip())] = max(known, int(declaration["bits"] or 1))
    return widths


def _class_of(register: str) -> str:
    """%rd of %rd37 and of %rd<59>; what inline assembly declares is called as it is."""
    name = register.partition("<")[0]
    return name.rstrip("0123456789") if name.startswith("%") else name


def _floats(ptx: str) -> set[str]:
    """The registers that an instruction defines whose first type is a float's: that of its result."""
    found: set[str] = set()
    for instruction in _INSTRUCTION.finditer(ptx):
        types = [part for part in instruction["name"].split(".") if _TYPE.match(part)]
        if types and _FLOAT.match(types[0]):
            results = re.match(r"\{[^}]*\}|[^,\[]*", instruction["operands"])
            found.update(_REGISTER.findall(results[0]) if results else ())
    return found


def _replace(text: str, changes: list[tuple[int, int, str]]) -> str:
    """A text whose pieces (start, end, instead), in order, are others."""
    parts, done = [], 0
    for start, end, instead in changes:
        parts += [text[done:start], instead]
        done = end
    return "".join([*parts, text[done:]])


def _declare(ptx: str, before: dict[str, int], after: dict[str, int]) -> str:
    """PTX with more registers; a class that had none is declared first in the body."""
    for bits, name in _CLASSES.items():
        count = after.get(name, 0)
        if count == before.get(name, 0):
            continue
        declaration = f".reg .b{bits} \t{name}<{count}>;"
        if name in before:
            ptx = re.sub(rf"\.reg[ \t]+\.b{bits}[ \t]+{name}<\d+>;", declaration, ptx, count=1)
        else:
            ptx = re.sub(r"^\{$", lambda match, line=declaration: f"{match[0]}\n\t{line}", ptx, count=1, flags=re.M)
    return ptx
