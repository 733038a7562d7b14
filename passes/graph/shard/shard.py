"""The pass that makes of a program over whole tensors the program of one rank, which has parts of them."""

from __future__ import annotations

from dataclasses import replace

from blu.dataclass import dataclass, field
from blu.dialects.core.dtypes import TensorType, tensor_type
from blu.dialects.core.fields import on_operand
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import attributes_of, emitting_at, is_pure, operands_of, operation_class, value_type
from blu.dialects.mesh import mesh_of
from blu.dialects.ops.pointwise import Pointwise
from blu.dialects.sharding import ATTRIBUTE, BETWEEN, Sharding, rotation_of
from blu.dialects.tensor.tensor import Tensor
from blu.errors import BluError
from blu.passes.framework.base import Pass, find
from blu.passes.graph.shard.layers import DecomposedError
from blu.passes.graph.shard.placed import Movement, Placed
from blu.passes.graph.shard.recomputed import computed_again
from blu.passes.graph.shard.rules import Case, present_in, rule_of
from blu.passes.graph.shard.sequence_axis import MAKERS, Place, SequenceAxis


@dataclass(frozen=True)
class Shard(Pass):
    """Arguments and results that are split over axes of the mesh (`blu.sharding`) become the parts of one rank.

        func.func @main(%x: tensor<8x4xf32> {blu.sharding = "dp, *"}, %w: tensor<4x4xf32>) -> tensor<f32> {
          %0 = "blu.matmul"(%x, %w)
          %1 = "blu.sum"(%0) {axes = [0, 1]}
          return %1

    becomes, for two ranks of dp,

        func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<f32> {
          %0 = "blu.matmul"(%x, %w)
          %1 = "blu.sum"(%0) {axes = [0, 1]}
          %2 = "blu.all_reduce"(%1) {axis = "dp", ranks = 2, reduction = "sum"}
          return %2

    Each op has a rule (`passes/graph/shard/`) that says how it is done on parts of its operands; one without is done
    whole by every rank. Sums over what is split are made when somebody needs them, so that gradients of several uses of
    a parameter are added up before they travel. Data, tensor and sharded-optimizer parallelism are shardings of the
    tokens, the weights and the optimizer's state (Xu et al., "GSPMD: General and scalable parallelization for ML
    computation graphs"). Where positions are split, keys and values travel (`ring.py`), by the exchange that
    `blu.rotation` of the module names.
    """

    level = "blu"

    def run(self, module: ir.Module) -> None:
        for function in list(find(module, func.FuncOp)):
            if _is_sharded(function):
                with function.operation.location:
                    _Sharding(self, module, function).run()


def _is_sharded(function: func.FuncOp) -> bool:
    return any(ATTRIBUTE in item for kind in ("arg_attrs", "res_attrs") for item in _attributes(function, kind))


def _attributes(function: func.FuncOp, kind: str) -> list[ir.DictAttr]:
    """The attributes of each argument, or of each result."""
    count = len(function.type.inputs if kind == "arg_attrs" else function.type.results)
    if kind not in function.attributes:
        return [ir.DictAttr.get({})] * count
    return [ir.DictAttr(item) for item in ir.ArrayAttr(function.attributes[kind])]


