"""`blu.jit`: from a Python function to a program that runs. The only file that sees every part of the house.

@blu.jit
def f(x, w): return blu.softmax(x @ w, axis=-1)

f(x, w)                                                  # traces, compiles (or finds it compiled), runs
f.trace(x, w).lower(target="cpu").compile()(x, w)        # the same, stage by stage
"""

from __future__ import annotations

import functools
import inspect
import logging
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blu import settings
from blu.collecting import collecting_rarely
from blu.compiler.announcement import Recompilations, announcement
from blu.compiler.cache import default_cache
from blu.compiler.codegen.ahead import begin, begin_pool, making_kernels
from blu.compiler.compiled import Compiled
from blu.compiler.eager import Eager, devices, place, runner_of
from blu.compiler.fingerprint import key_of
from blu.compiler.plain_calls import PlainCalls
from blu.compiler.target import resolve_target_name
from blu.compiler.tuning.table import tuned_for, tuned_key
from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import copy_module
from blu.dialects.core.remat import check_budget, set_budget
from blu.dialects.hooks import HOOKS, CompilerHooks
from blu.dialects.mesh import set_mesh, set_reductions, tracing_for
from blu.dialects.sharding import BETWEEN, PERMUTE, check_rotation, set_rotation, set_shardings
from blu.dialects.targets.cpu import ATTRIBUTE
from blu.dialects.targets.nvidia import TARGETS, Target
from blu.dialects.tensor.tensor import METHODS
from blu.frontend.autocast import current_policy
from blu.frontend.tracing.binding import bind, check_names, parameters_of, without_static
from blu.frontend.tracing.sharded import whole_signature
from blu.frontend.tracing.spec import check_numbers
from blu.frontend.tracing.trace import (
    Signature,
    TracedModule,
    is_tracing,
    signature_of,
    trace,
)
from blu.frontend.tracing.user_errors import shown_to_the_user
from blu.plan.mesh import Mesh
from blu.runtime.array import Array, compute_with
from blu.runtime.artifact import described
from blu.runtime.pairs import as_whole

if TYPE_CHECKING:
    from blu.compiler.driver.driver import DriverOptions
    from blu.compiler.lowered import Lowered

logger = logging.getLogger("blu")


@dataclass(frozen=True)
class Traced:
    """A traced function: a `blu` module and what its arguments and results look like."""

    name: str
    traced: TracedModule = field(repr=False)
    target: str = "cpu"
    overwrite: bool = field(default=False, repr=False)

    @functools.cached_property
    def text(self) -> str:
        """The module as MLIR text, which takes half as long as tracing does."""
        return self.traced.text

    def save(self, path: str | Path) -> None:
        """Write the module's text to a file, which `blu-compile` and `blu-opt` read."""
        Path(path).write_text(self.text)

    def lower(
        self, target: str | None = None, options: DriverOptions | None = None, stop: str | None = None
    ) -> Lowered:
        """Run the target's passes, all of them or up to a level or pass."""
        name = resolve_target_name(target or self.target)
        if stop is None:
            begin(TARGETS[name])
        from blu.compiler.lowered import Lowered  # a program that the cache has needs no passes

        return Lowered(self, TARGETS[name]).run(options, stop)

    def with_target(self, target: Target) -> ir.Module:
        """A copy of the module that says what it is compiled for."""
        module = copy_module(self.traced.module)
        with module.context:
            module.operation.attributes[ATTRIBUTE] = target.to_attribute()
        if tuned := tuned_for(target.name):
            from blu.passes.kernels.schedules import put_tuned

            put_tuned(module, tuned)
        return module

    def compile(self, target: str | None = None, options: DriverOptions | None = None) -> Compiled:
        """The program, from the compile cache where it has it."""
        name = resolve_target_name(target or self.target)
        key = key_of("module", name, self.text, *tuned_key(name))
        details = {"name": self.name, "target": {"name": name, "triple": TARGETS[name].triple}}
        members, _ = default_cache().get_or_compile(key, lambda: self._executable(name, options), details)
        details["key"] = key
        return Compiled(self.traced.interface, described(members, details), details, self.overwrite)

    def _executable(self, target: str, options: DriverOptions | None) -> dict[str, bytes]:
        """The members of the program's file. Code of its first kernels is made while others are lowered."""
        with making_kernels(TARGETS[target]) as written:
            return self.lower(target, options).executable(written)


