"""Element types and tensor types: their names, their NumPy and MLIR spellings, and NumPy's promotion rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.core.remembering import once
from blu.errors import DTypeError, ShapeError


@dataclass(frozen=True)
class DType:
    """An element type. `kind` is "bool", "signed", "unsigned" or "float"; `bits` the width of the number.

    (Those of "complex" kind are no element types: a complex tensor is two of floats.)
    """

    name: str
    kind: str
    bits: int
    numpy: np.dtype
    mlir: str

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        """NumPy's dtype is equal to Blu's: arrays outside of compiled functions have that one."""
        return self is other or (self.numpy == other if isinstance(other, np.dtype) else False)

    def __hash__(self) -> int:
        return hash(self.numpy)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("signed", "unsigned")

    @property
    def is_stored_only(self) -> bool:
        """Whether tensors may have the dtype, but nothing computes in it: see FLOAT8."""
        return self.bits == 8 and self.kind == "float"

    @property
    def has_gradient(self) -> bool:
        """Whether there are gradients with respect to tensors of the dtype."""
        return self.is_float and not self.is_stored_only

    @property
    def bytes(self) -> int:
        """Bytes an element takes in memory (a bool takes one)."""
        return max(1, self.bits // 8)

    def to_mlir(self) -> ir.Type:
        """The element type in the `blu` dialect (u8 is `ui8`, signed integers are signless)."""
        return ir.Type.parse(self.mlir)


bool_ = DType("bool", "bool", 1, np.dtype(np.bool_), "i1")
i8 = DType("i8", "signed", 8, np.dtype(np.int8), "i8")
i16 = DType("i16", "signed", 16, np.dtype(np.int16), "i16")
i32 = DType("i32", "signed", 32, np.dtype(np.int32), "i32")
i64 = DType("i64", "signed", 64, np.dtype(np.int64), "i64")
u8 = DType("u8", "unsigned", 8, np.dtype(np.uint8), "ui8")
u16 = DType("u16", "unsigned", 16, np.dtype(np.uint16), "ui16")
u32 = DType("u32", "unsigned", 32, np.dtype(np.uint32), "ui32")
u64 = DType("u64", "unsigned", 64, np.dtype(np.uint64), "ui64")
f16 = DType("f16", "float", 16, np.dtype(np.float16), "f16")
bf16 = DType("bf16", "float", 16, np.dtype(ml_dtypes.bfloat16), "bf16")
f32 = DType("f32", "float", 32, np.dtype(np.float32), "f32")
f64 = DType("f64", "float", 64, np.dtype(np.float64), "f64")
f8e4m3 = DType("f8e4m3", "float", 8, np.dtype(ml_dtypes.float8_e4m3fn), "f8E4M3FN")
f8e5m2 = DType("f8e5m2", "float", 8, np.dtype(ml_dtypes.float8_e5m2), "f8E5M2")

complex64 = DType("complex64", "complex", 64, np.dtype(np.complex64), "complex<f32>")
complex128 = DType("complex128", "complex", 128, np.dtype(np.complex128), "complex<f64>")

MOST_DIMENSIONS = 64

DTYPES = (bool_, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64)
FLOATS = (f16, bf16, f32, f64)
INTEGERS = (i8, i16, i32, i64, u8, u16, u32, u64)
NUMBERS = INTEGERS + FLOATS
# What tensors are stored and moved as, and products take; all else asks for a conversion.
FLOAT8 = (f8e4m3, f8e5m2)
MOVED = DTYPES + FLOAT8

# The dtypes of complex numbers, by those of their parts.
COMPLEX = {f32: complex64, f64: complex128}
CAST_FIRST = "Cast it first, for example by x.astype('bf16')."

_BY_NAME = {dtype.name: dtype for dtype in MOVED}
_BY_NUMPY = {dtype.numpy: dtype for dtype in MOVED}
# Those that NumPy does not know by their names.
_BY_LONG_NAME = {dtype.numpy.name: dtype for dtype in (bf16, *FLOAT8)}
_BY_MLIR: dict[object, DType] = {ir.F16Type: f16, ir.BF16Type: bf16, ir.F32Type: f32, ir.F64Type: f64}
_BY_MLIR |= {ir.Float8E4M3FNType: f8e4m3, ir.Float8E5M2Type: f8e5m2}
_BY_MLIR |= {(dtype.bits, dtype.kind == "unsigned", False): dtype for dtype in DTYPES if not dtype.is_float}


def as_dtype(value: object) -> DType:
    """Read a dtype: Blu's own, a name ("f32", "float32"), a NumPy dtype or type, or Python's bool, int or float.

    Python's int means i64 and its float f64, as in NumPy. Raises DTypeError for everything else.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    if isinstance(value, str) and value in _BY_LONG_NAME:
        return _BY_LONG_NAME[value]
    try:
        found = np.dtype(value) if value is not None else None  # type: ignore[call-overload]
        # NumPy's short codes count bytes ("i8" is its int64), Blu's count bits: only the long names are understood.
        if found is None or (isinstance(value, str) and found.name != value):
            raise KeyError(value)
        return _BY_NUMPY[found.newbyteorder("=")]
    except (TypeError, ValueError, KeyError):
        known = ", ".join(_BY_NAME)
        advice = f"Blu has {known}." + _instead(value)
        raise DTypeError(f"{value!r} is not a dtype that Blu computes with", advice=advice) from None


