"""The pass that gives every tensor of the host program a place in memory."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass, field
from blu.dialects import plan
from blu.dialects.core.mlir import func, ir, memref
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import is_kernel
from blu.passes.framework.kernels import callee_of, is_host_step, is_routine, kernels_in
from blu.passes.framework.rules import lines_of, refusal
from blu.passes.host.bufferize import collectives, views
from blu.passes.host.bufferize.concatenation import beginning_of, end_of, inserted_into, part_of
from blu.passes.host.bufferize.kernels import KernelMemory, KernelTable, scratch_types, updated_inputs, written_over
from blu.passes.host.bufferize.loops import place_loop, slot_of
from blu.passes.host.bufferize.placement import (
    INSERTED_IN_PLACE,
    OVER_DONATED,
    OVER_OPERAND,
    PLACED_NOWHERE,
    RETURNED_IN_PLACE,
    UPDATING,
    Inserting,
    Memory,
    OverDonated,
    OverOperand,
    Placing,
    Returning,
    Updating,
    may_change,
)
from blu.passes.host.bufferize.report import PlacementReport
from blu.passes.host.bufferize.routines import place_routine
from blu.passes.host.bufferize.times import spans
from blu.passes.host.bufferize.uses import Returned, is_empty, only_gives_a_shape, transposed_layout
from blu.passes.host.bufferize.views import Root, View, ViewTable, contiguous_strides, whole
from blu.passes.host.pair_donations import donated_arguments, pairs_of


@dataclass(frozen=True)
class Bufferize(Pass):
    """Tensors of the host program become buffers, views become strides, results become arguments of kernels.

        %1 = linalg.transpose %arg0 permutation = [1, 0]
        %2 = call @rows_0(%1) : (tensor<4x2xf32>) -> tensor<4x2xf32>
        return %2

    becomes

        %0 = plan.buffer {space = "output", index = 0} : memref<4x2xf32>
        %1 = memref.reinterpret_cast %arg0 to offset: [0], sizes: [4, 2], strides: [1, 4]
        call @rows_0(%1, %0)

    A kernel result that is only transposed gets the transposed layout at once, so that the view that follows is plain,
    and one that only becomes a part of a concatenation is written where it belongs there.
    With `over_operands`, a kernel of rows, or a product with what follows it, writes its one result over an operand of
    the same type that nobody reads again: the target's emitters promise that a row, or what follows a product for an
    element, is read before it is written.
    """

    level = "linalg"
    leads_to = "memref"
    over_operands: bool = False

    def run(self, module: ir.Module) -> None:
        kernels = kernels_in(module)
        table = KernelTable(module)
        for function in list(module.body.operations):
            if isinstance(function, func.FuncOp) and not is_kernel(function):
                with function.operation.location:
                    _Bufferizer(self, function, kernels, table).run()
        for kernel in kernels.values():
            kernel.operation.erase()


@dataclass
class _Bufferizer:
    """The rewriting of one host function into a new one over memrefs."""

    owner: Bufferize
    function: func.FuncOp
    kernels: dict[str, func.FuncOp]
    table: KernelTable
    views: ViewTable = field(default_factory=ViewTable)
    # Memory that insertions fill, by the first of them: kernels may write their parts before it comes.
    joined: dict[ir.Operation, View] = field(default_factory=dict)
    num_constants: int = 0
    num_checks: int = 0
    num_buffers: int = 0

    def run(self) -> None:
        old = self.function.entry_block
        operations = [operation.operation for operation in old.operations]
        self.memory = Memory(self.views, spans(operations), Returned(operations[-1].operands), self.kernels)
        self._open()
        self.report = PlacementReport(self.function)
        handlers = {
            "arith.constant": self._constant,
            "tensor.empty": self._empty,
            "linalg.fill": self._fill,
            "tensor.insert_slice": self._insert,
            "func.call": self._call,
            "plan.check": self._check,
            "plan.loop": self._loop,
            "func.return": self._return,
        }
        with ir.InsertionPoint(self.block):
            for operation in operations:
                with operation.location:
                    handlers.get(operation.name, self._other)(operation)
        self.report.tell_unused(self.donated, set(self.pairs.values()))
        self.owner.explain(lines_of(self.report.decisions))
        self.owner.count("uses looked at", self.memory.steps)
        self.function.operation.erase()

    def _open(self) -> None:
        """The new function, with a memref for each input."""
        old = self.function
        types = [_memref_of(argument.type) for argument in old.entry_block.arguments]
        with ir.InsertionPoint(old):
            function = func.FuncOp(old.name.value, (types, []))
        for name in ("arg_attrs", "sym_visibility", "blu.inputs", "blu.results", plan.LOOP_BODY):
            if name in old.attributes:
                function.attributes[name] = old.attributes[name]
        if "res_attrs" in old.attributes:  # the results are memory of the program's from here on
            function.attributes[plan.RESULT_NAMES] = _names_in(old.attributes["res_attrs"])
        self.block = function.add_entry_block([argument.location for argument in old.entry_block.arguments])
        self.donated = donated_arguments(old)
        self.pairs = pairs_of(old)
        for index, (argument, value) in enumerate(zip(old.entry_block.arguments, self.block.arguments, strict=True)):
            root = Root(value, _shape(argument.type), index in self.donated, input=index)
            self.views[argument] = whole(root)

    # Memory.
    def new_root(self, shape: Sequence[int], element: ir.Type, space: str = "arena", index: int = -1) -> Root:
        if space == "arena":
            index = self.num_buffers
            self.num_buffers += 1
        value = plan.buffer(ir.MemRefType.get(list(shape), element), space, index)
        return Root(value, tuple(shape), is_writable=True)

    def _root_for(self, value: ir.Value) -> View:
        """Memory for a kernel's result: an output or check slot where it goes there as it is, else the arena."""
        shape, element = _shape(value.type), ir.RankedTensorType(value.type).element_type
        if (permutation := transposed_layout(value, self.kernels)) is not None:
            root = self.new_root([shape[dim] for dim in permutation], element)
            inverse = [permutation.index(dim) for dim in range(len(permutation))]
            return views.transpose(whole(root), inverse)
        return whole(self.checked_root(value) or self.plain_root(value))

    def checked_root(self, value: ir.Value) -> Root | None:
        """A slot for what a check looks at."""
        if not any(use.owner.operation.name == "plan.check" for use in value.uses):
            return None
        self.num_checks += 1
        return self.new_root([], ir.RankedTensorType(value.type).element_type, "status", self.num_checks - 1)

    def _place_for(self, value: ir.Value) -> View:
        """Memory for a result: in that of what it only becomes a part of, else its own."""
        part = part_of(value)
        place = part and part.place_in(self._joined_by(part.first, value.owner.operation))
        return place or self._root_for(value)

    def _joined_by(self, first: ir.Operation, writer: ir.Operation) -> View:
        """Memory that insertions fill, the `first` of them and others: a part of a larger value's, or their own."""
        if first not in self.joined:
            value, part = first.results[0], part_of(end_of(first).results[0])
            place = (
                part.place_in(self._joined_by(part.first, writer)) if part else self._donated_to(value, writer, first)
            )
            self.joined[first] = place or self._root_for(value)
        return self.joined[first]

    def _donated_to(self, value: ir.Value, operation: ir.Operation, first: ir.Operation | None = None) -> View | None:
        """The donated argument that a result may be written over: dead, or read here for the last time, in place.

        Of a result that insertions put together, `first` is the first of these.
        """
        result = self.memory.returned.index_of(value)
        index = self.pairs.get(result) if result is not None else None
        if index is None:
            return None
        root = self.views[self.function.entry_block.arguments[index]].root
        reason = refusal(OVER_DONATED, OverDonated(operation, root, self.memory, first))
        self.report.tell_donated(operation, index, reason)
        if reason is not None:
            return None
        root.is_taken = True
        shape = _shape(value.type)
        return View(root, 0, shape, contiguous_strides(shape))

    def _over_operand(self, value: ir.Value, operation: ir.Operation, kernel: func.FuncOp) -> View | None:
        """An intermediate operand that the kernel's one result may be written over."""
        if refusal(PLACED_NOWHERE, Placing(value, operation, self.memory, self.owner.over_operands)) is not None:
            return None
        for number in range(len(operation.operands)):
            case = OverOperand(value, operation, kernel, number, self.memory)
            if refusal(OVER_OPERAND, case) is None:
                return whole(case.root) if case.root.shape == _shape(value.type) else self.views[case.operand]
        return None

    def memref_of(self, view: View) -> ir.Value:
        """The memref value of a view, cast from its root where it is not all of it."""
        type_ = view.memref_type()
        if view.is_part and view.size:
            return plan.part(type_, view.root.memref, view.start)
        if type_ == view.root.memref.type:
            return view.root.memref
        if view.size == 0:  # MLIR's strides of an empty memref fit no cast, and there is nothing to read
            return self.new_root(view.shape, view.element_type).memref
        strides, offset = type_.get_strides_and_offset()
        return memref.ReinterpretCastOp(
            type_,
            view.root.memref,
            [],
            [],
            [],
            static_offsets=[offset],
            static_sizes=list(view.shape),
            static_strides=list(strides),
        ).result

    def copy(self, source: View, target: View) -> None:
        if source.size == 0:
            return
        name = self.table.copy(source.memref_type(), target.memref_type(), ir.Location.current)
        func.CallOp([], name, [self.memref_of(source), self.memref_of(target)])

    def in_order(self, value: ir.Value) -> View:
        """A value in memory where all elements lie in order."""
        view = self.views[value]
        return view if view.is_contiguous else self._materialized(view)

    def _materialized(self, view: View) -> View:
        """The same elements in fresh contiguous memory."""
        target = whole(self.new_root(view.shape, view.element_type))
        self.copy(view, target)
        return target

    def _updated(self, operation: ir.Operation, index: int, result: int = 0) -> View:
        """Memory for a result that is operand `index`, updated: the operand's own, where that is free, else a copy."""
        operands = list(operation.operands)
        if is_empty(operands[index]):
            return self._root_for(operation.results[result])
        view = self.views[operands.pop(index)]
        others = [self.views[other] for other in operands]
        reason = refusal(UPDATING, Updating(operation, view, others, self.memory))
        self.report.tell_update(operation, reason)
        if reason is None:
            return view
        target = self._root_for(operation.results[result])
        self.copy(view, target)
        return target

    # Operations.
    def _constant(self, operation: ir.Operation) -> None:
        value = operation.results[0]
        if not isinstance(value.type, ir.RankedTensorType):
            return
        root = self.new_root(
            _shape(value.type), ir.RankedTensorType(value.type).element_type, "constant", self.num_constants
        )
        root.memref.owner.attributes["blu.value"] = operation.attributes["value"]
        root.is_writable = False
        self.num_constants += 1
        self.views[value] = whole(root)

    def _empty(self, operation: ir.Operation) -> None:
        value = operation.results[0]
        if not all(map(only_gives_a_shape, value.uses)):
            self.views[value] = self._root_for(value)

    def _fill(self, operation: ir.Operation) -> None:
        view = self._place_for(operation.results[0])
        name = self.table.fill(operation.operands[0].owner.operation, view.memref_type(), operation.location)
        func.CallOp([], name, [self.memref_of(view)])
        self.views[operation.results[0]] = view

    def _view(self, operation: ir.Operation) -> None:
        rule = views.VIEW_RULES.get(operation.name)
        if rule is None:
            self.owner.fail(
                operation, f"{operation.name} is left in the host program, which only holds views and calls"
            )
        source = self.views[operation.operands[0]]
        view = rule(operation, source)
        if view is None:
            self.report.tell_view(operation)
            view = rule(operation, self._materialized(source))
        assert view is not None, "a contiguous value can be viewed in any shape"
        self.views[operation.results[0]] = view

    def _insert(self, operation: ir.Operation) -> None:
        """Copy the source into its place, unless it has been written there."""
        source, first = self.views[operation.operands[0]], beginning_of(operation)
        target = self._updated(operation, 1) if first is None else self._joined_by(first, operation)
        place = inserted_into(operation, target)
        if not source.is_at(place):
            self.report.tell_part(operation, refusal(INSERTED_IN_PLACE, Inserting(operation, source, first)))
            self.copy(source, place)
        self.views[operation.results[0]] = target

    def _call(self, operation: ir.Operation) -> None:
        kernel = self.kernels[callee_of(operation)]
        inputs = [self.views[value] for value in operation.operands]
        in_place = self.memory.facts.ask(updated_inputs, kernel)
        updated = {output: self._updated(operation, index, output) for index, output in in_place.items()}
        outputs = [
            updated.get(number)
            or self._donated_to(value, operation)
            or self._over_operand(value, operation, kernel)
            or self._place_for(value)
            for number, value in enumerate(operation.results)
        ]
        for value, view in zip(operation.results, outputs, strict=True):
            self.views[value] = view
        types, places = (tuple(view.memref_type() for view in group) for group in (inputs, outputs))
        over = written_over(kernel, inputs, outputs, self.memory.facts)
        name = self.table.specialise(kernel, KernelMemory(types, places, tuple(in_place.items()), over))
        read = [view for index, view in enumerate(inputs) if index not in in_place]
        scratch = [whole(self.new_root(type_.shape, type_.element_type)) for type_ in scratch_types(kernel)]
        call = func.CallOp([], name, [self.memref_of(view) for view in (*read, *outputs, *scratch)])
        if plan.BATCH in operation.attributes:
            call.attributes[plan.BATCH] = operation.attributes[plan.BATCH]

    def _check(self, operation: ir.Operation) -> None:
        found = slot_of(operation.operands[0], self)
        attributes = {name: operation.attributes[name] for name in operation.attributes}
        ir.Operation.create("plan.check", operands=[found], attributes=attributes)

    def _other(self, operation: ir.Operation) -> None:
        """What is a step of its own, or else a view."""
        if is_routine(operation.name):
            place_routine(operation, self)
        else:
            (self._collective if is_host_step(operation.name) else self._view)(operation)

    def _collective(self, operation: ir.Operation) -> None:
        """Begin it and wait for it, in memory where all elements lie in order; `blu-overlap-collectives` lets it take
        longer. What it reduces is reduced in place where nobody reads it later."""
        sources = [self.in_order(value) for value in operation.operands]
        result = operation.results[0]
        target = next((view for view in sources if may_change(operation, view, self.memory)), None)
        target = target or self._donated_to(result, operation) or whole(self.plain_root(result))
        source = sources[0] if sources else target
        plan.wait(plan.start(self.memref_of(source), self.memref_of(target), collectives.fields_of(operation)))
        self.views[result] = target

    def _loop(self, operation: ir.Operation) -> None:
        """A loop, whose body has its memory by now."""
        body = next(item for item in find(self.table.module, func.FuncOp) if item.name.value == plan.body_of(operation))
        for value, view in zip(operation.results, place_loop(operation, body, self), strict=True):
            self.views[value] = view

    def plain_root(self, value: ir.Value) -> Root:
        """Memory of a value alone, in its own order: a result of the program, or in the arena."""
        shape, element = _shape(value.type), ir.RankedTensorType(value.type).element_type
        if (output := self.memory.returned.index_of(value)) is None:
            return self.new_root(shape, element)
        root = self.new_root(shape, element, "output", output)
        root.output = output
        return root

    def _carried_in(self, index: int) -> int | None:
        """The argument whose memory alone a result may have: in the body of a loop that which it is carried on to."""
        return self.pairs.get(index, -1) if plan.LOOP_BODY in self.function.attributes else None

    def _return(self, operation: ir.Operation) -> None:
        """Copy what is not in its output yet; a donated input that was updated in place is its own output."""
        taken: set[Root] = set()
        for index, value in enumerate(operation.operands):
            view = self.views[value]
            if view.root.output == index:
                continue
            reason = refusal(RETURNED_IN_PLACE, Returning(index, view, taken, self._carried_in(index)))
            self.report.tell_result(value, index, view.root.input, reason)
            if reason is None:
                taken.add(view.root)
                plan.alias(view.root.memref, index)
                continue
            target = self.new_root(view.shape, view.element_type, "output", index)
            self.copy(view, whole(target))
        func.ReturnOp([])


def _names_in(attributes: ir.Attribute) -> ir.ArrayAttr:
    """The names in attributes of results, empty where one has none."""
    items = [ir.DictAttr(item) for item in ir.ArrayAttr(attributes)]
    return ir.ArrayAttr.get([item["blu.name"] if "blu.name" in item else ir.StringAttr.get("") for item in items])


def _shape(type_: ir.Type) -> tuple[int, ...]:
    return tuple(ir.RankedTensorType(type_).shape)


def _memref_of(type_: ir.Type) -> ir.Type:
    ranked = ir.RankedTensorType(type_)
    return ir.MemRefType.get(list(ranked.shape), ranked.element_type)
