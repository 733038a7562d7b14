"""A function of the math dialect that a kernel has often is written once, and called.

LLVM's time grows with the code that it gets, and an expansion (see expand_math.py) is 20 to 150 operations: a kernel of
eight sines took 150 ms. A call costs a few cycles and keeps the values around it in memory, so that one which stands
there once or twice, as in most kernels, is faster in place.

Before (in a module of kernels):           After:
    func.func @loops_0(...) {                  func.func @loops_0(...) {
      %1 = math.exp %0 : vector<16xf32>          %1 = call @math.exp.16xf32(%0) : ..
      %2 = math.exp %1 : vector<16xf32>          %2 = call @math.exp.16xf32(%1) : ..
      ...                                        ...
                                               func.func private @math.exp.16xf32(%0: vector<16xf32>) -> .. {
                                                 %1 = math.exp %0 : vector<16xf32>
                                                 return %1 : vector<16xf32>
"""

from __future__ import annotations

from collections import defaultdict

from blu.dialects.core.locations import describe
from blu.dialects.core.mlir import ir

# From how many uses in one kernel on. With 2 or 3 a softmax of several pieces would be calls already.
OFTEN = 5


def share_functions(operations: list[ir.Operation]) -> list[ir.Operation]:
    """Move those of `operations` (of the math dialect) that a kernel has often out of it; gives what is to be expanded.

    The functions stand in the module of the kernels, at most one for an operation and type.
    """
    uses: dict[tuple[ir.Operation, str], list[ir.Operation]] = defaultdict(list)
    for operation in operations:
        uses[_function_around(operation), _symbol(operation)].append(operation)
    shared: dict[str, ir.Operation] = {}
    left: list[ir.Operation] = []
    for (kernel, symbol), equal in uses.items():
        if len(equal) < OFTEN or not all(map(_fits_registers, equal)):
            left += equal
            continue
        if symbol not in shared:
            shared[symbol] = _written_once(symbol, equal[0], kernel)
        for operation in equal:
            _call(symbol, operation)
    return [*left, *shared.values()]


def _symbol(operation: ir.Operation) -> str:
    """The name of the function: the operation's with the types of what it takes."""
    types = (str(operand.type).removeprefix("vector<").removesuffix(">") for operand in operation.operands)
    return ".".join((operation.name, *types))


def _fits_registers(operation: ir.Operation) -> bool:
    """Whether a call can pass it: a vector of several dimensions would go through memory."""
    types = [value.type for value in (*operation.operands, *operation.results)]
    return len(operation.results) == 1 and all(not isinstance(each, ir.VectorType) or each.rank == 1 for each in types)


def _location_of(operation: ir.Operation) -> ir.Location:
    """The operation's, or the kernel's name for one of an array by hand, which nobody wrote in a function: LLVM insists
    that a call says where it is."""
    if describe(operation.location):
        return operation.location
    name = ir.StringAttr(_function_around(operation).attributes["sym_name"]).value
    return ir.Location.file(name, 1, 1, operation.context)


def _function_around(operation: ir.Operation) -> ir.Operation:
    while operation.name != "func.func":
        operation = operation.parent.operation
    return operation


def _written_once(symbol: str, operation: ir.Operation, kernel: ir.Operation) -> ir.Operation:
    """A function of one operation behind the kernels; gives that operation."""
    arguments, results = [item.type for item in operation.operands], [item.type for item in operation.results]
    attributes = {
        "sym_name": ir.StringAttr.get(symbol),
        "sym_visibility": ir.StringAttr.get("private"),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get(arguments, results)),
        "llvm.linkage": ir.Attribute.parse("#llvm.linkage<internal>"),
        "llvm.no_inline": ir.UnitAttr.get(),
    }
    with ir.InsertionPoint(kernel.block), _location_of(operation):
        function = ir.Operation.create("func.func", attributes=attributes, regions=1)
        body = function.regions[0].blocks.append(*arguments)
    with ir.InsertionPoint(body), _location_of(operation):
        only = ir.Operation.create(operation.name, results=results, operands=list(body.arguments))
        ir.Operation.create("func.return", operands=list(only.results))
    return only


def _call(symbol: str, operation: ir.Operation) -> None:
    callee = {"callee": ir.FlatSymbolRefAttr.get(symbol)}
    types = [item.type for item in operation.results]
    with ir.InsertionPoint(operation), _location_of(operation):
        call = ir.Operation.create("func.call", results=types, operands=list(operation.operands), attributes=callee)
    operation.result.replace_all_uses_with(call.result)
    operation.erase()