def complex_dtype(value: object) -> DType | None:
    """complex64 or complex128 where a value is a name of it, NumPy's, Blu's, or Python's complex; None for others."""
    if isinstance(value, DType):
        return value if value.kind == "complex" else None
    if isinstance(value, str):
        return next((dtype for dtype in COMPLEX.values() if dtype.name == value), None)
    if not isinstance(value, type | np.dtype):
        return None
    try:
        found = np.dtype(value)
    except TypeError:
        return None
    return next((dtype for dtype in COMPLEX.values() if dtype.numpy == found.newbyteorder("=")), None)


def part_dtype(dtype: DType) -> DType:
    """The dtype of the parts of complex numbers of a dtype, or of those that numbers of another are made: floats."""
    known = next((part for part, whole in COMPLEX.items() if whole is dtype), dtype)
    return f64 if known is f64 or not known.is_float else f32


# What arrays of dtypes that only NumPy and files have are converted to.
_OTHER_FLOAT8 = ("float8_e4m3", "float8_e4m3fnuz", "float8_e5m2fnuz")
_INSTEAD: dict[str, str] = {name: "bf16" for name in _OTHER_FLOAT8}


def _instead(value: object) -> str:
    try:
        name = np.dtype(value).name  # type: ignore[call-overload]
    except TypeError:
        return ""
    if name.startswith("complex"):
        return " Complex tensors are made by functions that take complex dtypes: blu.astype, blu.zeros, blu.complex."
    wide = _BY_NAME.get(_INSTEAD.get(name, ""))
    return f" Convert the array first: x.astype({wide.numpy.name!r})." if wide else ""


def dtype_of_mlir(type_: ir.Type) -> DType:
    """The dtype of an MLIR element type of the `blu` dialect."""
    key = (type_.width, type_.is_unsigned, type_.is_signed) if isinstance(type_, ir.IntegerType) else type(type_)
    if key not in _BY_MLIR:
        raise DTypeError(f"element type {type_} is not one of Blu's: {', '.join(_BY_NAME)}")
    return _BY_MLIR[key]


def computing_dtype(dtype: object) -> DType:
    """The dtype that sums and composites are computed in: f32 for f16 and bf16, else the dtype itself; see as_dtype.

    DTypeError for one of FLOAT8.
    """
    known = as_dtype(dtype)
    if known.is_stored_only:
        raise not_computed(known)
    return f32 if known in (f16, bf16) else known


def not_computed(dtype: DType) -> DTypeError:
    """What is said of one of FLOAT8 where it is computed with."""
    return DTypeError(f"does not take {dtype}, in which nothing is computed", advice=CAST_FIRST)


def gradient_dtype(dtype: DType) -> DType:
    """The dtype of gradients of values of a dtype: f32 where nothing could be added up in that."""
    return f32 if dtype.is_stored_only else dtype


def summing_dtype(dtype: DType) -> DType:
    """NumPy's dtype of sums and products: i64 for bools and signed integers, u64 for unsigned ones, else itself."""
    return dtype if dtype.is_float else u64 if dtype.kind == "unsigned" else i64


