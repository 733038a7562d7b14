"""Every op, by its own declaration: inference against the reference, error samples, and decompositions by NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest

from blu.dialects.core.context import make_context
from blu.dialects.core.evaluation import array_type, evaluate, on_operand, types_of
from blu.dialects.core.fields import ATTRIBUTE_KINDS
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import OPS, ErrorSample, Op, _flatten, attributes_of, operands_of
from blu.dialects.tensor.tensor import Tensor
from blu.errors import BluError
from tests.support.programs.op_programs import arrays_of, flat, program_of, regrouped
from tests.support.programs.traced import FILE, LINE, evaluated, shared_context, traced
from tests.support.tolerances import assert_close

make_context()
ALL = sorted(OPS)
COMPOSITES = [name for name in ALL if OPS[name].decompose and not OPS[name].region_fields()]


@pytest.mark.parametrize("name", ALL)
def test_reference_has_the_inferred_type(name: str) -> None:
    cls = OPS[name]
    samples = list(cls.samples())
    assert samples
    for sample in samples:
        expected = types_of(cls, [on_operand(array_type, item) for item in sample.operands], sample.attributes)
        results = evaluate(cls, sample.operands, sample.attributes)
        assert tuple(map(array_type, results)) == expected


@pytest.mark.parametrize("name", ALL)
def test_samples_build_ops_that_verify_and_read_back(name: str) -> None:
    """All samples of an op in one module: built, verified, printed, parsed, and printed the same again."""
    cls = OPS[name]
    samples = list(cls.samples())
    module = traced(lambda *tensors: program_of(cls, samples)(list(tensors)), list(map(array_type, arrays_of(samples))))
    text = str(module)
    with shared_context():
        parsed = ir.Module.parse(text)
        assert str(parsed) == text
        operations = [op.operation for op in parsed.body.operations[0].regions[0].blocks[0].operations][:-1]
        for operation, sample in zip(operations, samples, strict=True):
            own = {name: value for name, value in sample.attributes.items() if not callable(value)}
            _assert_same_attributes(attributes_of(operation), own)
            assert len(flat(tuple(operands_of(operation)))) == len(flat(sample.operands))


def _assert_same_attributes(found: dict, expected: dict) -> None:
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if isinstance(value, np.ndarray):
            assert found[key].dtype == value.dtype
            np.testing.assert_array_equal(found[key], value)
        else:
            assert found[key] == value


# Ops of one operand that no shape or dtype is wrong for.
TAKES_ANYTHING = ("barrier", "convert", "refused_gradient", "stop_gradient")


@pytest.mark.parametrize("name", ALL)
def test_error_samples_raise_with_the_location(name: str) -> None:
    cls = OPS[name]
    samples = list(cls.error_samples())
    assert samples or name in TAKES_ANYTHING
    for sample in samples:
        with pytest.raises(BluError, match=re.escape(sample.message)) as raised:
            traced(lambda *tensors, sample=sample: _emit_wrong(cls, sample, tensors), flat(sample.operands))
        assert str(raised.value).startswith(f"{FILE}:{LINE}: {name}: "), str(raised.value)


def _emit_wrong(cls: type[Op], sample: ErrorSample, tensors: tuple[Tensor, ...]) -> Tensor:
    return cls(*regrouped(sample.operands, list(tensors)), **sample.attributes)


@pytest.mark.parametrize("name", ALL)
def test_parsed_ir_is_refused_with_the_same_sentence(name: str) -> None:
    cls = OPS[name]
    for sample in cls.error_samples():
        if name == "constant" or cls.region_fields():
            continue  # an array that cannot be written has no text either; test_regions.py has bodies as text
        try:
            cls.infer_all(sample.operands, sample.attributes)
        except BluError as error:
            sentence = error.message
        text = _wrong_text(cls, sample)
        with shared_context(), pytest.raises(ir.MLIRError) as raised:
            ir.Module.parse(text)
        assert f"blu.{name}: {sentence}" in str(raised.value)
        assert f'"{FILE}":{LINE}:1' in str(raised.value)


def _wrong_text(cls: type[Op], sample: ErrorSample) -> str:
    """Text of a module with an op that does not verify, with its location."""
    types = flat(sample.operands)
    with shared_context(), ir.Location.file(FILE, LINE, 1):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ([type_.to_mlir() for type_ in types], []))
        block = main.add_entry_block()
        fields = cls.attribute_fields()
        attributes = {item.name: ATTRIBUTE_KINDS[item.kind].encode(sample.attributes[item.name]) for item in fields}
        values, segments = _flatten(cls, regrouped(sample.operands, list(map(Tensor, block.arguments))))
        if any(item.kind != "Operand" for item in cls.operand_fields()):
            attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(segments)
        result = ir.RankedTensorType.get([3], ir.F32Type.get())
        with ir.InsertionPoint(block):
            ir.Operation.create(f"blu.{cls.name}", [result] * cls.num_results, values, attributes)
            func.ReturnOp([])
        return module.operation.get_asm(enable_debug_info=True, print_generic_op_form=True)


def test_a_wrong_declared_result_is_refused() -> None:
    text = """func.func @main(%x: tensor<2xf32>) {
      %y = "blu.exp"(%x) : (tensor<2xf32>) -> tensor<3xf32>
      return
    }"""
    with shared_context(), pytest.raises(ir.MLIRError, match=r"gives f32\[2\], but the result is declared as f32\[3\]"):
        ir.Module.parse(text)


@pytest.mark.parametrize("name", COMPOSITES)
def test_decomposition_means_the_same(name: str) -> None:
    """The decomposition verifies, has the inferred types, and gives the reference's numbers when NumPy runs it."""
    cls = OPS[name]
    for sample in cls.samples():
        arrays = flat(sample.operands)

        def decomposed(*tensors: Tensor, sample=sample) -> list[Tensor]:
            found = cls.decompose(*regrouped(sample.operands, list(tensors)), **sample.attributes)
            return list(found) if isinstance(found, tuple) else [found]

        found = evaluated(decomposed, *arrays)
        expected = evaluate(cls, sample.operands, sample.attributes)
        for one, other in zip(found if isinstance(found, list) else [found], expected, strict=True):
            assert_close(name, one, other)


def test_sizes_beyond_addresses_are_refused() -> None:
    from blu.frontend.functional import functional as blu

    with pytest.raises(BluError, match=r"more than can be addressed"):
        traced(lambda: blu.zeros((1 << 31, 1 << 31, 4)), [])
    assert traced(lambda: blu.zeros((1 << 31, 2)), [])
