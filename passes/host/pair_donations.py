"""The pass that says which result of the program may be written over which donated argument."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import tensor_type
from blu.dialects.core.mlir import func, ir
from blu.errors import DonationWarning
from blu.passes.framework.base import Pass
from blu.passes.framework.launches import host_functions

RESULT = "blu.result"
"""The attribute of a donated argument with the number of the result that may be written over it."""
_ANY = "any name"


@dataclass(frozen=True)
class PairDonations(Pass):
    """Each donated argument is told which result may have its memory: the one of its name, or the next of its type.

        func.func @main(%x: tensor<4xf32>, %total: tensor<4xf32> {blu.donated}) -> (tensor<8xf32>, tensor<4xf32>)

    becomes

        func.func @main(%x: tensor<4xf32>, %total: tensor<4xf32> {blu.donated, blu.result = 1}) -> ..

    Names are alike if they are so behind the first dot: `model.h.0.weight` and `0.h.0.weight`, where a function returns
    the new model first. Whether the memory can be written when the result is made is seen by blu-bufferize. Of an
    argument that suits no result the user is warned.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        for function in host_functions(module):
            if not function.arguments:
                continue
            donated, types = donated_arguments(function), function.type.inputs
            pairs = {argument: result for result, argument in _pairs(function, donated).items()}
            for number, name in donated.items():
                type_ = tensor_type(types[number])
                if number not in pairs and type_.size:
                    message = f"the donated argument '{name or number}' is of no use: no result is another {type_}"
                    self.warn(message, DonationWarning)
            attributes = _attributes(function, "arg_attrs", len(types))
            for argument, result in pairs.items():
                attributes[argument][RESULT] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), result)
            function.arg_attrs = ir.ArrayAttr.get([ir.DictAttr.get(item) for item in attributes])
            self.count("pairs", len(pairs))


def donated_arguments(function: func.FuncOp) -> dict[int, str]:
    """The arguments that a host function may overwrite: their names by their numbers."""
    attributes = _attributes(function, "arg_attrs", len(function.arguments))
    return {number: _name(item) for number, item in enumerate(attributes) if "blu.donated" in item}


def pairs_of(function: func.FuncOp) -> dict[int, int]:
    """For results the number of the donated argument that they may be written over."""
    attributes = _attributes(function, "arg_attrs", len(function.arguments))
    return {ir.IntegerAttr(item[RESULT]).value: number for number, item in enumerate(attributes) if RESULT in item}


def _pairs(function: func.FuncOp, donated: dict[int, str]) -> dict[int, int]:
    """For results the donated argument: first by name, then by name behind the first dot, the rest in order."""
    found: dict[int, int] = {}
    inputs, results = function.type.inputs, function.type.results
    names = [_name(item) for item in _attributes(function, "res_attrs", len(results))]
    for kind in (lambda name: name, lambda name: name.partition(".")[2], lambda name: _ANY):
        waiting: dict[tuple[ir.Type, str], list[int]] = {}
        taken = set(found.values())
        for number, name in reversed(donated.items()):
            if number not in taken:
                waiting.setdefault((inputs[number], kind(name)), []).append(number)
        for result, type_ in enumerate(results):
            wanted = kind(names[result])
            candidates = waiting.get((type_, wanted))
            if result not in found and wanted and candidates:
                found[result] = candidates.pop()
    return found


def _name(attributes: dict[str, ir.Attribute]) -> str:
    return ir.StringAttr(attributes["blu.name"]).value if "blu.name" in attributes else ""


def _attributes(function: func.FuncOp, kind: str, count: int) -> list[dict[str, ir.Attribute]]:
    """The attributes of all arguments or results. (An array of attributes copies all of them to give one.)"""
    if kind not in function.attributes:
        return [{} for _ in range(count)]
    return [{item.name: item.attr for item in ir.DictAttr(each)} for each in ir.ArrayAttr(function.attributes[kind])]