def promote(left: DType, right: DType) -> DType:
    """NumPy's common type of two arrays; bf16 promotes as f16 does, and f16 with bf16 gives f32.

    DTypeError for one of FLOAT8 and another dtype: which is meant, nobody knows.
    """
    if left == right:
        return left
    if left.is_stored_only or right.is_stored_only:
        raise DTypeError(f"{left} and {right} have no common dtype", advice=CAST_FIRST)
    if bf16 not in (left, right):
        return _BY_NUMPY[np.promote_types(left.numpy, right.numpy)]
    other = right if left == bf16 else left
    if other == f16:
        return f32
    return bf16 if (as_f16 := promote(f16, other)) == f16 else as_f16


def raise_kind(dtype: DType, number: DType) -> DType:
    """The dtype of an array of `dtype` combined with a Python number, which is a bool, an i64 or an f64 on its own.

    The number only raises the kind (bool to integer to float), as in NumPy 2.
    """
    if number == bool_ or dtype.is_float:
        return dtype
    return f64 if number.is_float else i64 if dtype == bool_ else dtype


def promote_scalar(dtype: DType, scalar: bool | int | float) -> DType:
    """`raise_kind` for a number that is known. Raises DTypeError for an integer that does not fit."""
    target = raise_kind(dtype, bool_ if isinstance(scalar, bool) else f64 if isinstance(scalar, float) else i64)
    if isinstance(scalar, bool | float) or target.is_float:
        return target
    limits = np.iinfo(target.numpy)
    if not limits.min <= scalar <= limits.max:
        raise DTypeError(
            f"Python integer {scalar} does not fit {target}, which holds {limits.min}..{limits.max}",
            advice="Convert the array to a wider dtype first, or pass the value as an array.",
        )
    return target


@dataclass(frozen=True)
class TensorType:
    """The shape and dtype of a tensor: what `infer` takes and gives."""

    shape: tuple[int, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    __repr__ = __str__

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return product(self.shape)

    def to_mlir(self) -> ir.RankedTensorType:
        return ir.RankedTensorType.get(self.shape, self.dtype.to_mlir())

    def with_shape(self, shape: Iterable[int]) -> TensorType:
        return TensorType(tuple(shape), self.dtype)

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(self.shape, dtype)


def product(sizes: Iterable[int]) -> int:
    """The product of sizes, as an unbounded Python integer."""
    result = 1
    for size in sizes:
        result *= size
    return result


def check_size(type_: TensorType) -> None:
    """Raise ShapeError where a size is negative, there are too many, or 64-bit addresses do not reach all elements."""
    if type_.ndim > MOST_DIMENSIONS:
        raise ShapeError(f"a tensor of {type_.ndim} dimensions: there may be {MOST_DIMENSIONS}, as in NumPy")
    if any(size < 0 for size in type_.shape):
        raise ShapeError(f"shape {list(type_.shape)} has a negative size")
    if type_.size * type_.dtype.bytes >= 2**63:
        raise ShapeError(f"{type_} would take {type_.size * type_.dtype.bytes} bytes, more than can be addressed")


def check_results(types: Iterable[TensorType], may_be_float8: bool) -> None:
    """`check_size` of what an op gives, and `refuse_float8` where it computes."""
    for type_ in types:
        check_size(type_)
        if not may_be_float8:
            refuse_float8((type_,))


def refuse_float8(types: Iterable[Any]) -> None:
    """DTypeError where a type, one in a list of them, is of FLOAT8; None is no type."""
    for item in types:
        for type_ in item if isinstance(item, list) else (item,):
            if type_ is not None and type_.dtype.is_stored_only:
                raise not_computed(type_.dtype)


@once
def tensor_type(type_: ir.Type) -> TensorType:
    """The TensorType of an MLIR tensor type. ShapeError where it has no fixed shape, DTypeError for other elements."""
    try:
        ranked = ir.RankedTensorType(type_)
    except ValueError:
        raise ShapeError(f"{type_} is no tensor with a fixed number of dimensions") from None
    if not ranked.has_static_shape:
        raise ShapeError(f"{type_} has a size that is not known, and Blu's tensors have fixed shapes")
    if ranked.encoding is not None:
        raise ShapeError(f"{type_} has an encoding, and Blu's tensors are dense")
    return TensorType(tuple(ranked.shape), dtype_of_mlir(ranked.element_type))
