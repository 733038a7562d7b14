"""The ops as a table: what each takes, and which parts of it exist."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import DTYPES, FLOATS, INTEGERS, MOVED, NUMBERS, DType, TensorType, as_dtype
from blu.dialects.core.evaluation import array_type, on_operand
from blu.dialects.core.fields import Field
from blu.dialects.core.op import OPS, Op, Sample

_GROUPS = {frozenset(DTYPES): "all", frozenset(NUMBERS): "numbers", frozenset(FLOATS): "floats"}
_GROUPS |= {frozenset(INTEGERS): "integers", frozenset(DTYPES) - frozenset(FLOATS): "bool, integers"}
_GROUPS |= {frozenset(MOVED): "all, fp8"}
_MARKS = {"OptionalOperand": "?", "VariadicOperand": "...", "Captured": "..."}


@dataclass(frozen=True)
class OpRow:
    """One op's line of the table.

    `lowering` is "rule", "decompose", "step" (of the host program) or "" where it has none; `gradient` is what the op
    has itself, or through the ops that it is made of.
    """

    name: str
    family: str
    operands: str
    attributes: str
    regions: str
    dtypes: str
    has_reference: bool
    lowering: str
    gradient: str
    reasons: Mapping[str, str]
    """Why it has none of what it lacks."""

    @property
    def lacks(self) -> list[str]:
        """Which of its parts are not there."""
        parts = {"reference": self.has_reference, "lowering": self.lowering, "gradient": self.gradient}
        return [part for part, found in parts.items() if not found]

    @property
    def holes(self) -> list[str]:
        """What the op lacks without a stated reason."""
        return [part for part in self.lacks if part not in self.reasons]


def op_rows(lowered: Collection[str]) -> list[OpRow]:
    """A row per op, by family; `lowered` names the ops that have a lowering rule."""
    rows = [_row(cls, cls.name in lowered) for cls in OPS.values()]
    return sorted(rows, key=lambda row: row.family)


def _row(cls: type[Op], has_rule: bool) -> OpRow:
    return OpRow(
        name=cls.name,
        family=cls.__module__.rpartition(".")[2],
        operands=", ".join(item.name + _MARKS.get(item.kind, "") for item in cls.operand_fields()),
        attributes=", ".join(map(_described, cls.attribute_fields())),
        regions=", ".join(item.name for item in cls.region_fields()),
        dtypes=_dtype_names(sampled_dtypes(cls)),
        has_reference=hasattr(cls, "reference"),
        lowering="rule" if has_rule else "step" if cls.host_step else "decompose" if cls.decompose else "",
        gradient=_gradient(cls),
        reasons=_reasons(cls),
    )


def _reasons(cls: type[Op]) -> dict[str, str]:
    """Why an op deliberately lacks something, by what that is."""
    found = {"gradient" if part == "vjp" else part: reason for part, reason in cls.deliberate.items()}
    if not cls.operand_fields():
        found.setdefault("gradient", "it takes nothing that one could be for")
    elif not cls.region_fields() and not any(dtype.is_float for dtype in _given_dtypes(cls)):
        found.setdefault("gradient", "it gives no floats")
    return found


def _given_dtypes(cls: type[Op]) -> set[DType]:
    """The dtypes of the results that the op is tested with; f32 for an op of a user's without samples."""
    if not hasattr(cls, "samples"):
        return {as_dtype("f32")}
    return {type_.dtype for item in cls.samples() for type_ in _result_types(cls, item)}


def _result_types(cls: type[Op], sample: Sample) -> tuple[TensorType, ...]:
    return tuple(cls.infer_all([on_operand(array_type, item) for item in sample.operands], sample.attributes))


def _gradient(cls: type[Op]) -> str:
    if cls.vjp is not None:
        return "rule"
    return "decompose" if cls.decompose and "vjp" not in cls.deliberate else ""


def _described(item: Field) -> str:
    return f"{item.name}: {item.kind}"


def sampled_dtypes(cls: type[Op]) -> set[DType]:
    """The dtypes that the op is tested with: its results' where operands have them too, else its first operand's.

    An op of a user's may have no samples.
    """
    if not hasattr(cls, "samples"):
        return set()
    return {_sampled_dtype(cls, sample) for sample in cls.samples()}


def _sampled_dtype(cls: type[Op], sample: Sample) -> DType:
    arrays = [array for item in sample.operands for array in (item if isinstance(item, list) else [item])]
    given = [as_dtype(array.dtype) for array in arrays if array is not None]
    if cls.region_fields():  # its bodies would have to be traced
        return given[0]
    result = _result_types(cls, sample)[0].dtype
    return result if result in given or not given else given[0]


def _dtype_names(dtypes: set[DType]) -> str:
    return _GROUPS.get(frozenset(dtypes)) or " ".join(dtype.name for dtype in MOVED if dtype in dtypes)
