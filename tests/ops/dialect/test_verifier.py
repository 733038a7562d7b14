"""Hand-written IR may give an op any operands, attributes and results: the verifier answers with a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from blu.dialects.core.context import make_context
from blu.dialects.core.evaluation import array_type, on_operand
from blu.dialects.core.fields import ATTRIBUTE_KINDS, SEGMENTS, VARIADIC_SLOTS
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import OPS, Op

make_context()
TYPES = (
    "tensor<f32>", "tensor<3xf32>", "tensor<0xf32>", "tensor<2x3x4x5xf32>", "tensor<2x3xi1>", "tensor<4xi64>",
    "tensor<5xui8>", "tensor<*xf32>", "tensor<?x3xf32>", "tensor<3xcomplex<f32>>", "tensor<2xindex>", "tensor<3xi7>",
    "memref<3xf32>", "vector<3xf32>", "f32", "index", "none", "tensor<3xf8E4M3FN>", "tensor<9223372036854775807xf32>",
    "tensor<4294967296x4294967296xi8>",
)  # fmt: skip
ATTRIBUTES = (
    "unit", '"x"', "0 : i64", "-1 : i64", "9 : i64", "9223372036854775807 : i64", "-9223372036854775808 : i64",
    "3 : i8", "true", "0.5 : f64", "0x7FF8000000000000 : f64", "0x7FF0000000000000 : f64", "0.5 : f32", "array<i64>",
    "array<i64: 0>", "array<i64: -1, 7>", "array<i64: 1, 1>", "array<i64: 9223372036854775807, 2, -9, 4>",
    "array<i32: 0, 1>", "f32", "f80", "i1", "index", "tensor<3xf32>", "dense<1> : tensor<2xi64>", "[1, 2]", "{a = 1}",
    "dense<0.5> : tensor<3xf32>", "dense<1.0> : vector<2xf32>", "dense<> : tensor<0xf32>", "@f", "affine_map<()->()>",
    'dense<"0xFF"> : tensor<3xi8>', "sparse<[[0]], [1.0]> : tensor<4xf32>", 'dense_resource<a> : tensor<3xf32>',
)  # fmt: skip


@dataclass(frozen=True)
class Written:
    """An op as text gives it: types of its operands and results, attributes as text."""

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: dict[str, str] = field(default_factory=dict)

    def verify(self) -> bool:
        """Whether the verifier accepts it. An exception of Python's is the verifier's own."""
        values = ir.Operation.create("test.values", [ir.Type.parse(type_) for type_ in self.operands]).results
        results = [ir.Type.parse(type_) for type_ in self.results]
        attributes = {name: ir.Attribute.parse(text) for name, text in self.attributes.items()}
        operation = ir.Operation.create(f"blu.{self.name}", results, list(values), attributes)
        try:
            return operation.verify()
        except ir.MLIRError as error:
            assert str(error).strip()
            return False


def written(cls: type[Op]) -> Iterator[Written]:
    """The first sample of an op as text."""
    for sample in list(cls.samples())[: 0 if cls.region_fields() else 1]:  # test_regions.py has those with bodies
        types = [on_operand(array_type, item) for item in sample.operands]
        groups = [item if isinstance(item, list) else [item] * (item is not None) for item in types]
        encoded = {
            item.name: str(ATTRIBUTE_KINDS[item.kind].encode(sample.attributes[item.name]))
            for item in cls.attribute_fields()
        }
        if any(item.kind != "Operand" for item in cls.operand_fields()):
            pairs = zip(groups, cls.operand_fields(), strict=True)
            slots = [int(slot < len(group)) for group, item in pairs for slot in range(item.width)]
            encoded[SEGMENTS] = f"array<i32: {', '.join(map(str, slots))}>"
        operands = tuple(str(type_.to_mlir()) for group in groups for type_ in group)
        results = tuple(str(type_.to_mlir()) for type_ in cls.infer_all(types, sample.attributes))
        yield Written(cls.name, operands, results, encoded)


def mistakes(right: Written) -> Iterator[Written]:
    """The op with one thing about it changed."""
    operands, results, attributes = right.operands, right.results, right.attributes
    for number in range(len(operands) + 1):
        yield replace(right, operands=operands[:number])
        yield replace(right, operands=(*operands[:number], "tensor<3xf32>", *operands[number:]))
        for type_ in TYPES if number < len(operands) else ():
            yield replace(right, operands=(*operands[:number], type_, *operands[number + 1 :]))
    yield replace(right, operands=("tensor<3xf32>",) * (2 * VARIADIC_SLOTS))
    yield replace(right, results=())
    yield replace(right, results=(*results, "tensor<3xf32>"))
    for type_ in TYPES:
        yield replace(right, results=(type_, *results[1:]))
    for name in attributes:
        yield replace(right, attributes={key: value for key, value in attributes.items() if key != name})
        for text in (*ATTRIBUTES, "array<i32: 1>", "array<i32: 1, 1, 1, 1, 1>", "array<i32: -1, 2>"):
            yield replace(right, attributes={**attributes, name: text})


@pytest.mark.parametrize("name", sorted(OPS))
def test_the_verifier_has_a_sentence_for_every_mistake(name: str) -> None:
    with make_context() as context, ir.Location.unknown(), ir.InsertionPoint(ir.Module.create().body):
        context.allow_unregistered_dialects = True
        for right in written(OPS[name]):
            assert right.verify(), right
            for wrong in mistakes(right):
                try:
                    wrong.verify()
                except Exception as error:
                    error.add_note(str(wrong))
                    raise