@dataclass
class _Sharding:
    """The rewriting of one function."""

    owner: Shard
    module: ir.Module
    old: func.FuncOp
    values: dict[ir.Value, Placed] = field(default_factory=dict)
    # How what elementwise ops connect is split, where some of it is, by what stands for all of it.
    companions: dict[ir.Value, Sharding] = field(default_factory=dict)
    # Of rows of sequences, all that the last product needed.
    gathered: dict[ir.Value, Placed] = field(default_factory=dict)

    def run(self) -> None:
        """Write the function of one rank beside the old one, and drop that."""
        self.mesh = mesh_of(self.module)
        sequence = SequenceAxis.of(self.old, self._between(), self.mesh)
        self.movement = Movement(self.mesh, sequence, rotation_of(self.module))
        given = self._shardings("arg_attrs", list(self.old.type.inputs))
        self.wanted = self._shardings("res_attrs", list(self.old.type.results))
        self.leaders = _leaders(self.old)
        self.wishes = _wishes(self.old, given, self.leaders)
        block = self._open(given)
        with ir.InsertionPoint(block):
            self._rewrite(self.old.entry_block)
        self.old.operation.erase()

    def _shardings(self, kind: str, types: list[ir.Type]) -> list[Sharding]:
        found = self._said(kind, types, ATTRIBUTE)
        return [item or Sharding.whole(tensor_type(type_).ndim) for item, type_ in zip(found, types, strict=True)]

    def _between(self) -> list[Sharding | None]:
        """How rows of sequences are split between products, by argument."""
        return self._said("arg_attrs", list(self.old.type.inputs), BETWEEN)

    def _said(self, kind: str, types: list[ir.Type], attribute: str) -> list[Sharding | None]:
        """The shardings that arguments or results have under an attribute, those that fit them."""
        found: list[Sharding | None] = []
        for number, (item, type_) in enumerate(zip(_attributes(self.old, kind), types, strict=True)):
            name = ir.StringAttr(item["blu.name"]).value if "blu.name" in item else f"number {number}"
            try:
                sharding = Sharding.parse(ir.StringAttr(item[attribute]).value) if attribute in item else None
                if sharding is not None:
                    sharding.local(tensor_type(type_), self.mesh)
            except BluError as error:
                what = "argument" if kind == "arg_attrs" else "result"
                self.owner.fail(self.old, f"{what} '{name}': {error.message}", advice=error.advice or "")
            found.append(sharding)
        return found

    def _open(self, given: list[Sharding]) -> ir.Block:
        old = self.old
        types = [tensor_type(type_) for type_ in old.type.inputs]
        local = [item.local(type_, self.mesh).to_mlir() for item, type_ in zip(given, types, strict=True)]
        results = [
            item.local(tensor_type(type_), self.mesh).to_mlir()
            for item, type_ in zip(self.wanted, old.type.results, strict=True)
        ]
        with ir.InsertionPoint(old):
            function = func.FuncOp(old.name.value, (local, results))
        for name in old.attributes:
            if name not in ("sym_name", "function_type", "arg_attrs", "res_attrs"):
                function.attributes[name] = old.attributes[name]
        for kind in ("arg_attrs", "res_attrs"):
            if kind in old.attributes:
                items = _attributes(old, kind)
                kept = [{n.name: n.attr for n in item if n.name not in (ATTRIBUTE, BETWEEN)} for item in items]
                function.attributes[kind] = ir.ArrayAttr.get([ir.DictAttr.get(item) for item in kept])
        block = function.add_entry_block([argument.location for argument in old.entry_block.arguments])
        for before, argument, sharding, type_ in zip(
            old.entry_block.arguments, block.arguments, given, types, strict=True
        ):
            self.values[before] = Placed(Tensor(argument), sharding, type_)
        return block

    def _rewrite(self, block: ir.Block) -> None:
        waiting = [item.operation for item in reversed(list(block.operations))]
        before: ir.Operation | None = None
        while waiting:
            operation = waiting.pop()
            if operation.name == "func.return":
                self._return(operation)
                continue
            try:
                self._do(operation)
                before = operation
            except DecomposedError:
                waiting += reversed(_between(before, block, waiting))

    def _do(self, operation: ir.Operation) -> None:
        cls = operation_class(operation)
        if cls is None or cls.region_fields() or (not is_pure(operation)):
            advice = "Leave shardings away, and write what ranks exchange yourself; or drop it."
            self.owner.fail(operation, f"{operation.name} is in a program that Blu shards", advice=advice)
        given = operands_of(operation)
        held = self.gathered if cls.name in MAKERS else {}
        operands = [on_operand(lambda value: held.get(value, self.values[value]), item) for item in given]
        case = Case(operation, cls, operands, attributes_of(operation), self.movement, *self._hopes(operation))
        with emitting_at(operation.location):
            results = rule_of(cls)(case)
            if cls.name in MAKERS:
                results = [self._between_products(*item) for item in zip(operation.results, results, strict=True)]
        for value, result in zip(present_in(given), case.present, strict=True):
            self._keep_sum(value, result)
            self._keep_gathered(value, result)
        if cls.name == "sum" and _is_of_split_rows(case):
            with emitting_at(operation.location):
                self._compute_again(operation.operands[0])
        self.values.update(zip(operation.results, results, strict=True))
        for value, result in zip(operation.results, results, strict=True):
            if any(result.sharding.dims):
                self.companions.setdefault(_leader(self.leaders, value), result.sharding.with_partial(()))

    def _between_products(self, value: ir.Value, result: Placed) -> Placed:
        """A result of which ranks have terms; of their sum each has rows, where those are split between products."""
        wanted = self.movement.sequence.wanted(value, result.sharding)
        return self.movement.to(result, wanted)

    def _hopes(self, operation: ir.Operation) -> tuple[Sharding | None, Sharding | None]:
        """How an op's result is going to be needed, and how others are split that it will meet, where that is known."""
        if not len(operation.results):
            return None, None
        result = operation.results[0]
        return self.wishes.get(result), self.companions.get(_leader(self.leaders, result))

    def _keep_sum(self, value: ir.Value, moved: Placed) -> None:
        """What was added up over ranks for one op is not added up again for the next."""
        before = self.values[value]
        if before.is_partial and set(moved.sharding.partial) < set(before.sharding.partial):
            self.values[value] = moved

    def _keep_gathered(self, value: ir.Value, moved: Placed) -> None:
        """Rows of sequences that a product needed are there for the next one, and no longer: two gradients use them."""
        place = self.movement.sequence.places.get(value)
        if place is not None and self._lost(place, self.values[value], moved):
            self.gathered = {value: moved}

    @staticmethod
    def _lost(place: Place, before: Placed, after: Placed) -> bool:
        dim, split = place
        return split in before.sharding.dims[dim] and split not in after.sharding.dims[dim]

    def _compute_again(self, value: ir.Value) -> None:
        """Let what waits for the sum of its rows over ranks compute their elements again."""
        if len(list(value.uses)) > 1:
            kept = self.values[value]
            self.values[value] = replace(kept, tensor=computed_again(kept.tensor))

    def _return(self, operation: ir.Operation) -> None:
        with emitting_at(operation.location):
            values = [
                self.movement.to(self.values[value], wanted).tensor.value
                for value, wanted in zip(operation.operands, self.wanted, strict=True)
            ]
        func.ReturnOp(values)