class Jitted:
    """A function that is traced and compiled for each kind of arguments it is called with."""

    def __init__(
        self,
        function: Callable[..., Any],
        donate: Sequence[str] = (),
        name: str | None = None,
        target: str | None = None,
        remat_budget: int = 0,
        overwrite: bool = False,
        mesh: Mesh | None = None,
        shard: Mapping[str, str] | None = None,
        rotation: str = PERMUTE,
        reduce: Mapping[str, str] | None = None,
        between: Mapping[str, str] | None = None,
        static_argnames: str | Sequence[str] = (),
    ):
        functools.update_wrapper(self, function)
        self.function = function
        self.name = name or getattr(function, "__name__", "function")
        self.target = target or "cpu"
        self.overwrite = overwrite
        self.mesh, self.shard, self.rotation = mesh or Mesh(), dict(shard or {}), check_rotation(rotation)
        self.remat_budget, self.reduce = check_budget(remat_budget), dict(reduce or {})
        self.between = dict(between or {})
        self.parameters = parameters_of(function)
        self.donated = check_names(self.name, self.parameters, donate, "to donate")
        self.static = check_names(self.name, self.parameters, static_argnames, "for static_argnames")
        # A program is traced under the policy of `blu.autocast` that its call is under.
        self._programs: dict[tuple[Signature, str], Compiled] = {}
        self._last: tuple[tuple[Signature, str], Compiled] | None = None
        self._lock, self._recompilations = threading.RLock(), Recompilations(self.name)
        self._plain_calls = PlainCalls(current_policy)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run on these arguments. Inside of another traced function, the function becomes a part of that one."""
        if is_tracing():
            return self.function(*arguments, **keywords)
        with shown_to_the_user():
            run = None if keywords else self._plain_calls.runner(arguments)
            return run(list(arguments)) if run else self._run_any(arguments, keywords)

    def _run_any(self, arguments: tuple, keywords: dict[str, Any]) -> Any:
        """Run on arguments of any nesting."""
        signature, leaves = self._signature(arguments, keywords)
        if self.shard:
            signature = whole_signature(signature, self.mesh, self.shard)
        compiled = self._program(signature, leaves)
        self._plain_calls.keep(arguments, leaves, compiled)
        return compiled.run(leaves, lambda: self._named(arguments, keywords))

    def _program(self, signature: Signature, leaves: Sequence[Any]) -> Compiled:
        """The program for a call: most likely that of the call before, and comparing is quicker than hashing."""
        key, last = (signature, current_policy()), self._last
        if last is not None and last[0] == key:
            return last[1]
        compiled = self._programs.get(key)
        if compiled is None:
            check_numbers(dict(zip(signature.tree.names, leaves, strict=True)))  # before anything is compiled for them
            compiled = self._compile(signature)
        self._last = key, compiled
        return compiled

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def trace(self, *arguments: Any, **keywords: Any) -> Traced:
        """Trace for arguments like these (arrays, or `blu.spec`s in their place)."""
        with shown_to_the_user():
            return self._trace(self._signature(arguments, keywords)[0])

    def _signature(self, arguments: tuple, keywords: dict[str, Any]) -> tuple[Signature, list]:
        return signature_of((), self._named(arguments, keywords), ())

    def _named(self, arguments: tuple, keywords: dict[str, Any]) -> dict[str, Any]:
        return bind(self.name, self.parameters, arguments, keywords, self.static)

    def _trace(self, signature: Signature) -> Traced:
        settings.current()  # what is misspelt in the environment is said before any work is done
        with tracing_for(self.mesh):
            traced = trace(self._call_by_name, signature, self.donated, self.function)
        set_budget(traced.module, self.remat_budget)
        set_mesh(traced.module, self.mesh)
        set_reductions(traced.module, self.reduce)
        set_shardings(traced.module, self.shard)
        set_shardings(traced.module, self.between, BETWEEN)
        set_rotation(traced.module, self.rotation)
        return Traced(self.name, traced, self.target, self.overwrite)

    def _call_by_name(self, **arguments: Any) -> Any:
        bound = inspect.BoundArguments(self.parameters, without_static(arguments))  # type: ignore[arg-type]
        return self.function(*bound.args, **bound.kwargs)

    def _compile(self, signature: Signature) -> Compiled:
        key = (signature, current_policy())
        with self._lock:
            if key not in self._programs:
                logger.info("%s", announcement(self.name, key, list(self._programs)))
                self._recompilations.count(key, list(self._programs))
                self._programs[key] = self._compiled(signature)
            return self._programs[key]

    def _compiled(self, signature: Signature) -> Compiled:
        with collecting_rarely():
            begin_pool(TARGETS[resolve_target_name(self.target)])
            return self._trace(signature).compile()


def jit(
    function: Callable[..., Any] | None = None,
    *,
    donate: Sequence[str] = (),
    name: str | None = None,
    target: str | None = None,
    remat_budget: int = 0,
    overwrite: bool = False,
    mesh: Mesh | None = None,
    shard: Mapping[str, str] | None = None,
    rotation: str = PERMUTE,
    reduce: Mapping[str, str] | None = None,
    between: Mapping[str, str] | None = None,
    static_argnames: str | Sequence[str] = (),
) -> Any:
    """Compile a function of arrays. Use it as a decorator, with or without arguments.

    `donate` names parameters whose memory the program may use for results. A `blu.Array` that is donated is gone:
    reading it raises an ArgumentError that names the function and the line that took it. In place of an array of
    NumPy's a copy is used, so that it stays what it was. With `overwrite=True` neither happens: the caller's arrays,
    of either kind, hold the results afterwards. What is donated has the memory of the result of its name (that of an
    argument `model.w`: `model.w` in a dict of results, or `0.w`), or of the next of its shape and dtype; where there is
    none, a DonationWarning says so.

    `target` is "cpu" or a target's name. Arguments may be nested (dicts, lists, dataclasses, modules). bool, str, None
    and what is for `static_argnames` (anything hashable) are part of the program: another value means another
    compilation; int and float are values at run time that change no dtype (they are i64 and f64 on their own).

    Arrays that the function reads from outside, in its closure or as globals, are part of the program with the numbers
    that they have when it is traced.

    `remat_budget` is how many bytes of the values that gradients need are kept in memory for them, where that can be;
    the others are computed again, those that are the least work first. 0 keeps all.

    `mesh` names the axes along which the program's ranks exchange data (`blu.all_reduce`): as many processes run the
    program, each with arrays of its own. With `shard`, the function is one of whole tensors, and Blu finds out what
    ranks exchange: {"tokens": "dp, *"} gives each rank of dp an equal part of the rows of the argument `tokens`. The
    patterns fit names of arguments and results; a result lies as the argument of its name. Where the positions of
    attention are split, keys and values travel by the exchange `rotation`: permute, all_gather or all_to_all. With
    `reduce`, as in {"dp": "bf16"}, f32 tensors (scalars aside) are added up over an axis in a narrower dtype. With
    `between`, as in {"tokens": "*, tp"}, ranks that share layers have a part each of the rows made of an argument where
    no product needs all of them: norms and residuals (sequence parallelism).
    """
    options: dict[str, Any] = {"donate": donate, "name": name, "target": target, "remat_budget": remat_budget}
    options |= {"overwrite": overwrite, "mesh": mesh, "shard": shard, "rotation": rotation, "reduce": reduce}
    options |= {"between": between, "static_argnames": static_argnames}
    if function is None:
        return functools.partial(jit, **options)
    with shown_to_the_user():
        return Jitted(function, **options)


def _prepare(function: Callable[..., Any], leaves: list[Any], name: str, target: str) -> Callable[[list[Any]], Any]:
    """Compile a function of leaves outside of any trace; what runs its program."""
    jitted = Jitted(function, name=name, target=target)
    if not all(isinstance(leaf, np.ndarray | np.generic | Array | float | int) for leaf in leaves):
        return jitted  # arrays of other libraries are read in each call

    with shown_to_the_user():
        signature, _ = jitted._signature((leaves,), {})
        compiled = jitted._program(signature, leaves)
    quickly = runner_of(compiled, leaves)

    def run(arrays: list[Any]) -> Any:
        with shown_to_the_user():
            return quickly(arrays)

    return run


_EAGER = Eager(_prepare, current_policy)
compute_with(METHODS)
HOOKS.compiler = CompilerHooks(
    run_function=_EAGER.run,
    run_on_host=_EAGER.run_on_host,
    place=place,
    as_whole=as_whole,
    devices=devices,
    run_transformed=lambda function, arguments, keywords: jit(function)(*arguments, **keywords),
)
