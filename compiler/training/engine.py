"""The arrays of a training run and the programs that change them. Knows neither data nor files, and no MLIR."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from blu.compiler.cache import default_cache
from blu.compiler.requests import compile_request
from blu.compiler.target import resolve_target_name
from blu.compiler.training.first_nonfinite import first_nonfinite
from blu.compiler.training.parallel import RunLayout
from blu.compiler.training.programs import TrainingRequest
from blu.compiler.training.recipe import Recipe
from blu.dataclass import dataclass, field
from blu.errors import ArgumentError
from blu.plan.mesh import Mesh
from blu.plan.tensors import TensorSpec
from blu.runtime.load import load_program
from blu.runtime.memory import allocate_array
from blu.runtime.runnable import Runnable

MODEL, STATE, SUMS, SCALE = "model.", "state.", "sums.", "scale."
GRADIENTS = f"{SUMS}gradients."
FIRST_SCALE = 2.0**16
KEPT = (STATE, SUMS, SCALE)
# What of a recipe is part of its programs.
PROGRAM_FIELDS = (
    "length",
    "dtype",
    "clip",
    "beta1",
    "beta2",
    "epsilon",
    "weight_decay",
    "remat_budget",
    "reduce_dtype",
    "sequence_parallel",
)

BATCH = ("tokens", "targets")
Batch = tuple[np.ndarray, np.ndarray]


@dataclass
class Engine:
    """Parameters, optimizer state and programs of a run. Batches are tokens and targets, int32 [B, T].

        engine = Engine.of(config, recipe)
        engine.set_parameters(random_state_dict(config, seed=0))
        loss, norm = engine.step([batch], learning_rate=1e-3)

    On a GPU the arrays are there (`blu.Array`s) as soon as a program has run.

    `request` gives the request for an entry; `load` the program for a request; each is loaded once. Of several ranks
    each has an engine, with the parts of arrays and batches that are its own by the `layout`.
    """

    request: Callable[[str], TrainingRequest]
    load: Callable[[TrainingRequest], Runnable]
    layout: RunLayout = field(default_factory=RunLayout)
    arrays: dict[str, Any] = field(default_factory=dict, repr=False)
    _programs: dict[str, Runnable] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        config: Mapping[str, Any],
        recipe: Recipe,
        *,
        target: str = "cpu",
        guarded: bool = False,
        load: Callable[[TrainingRequest], Runnable] | None = None,
        mesh: Mesh | None = None,
        sharded: str = "",
        rank: int = 0,
    ) -> Engine:
        """The engine for a configuration (a config.json) and a recipe, compiling what is not in the cache.

        When `guarded`, or the recipe skips such steps, a step that is not finite changes nothing. This is the engine of
        one `rank` of a `mesh`, who share the work as `RunLayout` says. ArgumentError where they cannot.
        """
        layout = RunLayout(config, mesh or Mesh(), sharded, rank, recipe.sequence_parallel)
        layout.check(recipe.batch_size, recipe.length)
        name = resolve_target_name(target)
        options = {name: getattr(recipe, name) for name in PROGRAM_FIELDS}
        options |= {"batch": recipe.batch_size, "guarded": guarded or recipe.on_nonfinite == "skip"}
        options |= {"mesh": str(layout.mesh), "sharded": sharded}
        return cls(lambda entry: TrainingRequest.of(entry, config, name, **options), load or load_training, layout)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters by their names (h.0.attn.c_attn.weight); not copied, so that a step changes them."""
        return self.part(MODEL)

    def set_parameters(self, state: Mapping[str, np.ndarray]) -> None:
        """Give the parameters new numbers, in f32; copied. Ranks take what is their own of the whole arrays."""
        self.set_part(MODEL, state)

    def prepare(self, *entries: str) -> None:
        """Load programs."""
        for entry in entries:
            self.program(entry)

    def program(self, entry: str) -> Runnable:
        """The program of an entry. What it keeps and has no numbers yet gets those before the first step."""
        if entry not in self._programs:
            self._programs[entry] = program = self.load(self.request(entry))
            for spec in program.inputs:
                if spec.name.startswith(KEPT) and spec.name not in self.arrays:
                    self.arrays[spec.name] = _first(spec)
        return self._programs[entry]

    def step(
        self, batches: Sequence[Batch], learning_rate: float, meanwhile: Callable[[], None] = lambda: None
    ) -> tuple[float, float]:
        """One step on micro-batches: the mean loss and the norm of the gradients before clipping.

        `meanwhile` is called before they are read, while a GPU works on them.
        """
        rate = np.array(learning_rate, np.float32)
        if len(batches) == 1:
            [(tokens, targets)] = batches
            found = self._run("step", {"tokens": tokens, "targets": targets, "learning_rate": rate})
        else:
            self._accumulate(batches)
            found = self._run("update", {"learning_rate": rate})
        meanwhile()
        return float(found["loss"]), float(found["norm"])

    def gradients(self, batches: Sequence[Batch]) -> dict[str, np.ndarray]:
        """The mean gradients of micro-batches, not clipped, by the names of the parameters; nothing is updated."""
        self._accumulate(batches)
        weight = np.asarray(self.arrays[f"{SUMS}weight"])
        found = {name: np.asarray(array) / weight for name, array in self.part(GRADIENTS).items()}
        self.set_part(SUMS, {"weight": np.zeros_like(weight)})  # which says that there is nothing in the sums
        return found

    def evaluate(self, batch: Batch) -> float:
        """The loss of one batch."""
        return float(self._run("evaluate", dict(zip(BATCH, batch, strict=True)))["loss"])

    def first_nonfinite(self, batches: Sequence[Batch], learning_rate: float) -> str:
        """Which op made a step not finite, in a sentence; only in guarded engines the arrays are still those before."""
        entry = "step" if len(batches) == 1 else "micro"
        names = [spec.name for spec in self.program(entry).inputs]
        before = {name: np.asarray(array) for name, array in self.arrays.items()}
        for tokens, targets in batches:
            values = {"tokens": tokens, "targets": targets, "learning_rate": np.array(learning_rate, np.float32)}
            if found := first_nonfinite(self.request(entry), names, before | values):
                return found
        return ""

    def part(self, prefix: str) -> dict[str, Any]:
        """The arrays whose names begin with `prefix`, by the rest of their names; not copied."""
        return {name[len(prefix) :]: array for name, array in self.arrays.items() if name.startswith(prefix)}

    def set_part(self, prefix: str, values: Mapping[str, np.ndarray]) -> None:
        """Give arrays new numbers; copied, into the memory of those before where they fit. `values` are whole."""
        for name, value in values.items():
            array, target = self.layout.own(prefix + name, value), self.arrays.get(prefix + name)
            if not isinstance(target, np.ndarray) or target.shape != array.shape or target.dtype != array.dtype:
                target = allocate_array(array.shape, array.dtype, "the training state")
            target[...] = array
            self.arrays[prefix + name] = target

    @property
    def peak_bytes(self) -> int:
        """Bytes of all arrays, and of the largest program's intermediate results."""
        arenas = [program.plan.arena_bytes for program in self._programs.values()]
        return sum(array.nbytes for array in self.arrays.values()) + max(arenas, default=0)

    @property
    def whole_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the whole parameters, of which a rank may have parts."""
        return {name: self.layout.whole_shape(MODEL + name, array.shape) for name, array in self.parameters.items()}

    @property
    def num_parameters(self) -> int:
        """How many numbers the whole parameters are."""
        return sum(math.prod(shape) for shape in self.whole_shapes.values())

    def _accumulate(self, batches: Sequence[Batch]) -> None:
        for tokens, targets in batches:
            self._run("micro", {"tokens": tokens, "targets": targets})

    def _run(self, entry: str, values: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Run a program; keep its new arrays, and return its other results by name."""
        program = self.program(entry)
        if not any(name.startswith(MODEL) for name in self.arrays):
            raise ArgumentError("the model has no parameters yet", advice="give it some with engine.set_parameters")
        own = [spec.name for spec in program.inputs if spec.name not in values]
        self.arrays.update(zip(own, program.keep([self.arrays[name] for name in own]), strict=True))
        values = {name: self.layout.own_positions(v) if name in BATCH else v for name, v in values.items()}
        inputs = [values[spec.name] if spec.name in values else self.arrays[spec.name] for spec in program.inputs]
        names = [spec.name for spec in program.outputs]
        results = dict(zip(names, program.run(inputs, overwrite=True), strict=True))
        self.arrays.update({name: results.pop(name) for name in names if name in self.arrays})
        return results


def load_training(request: TrainingRequest) -> Runnable:
    """The program of a request, from the compile cache or compiled now."""
    return load_program(compile_request(request, default_cache()))


def _first(spec: TensorSpec) -> np.ndarray:
    array = allocate_array(spec.shape, spec.numpy_dtype, "the training state")
    array[...] = FIRST_SCALE if spec.name == f"{SCALE}scale" else 0
    return array