def _is_of_split_rows(case: Case) -> bool:
    """Whether a sum is of rows of which each rank has a part, as those of logits are where classes are split."""
    [value] = case.present
    last = value.type.ndim - 1
    return case.attributes["axes"] == (last,) and last > 0 and bool(value.sharding.dims[last])


def _between(before: ir.Operation | None, block: ir.Block, waiting: list[ir.Operation]) -> list[ir.Operation]:
    """The ops behind one, before the next that waits."""
    operations = [item.operation for item in block.operations]
    start = operations.index(before) + 1 if before is not None else 0
    return operations[start : operations.index(waiting[-1])]


def _leaders(function: func.FuncOp) -> dict[ir.Value, ir.Value]:
    """Values of one shape that only elementwise ops connect lead to one of them."""
    leaders: dict[ir.Value, ir.Value] = {}
    for operation in (item.operation for item in function.entry_block.operations):
        cls = operation_class(operation)
        if cls is None or not (issubclass(cls, Pointwise) or cls.name in ("convert", "where", "barrier")):
            continue
        [result] = operation.results
        for value in operation.operands:
            if _shape_of(value) == _shape_of(result) and _shape_of(result):
                leaders[_leader(leaders, value)] = _leader(leaders, result)
    return leaders


def _leader(leaders: dict[ir.Value, ir.Value], value: ir.Value) -> ir.Value:
    while leaders.get(value, value) != value:
        value = leaders[value]
    return value


def _wishes(
    function: func.FuncOp, given: list[Sharding], leaders: dict[ir.Value, ir.Value]
) -> dict[ir.Value, Sharding]:
    """How values will be needed that only elementwise ops connect to a split argument of their shape."""
    found = {
        _leader(leaders, argument): sharding
        for argument, sharding in zip(function.entry_block.arguments, given, strict=True)
        if any(sharding.dims)
    }
    values = [result for item in function.entry_block.operations for result in item.operation.results]
    return {value: found[leader] for value in values if (leader := _leader(leaders, value)) in found}


def _shape_of(value: ir.Value) -> tuple[int, ...]:
    type_: TensorType = value_type(value)
    return type_.shape
