"""Blu compiles deep-learning programs written in Python, by way of MLIR.

    import blu

    @blu.jit
    def attend(q, k, v):
        return blu.softmax(q @ k.T, axis=-1) @ v

Names are loaded when first used: `import blu.runtime` brings in neither MLIR nor the compiler.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from typing import Any

_HOMES = {
    "jit": "blu.compiler.jit",
    "spec": "blu.frontend.tracing.spec",
    "grad": "blu.frontend.transform",
    "value_and_grad": "blu.frontend.transform",
    "vjp": "blu.frontend.vjp",
    "custom_vjp": "blu.frontend.custom_vjp",
    "jvp": "blu.frontend.jvp",
    "linearize": "blu.frontend.jvp",
    "vmap": "blu.frontend.vmap",
    "jacrev": "blu.frontend.jacobians",
    "jacfwd": "blu.frontend.jacobians",
    "hessian": "blu.frontend.jacobians",
    "scan": "blu.frontend.loops",
    "fori_loop": "blu.frontend.loops",
    "while_loop": "blu.frontend.loops",
    "associative_scan": "blu.frontend.loops",
    "cond": "blu.frontend.branches",
    "switch": "blu.frontend.branches",
    "ctc_loss": "blu.frontend.ctc",
    "autocast": "blu.frontend.autocast",
    "checkpoint": "blu.frontend.checkpoint",
    "Tensor": "blu.dialects.tensor.tensor",
    "Array": "blu.runtime.array",
    "Mesh": "blu.plan.mesh",
    "arrange": "blu.plan.arrange",
    "Pass": "blu.passes.framework.base",
    "register_pass": "blu.passes.framework.registry",
    "BluError": "blu.errors",
}
_MODULES = {
    "array_api": "blu.array_api",
    "debug": "blu.frontend.debug",
    "fft": "blu.frontend.fft",
    "linalg": "blu.frontend.linalg",
    "nn": "blu.frontend.nn",
    "io": "blu.frontend.io",
    "optim": "blu.frontend.optim",
    "random": "blu.frontend.random",
    "settings": "blu.settings",
    "train": "blu.compiler.training",
    "tree": "blu.frontend.tree",
}
# Those whose functions compile themselves where they are called on arrays.
_CALLED_ON_ARRAYS = ("array_api", "fft", "linalg", "nn", "optim", "random")


class _Submodules:
    """Lets `import blu.nn` and `from blu.nn import Linear` find what `blu.nn` is, which other files have."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, own = name.partition(".")
        return ModuleSpec(name, _Submodules) if package == "blu" and own in _MODULES else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        return None

    @staticmethod
    def exec_module(module: Any) -> None:
        """Put the module itself in the place of the empty one that was made for it."""
        name = module.__name__
        sys.modules[name] = __getattr__(name.partition(".")[2])


sys.meta_path.append(_Submodules)  # type: ignore[arg-type]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        if name in _CALLED_ON_ARRAYS:
            importlib.import_module("blu.compiler.jit")
        return importlib.import_module(_MODULES[name])
    if name == "__version__":
        import blu.installed as installed

        return installed.version_of("blu") or "0+unknown"  # run from a folder that was never installed
    if name.startswith("_"):
        raise AttributeError(f"module 'blu' has no attribute {name!r}")
    home = _home_of(name)
    try:
        value = getattr(home, name)
    except AttributeError:
        from blu.errors import no_attribute

        raise no_attribute("module 'blu'", name, __dir__) from None
    globals()[name] = value
    return value


def _home_of(name: str) -> Any:
    """The module that has a name, once that with which functions compile themselves is there as well."""
    from blu.collecting import collecting_rarely

    try:
        with collecting_rarely():
            importlib.import_module("blu.compiler.jit")
            return importlib.import_module(_HOMES.get(name, "blu.frontend.functional.functional"))
    except ImportError as error:
        if name in _HOMES:
            raise
        # Others ask modules for attributes that they may not have, also where only the runtime is installed.
        raise AttributeError(f"module 'blu' has no attribute {name!r} here: {error}") from error


def __dir__() -> list[str]:
    from blu.frontend.functional import functional

    return sorted({*_HOMES, *_MODULES, *functional.HOMES, "__version__"})
