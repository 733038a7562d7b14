"""Write kernels as the emitters receive them (linalg on tensors between memrefs), as MLIR text, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Shape = Sequence[int]


def tensor_type(shape: Shape, element: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def memref_type(shape: Shape, element: str, strides: Shape | None = None, offset: int = 0) -> str:
    layout = "" if strides is None else f", strided<[{', '.join(map(str, strides))}], offset: {offset}>"
    return f"memref<{''.join(f'{size}x' for size in shape)}{element}{layout}>"


@dataclass
class Tensor:
    """An SSA value of a kernel."""

    name: str
    shape: tuple[int, ...]
    element: str

    @property
    def type(self) -> str:
        return tensor_type(self.shape, self.element)


@dataclass
class KernelText:
    """Collects a kernel op by op; `text()` gives the module. Every op has the location `model.py:<number>:1`."""

    name: str = "kernel"
    arguments: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    count: int = 0

    def _name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def input(self, shape: Shape, element: str = "f32", strides: Shape | None = None, offset: int = 0) -> Tensor:
        value = Tensor(self._name(), tuple(shape), element)
        buffer = memref_type(shape, element, strides, offset)
        self.arguments.append(f"%arg{len(self.arguments)}: {buffer}")
        argument = f"%arg{len(self.arguments) - 1}"
        self.lines.append(f"{value.name} = bufferization.to_tensor {argument} restrict : {buffer} to {value.type}")
        return value

    def output(self, value: Tensor, strides: Shape | None = None, offset: int = 0) -> None:
        buffer = memref_type(value.shape, value.element, strides, offset)
        self.arguments.append(f"%arg{len(self.arguments)}: {buffer}")
        argument = f"%arg{len(self.arguments) - 1}"
        self.lines.append(
            f"bufferization.materialize_in_destination {value.name} in restrict writable {argument}"
            f" : ({value.type}, {buffer}) -> ()"
        )

    def empty(self, shape: Shape, element: str) -> Tensor:
        value = Tensor(self._name(), tuple(shape), element)
        self.lines.append(f"{value.name} = tensor.empty() : {value.type}")
        return value

    def fill(self, shape: Shape, number: str, element: str = "f32") -> Tensor:
        start, scalar = self.empty(shape, element), self._name()
        self.lines.append(f"{scalar} = arith.constant {number}" + (f" : {element}" if element != "i1" else ""))
        value = Tensor(self._name(), tuple(shape), element)
        self.lines.append(
            f"{value.name} = linalg.fill ins({scalar} : {element}) outs({start.name} : {start.type}) -> {start.type}"
        )
        return value

    def generic(
        self, loops: str, maps: Sequence[str], ins: Sequence[Tensor], outs: Sequence[Tensor], body: str
    ) -> list[Tensor]:
        """`loops` is one letter per loop, p or r; `maps` the index lists, such as "d0, d1". Body arguments are
        %a0, %a1, ... for inputs and %o0, ... for outputs."""
        dims = ", ".join(f"d{number}" for number in range(len(loops)))
        kinds = ", ".join('"parallel"' if kind == "p" else '"reduction"' for kind in loops)
        spelled = ", ".join(f"affine_map<({dims}) -> ({item})>" for item in maps)
        arguments = [f"%a{number}: {value.element}" for number, value in enumerate(ins)]
        arguments += [f"%o{number}: {value.element}" for number, value in enumerate(outs)]
        results = [Tensor(self._name(), value.shape, value.element) for value in outs]
        given = f"ins({_list(ins)}) " if ins else ""
        types = ", ".join(value.type for value in outs)
        names = ", ".join(value.name for value in results)
        self.lines += [
            f"{names} = linalg.generic {{indexing_maps = [{spelled}], iterator_types = [{kinds}]}}",
            f"{given}outs({_list(outs)}) {{\n^bb0({', '.join(arguments)}):\n{body.strip()}",
            f'}} -> ({types}) loc("model.py":{len(self.lines)}:1)',
        ]
        return results

    def pointwise(
        self, ins: Sequence[Tensor], maps: Sequence[str], shape: Shape, body: str, element: str = "f32"
    ) -> Tensor:
        """A pointwise op over `shape`; `maps` are those of the inputs."""
        identity = ", ".join(f"d{dim}" for dim in range(len(shape)))
        return self.generic("p" * len(shape), [*maps, identity], ins, [self.empty(shape, element)], body)[0]

    def text(self) -> str:
        body = "\n".join([*self.lines, "return"])
        head = f'func.func private @{self.name}({", ".join(self.arguments)}) attributes {{blu.kernel = "rows"}}'
        return f"module {{\n{head} {{\n{body}\n}}\n}}\n"


def _list(values: Sequence[Tensor]) -> str:
    return f"{', '.join(value.name for value in values)} : {', '.join(value.type for value in values)}"
