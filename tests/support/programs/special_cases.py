"""Special cases of elementwise functions, as the array API standard states them for floats: data for tests.

A line is a function, its cases after a colon, separated by semicolons: `operands -> result`. Letters stand for numbers:
p and n for finite numbers above and below 0, of which o are odd, e even and f no integers (no: odd, below 0), x for
finite numbers but 0, a for all numbers but NaN, * for all; +- before a number is both of its signs. A result of `=` is
the operand itself. Results of 0 and -0 are told apart.

Where the standard leaves a choice, or NumPy and torch agree on something else, the line says so.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

INF, NAN = math.inf, math.nan
CLASSES = {
    "p": (0.5, 3.0),
    "n": (-0.5, -3.0),
    "x": (0.5, 3.0, -0.5, -3.0),
    "po": (1.0, 3.0),
    "pe": (2.0, 4.0),
    "pf": (0.5, 2.5),
    "no": (-1.0, -3.0),
    "ne": (-2.0, -4.0),
    "nf": (-0.5, -2.5),
    "a": (INF, -INF, 0.0, -0.0, 0.5, 3.0, -0.5, -3.0),
    "*": (NAN, INF, -INF, 0.0, -0.0, 0.5, 3.0, -0.5, -3.0),
    "+-0": (0.0, -0.0),
    "+-inf": (INF, -INF),
    "+-1": (1.0, -1.0),
    "small": (0.5, -0.25),
    "large": (2.0, -3.0),
}
RESULTS = {"pi": math.pi, "pi/2": math.pi / 2, "pi/4": math.pi / 4, "3pi/4": 3 * math.pi / 4}
RESULTS |= {f"-{name}": -value for name, value in RESULTS.items()}

UNARY = """
absolute: nan -> nan; -0 -> 0; 0 -> 0; -inf -> inf; inf -> inf
arccos: nan -> nan; 1.5 -> nan; -1.5 -> nan; +-inf -> nan; 1 -> 0
arccosh: nan -> nan; 0.5 -> nan; -inf -> nan; 1 -> 0; inf -> inf
arcsin: nan -> nan; 1.5 -> nan; -1.5 -> nan; +-inf -> nan; +-0 -> =
arcsinh: nan -> nan; +-0 -> =; +-inf -> =
arctan: nan -> nan; +-0 -> =; inf -> pi/2; -inf -> -pi/2
arctanh: nan -> nan; large -> nan; +-inf -> nan; -1 -> -inf; 1 -> inf; +-0 -> =
ceil: nan -> nan; +-0 -> =; +-inf -> =; po -> =; no -> =; -0.5 -> -0; 0.5 -> 1
cos: nan -> nan; +-0 -> 1; +-inf -> nan
cosh: nan -> nan; +-0 -> 1; +-inf -> inf
exp: nan -> nan; +-0 -> 1; inf -> inf; -inf -> 0
expm1: nan -> nan; +-0 -> =; inf -> inf; -inf -> -1
floor: nan -> nan; +-0 -> =; +-inf -> =; po -> =; no -> =; 0.5 -> 0; -0.5 -> -1
isfinite: nan -> false; +-inf -> false; x -> true; +-0 -> true
isinf: nan -> false; +-inf -> true; x -> false; +-0 -> false
isnan: nan -> true; +-inf -> false; x -> false
log: nan -> nan; n -> nan; -inf -> nan; +-0 -> -inf; 1 -> 0; inf -> inf
log1p: nan -> nan; -1.5 -> nan; -inf -> nan; -1 -> -inf; +-0 -> =; inf -> inf
log2: nan -> nan; n -> nan; -inf -> nan; +-0 -> -inf; 1 -> 0; inf -> inf
log10: nan -> nan; n -> nan; -inf -> nan; +-0 -> -inf; 1 -> 0; inf -> inf
negative: nan -> nan; 0 -> -0; -0 -> 0; inf -> -inf; -inf -> inf
reciprocal: nan -> nan; 0 -> inf; -0 -> -inf; inf -> 0; -inf -> -0
round: nan -> nan; +-0 -> =; +-inf -> =; po -> =; no -> =; 0.5 -> 0; -0.5 -> -0; 1.5 -> 2; 2.5 -> 2; -2.5 -> -2
sign: nan -> nan; p -> 1; n -> -1; inf -> 1; -inf -> -1; 0 -> 0
sin: nan -> nan; +-0 -> =; +-inf -> nan
sinh: nan -> nan; +-0 -> =; +-inf -> =
sqrt: nan -> nan; n -> nan; -inf -> nan; +-0 -> =; inf -> inf
square: nan -> nan; +-0 -> 0; +-inf -> inf
tan: nan -> nan; +-0 -> =; +-inf -> nan
tanh: nan -> nan; +-0 -> =; inf -> 1; -inf -> -1
trunc: nan -> nan; +-0 -> =; +-inf -> =; po -> =; no -> =; 0.5 -> 0; -0.5 -> -0
"""
BINARY = """
add: nan * -> nan; * nan -> nan; inf -inf -> nan; -inf inf -> nan; inf inf -> inf; -inf -inf -> -inf
add: inf x -> inf; -inf x -> -inf; x inf -> inf; x -inf -> -inf; -0 -0 -> -0; -0 0 -> 0; 0 -0 -> 0; 0 0 -> 0
add: +-0 3 -> 3; 3 +-0 -> 3; 3 -3 -> 0; -3 3 -> 0
subtract: nan * -> nan; * nan -> nan; inf inf -> nan; -inf -inf -> nan; inf -inf -> inf; -inf inf -> -inf
subtract: inf x -> inf; x inf -> -inf; x -inf -> inf; 0 0 -> 0; 0 -0 -> 0; -0 0 -> -0; -0 -0 -> 0; 3 3 -> 0; -3 -3 -> 0
multiply: nan * -> nan; * nan -> nan; +-inf +-0 -> nan; +-0 +-inf -> nan; inf inf -> inf; inf -inf -> -inf
multiply: -inf -inf -> inf; inf p -> inf; inf n -> -inf; n -inf -> inf; 0 p -> 0; -0 p -> -0; 0 n -> -0; -0 n -> 0
divide: nan * -> nan; * nan -> nan; +-inf +-inf -> nan; +-0 +-0 -> nan; 0 p -> 0; 0 n -> -0; -0 p -> -0; -0 n -> 0
divide: p 0 -> inf; p -0 -> -inf; n 0 -> -inf; n -0 -> inf; inf p -> inf; inf n -> -inf; -inf p -> -inf; -inf n -> inf
divide: p inf -> 0; p -inf -> -0; n inf -> -0; n -inf -> 0; inf 0 -> inf; inf -0 -> -inf; -inf 0 -> -inf; 0 -inf -> -0
floor_divide: nan * -> nan; * nan -> nan; +-inf +-inf -> nan; +-0 +-0 -> nan; 0 p -> 0; 0 n -> -0; -0 p -> -0
floor_divide: -0 n -> 0; p 0 -> inf; p -0 -> -inf; n 0 -> -inf; n -0 -> inf; p inf -> 0; p -inf -> -1; n inf -> -1
floor_divide: n -inf -> 0; +-inf x -> nan
remainder: nan * -> nan; * nan -> nan; +-inf * -> nan; * +-0 -> nan; 0 p -> 0; -0 p -> 0; 0 n -> -0; -0 n -> -0
remainder: 3 inf -> 3; 3 -inf -> -inf; -3 inf -> inf; -3 -inf -> -3; 3 3 -> 0; 3 -3 -> -0; -3 3 -> 0; -3 -3 -> -0
power: nan x -> nan; x nan -> nan; +-0 nan -> nan; +-inf nan -> nan; * +-0 -> 1; 1 * -> 1; +-1 +-inf -> 1
power: large inf -> inf; large -inf -> 0; small inf -> 0; small -inf -> inf; inf p -> inf; inf n -> 0
power: -inf po -> -inf; -inf pe -> inf; -inf pf -> inf; -inf no -> -0; -inf ne -> 0; -inf nf -> 0
power: 0 p -> 0; 0 n -> inf; -0 po -> -0; -0 pe -> 0; -0 pf -> 0; -0 no -> -inf; -0 ne -> inf; -0 nf -> inf
power: n pf -> nan; n nf -> nan; +-inf inf -> inf; +-inf -inf -> 0; +-0 inf -> 0; +-0 -inf -> inf
arctan2: nan * -> nan; * nan -> nan; p +-0 -> pi/2; n +-0 -> -pi/2; 0 p -> 0; 0 0 -> 0; 0 -0 -> pi; 0 n -> pi
arctan2: -0 p -> -0; -0 0 -> -0; -0 -0 -> -pi; -0 n -> -pi; p inf -> 0; p -inf -> pi; n inf -> -0; n -inf -> -pi
arctan2: inf x -> pi/2; -inf x -> -pi/2; inf inf -> pi/4; inf -inf -> 3pi/4; -inf inf -> -pi/4; -inf -inf -> -3pi/4
copysign: 3 p -> 3; 3 n -> -3; -3 0 -> 3; 3 -0 -> -3; 0 n -> -0; -0 p -> 0; inf n -> -inf; -inf p -> inf; nan x -> nan
maximum: nan * -> nan; * nan -> nan; inf a -> inf; a inf -> inf; -inf x -> second; x -inf -> =
minimum: nan * -> nan; * nan -> nan; -inf a -> -inf; a -inf -> -inf; inf x -> second; x inf -> =
logaddexp: nan * -> nan; * nan -> nan; inf a -> inf; a inf -> inf; -inf -inf -> -inf; -inf p -> second; p -inf -> =
equal: nan * -> false; * nan -> false; inf inf -> true; inf -inf -> false; 0 -0 -> true; -0 0 -> true; x inf -> false
not_equal: nan * -> true; * nan -> true; inf inf -> false; inf -inf -> true; 0 -0 -> false
less: nan * -> false; * nan -> false; -inf inf -> true; inf inf -> false; -0 0 -> false; 0 -0 -> false; x inf -> true
less_equal: nan * -> false; * nan -> false; -inf inf -> true; inf inf -> true; 0 -0 -> true; inf x -> false
greater: nan * -> false; * nan -> false; inf -inf -> true; inf inf -> false; 0 -0 -> false; x -inf -> true
greater_equal: nan * -> false; * nan -> false; inf -inf -> true; inf inf -> true; -0 0 -> true; -inf x -> false
"""
# floor_divide: x // y goes with x % y, so that x == x % y + y * (x // y), as in Python, NumPy and torch. The standard
# has floor(x / y) in six cases (+-inf // x infinite; p // -inf and n // inf -0) and says that libraries differ there.


@dataclass(frozen=True)
class Case:
    """One case: a function of `blu`, Python floats, and the float or bool it gives."""

    function: str
    operands: tuple[float, ...]
    result: float | bool

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.operands))}) is {self.result}"


def _numbers(word: str) -> tuple[float, ...]:
    return CLASSES[word] if word in CLASSES else (float(word),)


def _result(word: str, operands: tuple[float, ...]) -> float | bool:
    if word in ("true", "false"):
        return word == "true"
    if word in ("=", "second"):
        return operands[0 if word == "=" else 1]
    return RESULTS[word] if word in RESULTS else float(word)


def cases(text: str) -> Iterator[Case]:
    """All cases of a table."""
    for line in text.strip().splitlines():
        function, _, rules = line.partition(": ")
        for rule in rules.split("; "):
            left, _, right = rule.partition(" -> ")
            for operands in itertools.product(*map(_numbers, left.split())):
                yield Case(function, operands, _result(right.strip(), operands))
