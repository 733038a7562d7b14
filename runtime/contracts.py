"""What a program's kernels touch, and whether a plan gives them that. Checked before anything of a program is run.

`contracts.json` is written with the kernels, and says of each launch what its kernel was compiled for: how many blocks
or which grid, how many bytes it touches from each pointer on, and in which kinds of memory. A plan that was changed
afterwards (its hash is no secret) may launch other kernels, in another order and elsewhere, but within these bounds.
The kernels themselves are trusted: they are native code, which can do what the process can do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from blu.errors import CacheError
from blu.plan.contract import DONATED, MEMBER, Contract
from blu.plan.schema import ALIGNMENT, MAP_BYTES, Argument, Plan, Step, TensorMap

_ALIGNMENTS = {"status": 8, "map": MAP_BYTES}


def _refuse(what: str) -> CacheError:
    return CacheError(f"the plan does not fit its kernels: {what}", advice="compile the program again")


def check_contracts(plan: Plan, text: bytes) -> None:
    """CacheError for the first launch whose numbers fit none of its kernel's contracts, or a `text` that is damaged."""
    try:
        contracts = {name: [Contract.parse(item) for item in items] for name, items in json.loads(text).items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CacheError(f"damaged {MEMBER}: {error}", advice="compile the program again") from error
    sizes = plan.sizes()
    for number, launch in enumerate(plan.launches):
        known = contracts.get(launch.kernel)
        if not known:
            raise _refuse(f"launch {number} is of {launch.kernel!r}, which is none of them")
        problems = [_problem(plan, sizes, launch, contract) for contract in known]
        if all(problems):
            raise _refuse(f"launch {number} of {launch.kernel}: {problems[0]}")


def _problem(plan: Plan, sizes: dict[str, list[int]], launch: Step, contract: Contract) -> str:
    """Why a launch is not what the contract says; empty if it is."""
    size = launch.size
    if size != contract.size:
        return f"its size is {size}, compiled for {contract.size}"
    pointers = _pointers(plan, launch)
    maps = [argument for argument in pointers if argument.space == "map"]
    memory = [argument for argument in pointers if argument.space != "map"]
    if (len(memory), len(maps)) != (len(contract.parameters), len(contract.maps)):
        return f"it takes {len(pointers)} pointers, the kernel {len(contract.parameters) + len(contract.maps)}"
    for argument, (nbytes, space) in zip(memory, contract.parameters, strict=True):
        if problem := _memory_problem(plan, sizes, argument, nbytes, space):
            return problem
    shown = [_shown(plan, argument) for argument in maps]
    expected = [_same_map(item, memory[number]) for number, item in contract.maps if number < len(memory)]
    return "" if shown == expected else "its tensor maps show something else"


def _pointers(plan: Plan, launch: Step) -> Sequence[Argument]:
    """What a launch's kernel reads as pointers: its arguments, or those of the table that it takes."""
    if len(launch.args) == 1 and launch.args[0].space == "table":
        return plan.tables[launch.args[0].index]
    return launch.args


def _memory_problem(plan: Plan, sizes: dict[str, list[int]], argument: Argument, nbytes: int, space: str) -> str:
    is_donated = argument.space == "input" and plan.inputs[argument.index].donated
    found, name = DONATED if is_donated else argument.space, f"{argument.space} {argument.index}"
    if found != space:
        return f"it takes {name} in place of memory of the kind {space!r}"
    if argument.offset % _ALIGNMENTS.get(argument.space, ALIGNMENT):
        return f"it takes {name} from byte {argument.offset} on, which is not aligned"
    room = sizes[argument.space][argument.index] - argument.offset
    return f"it touches {nbytes} bytes of {name}, where {room} are" if nbytes > room else ""


def _shown(plan: Plan, argument: Argument) -> TensorMap | None:
    number, rest = divmod(argument.offset, MAP_BYTES)
    return plan.tensor_maps[number] if not rest and number < len(plan.tensor_maps) else None


def _same_map(shown: TensorMap, buffer: Argument) -> TensorMap:
    return TensorMap(buffer, shown.offset, shown.dtype, shown.shape, shown.strides, shown.box)
