"""The shape of the house: who imports whom, how long things are, what is documented, what the wheel contains."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

from tests.support.sources import SKIPPED, statements_in, statements_under, text_files, tree_of

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = {"blu": "blu"} | {
    name: f"blu.{name}" for name in ("frontend", "dialects", "passes", "compiler", "runtime")
}  # the pipeline, in order
BOTTOM = ("collecting", "dataclass", "errors", "file_locks", "installed", "settings", "plan")
# What each part may import of Blu, besides itself and BOTTOM.
ARROWS = {
    "": {"frontend", "compiler"},
    "__main__": {"compiler"},
    "array_api": {"frontend", "compiler"},
    "frontend": {"dialects"},
    "dialects": set(),
    "passes": {"dialects"},
    "compiler": {"frontend", "dialects", "passes", "runtime"},
    "runtime": set(),
    **{name: set() for name in ("collecting", "dataclass", "errors", "file_locks", "installed")},
    "settings": {"dataclass", "errors"},
    "plan": {"dataclass", "errors"},
}
# Hooks (blu.dialects.hooks), which go against the arrows: the modules that register them, and those that ask them.
HOOKS = {
    "tracer": (
        {"blu.frontend.tracing.trace"},
        {f"blu.dialects.tensor.{name}" for name in ("function", "operators", "promotion", "tensor")},
    ),
    "compiler": (
        {"blu.compiler.jit"},
        {
            "blu.dialects.tensor.function",
            *(
                f"blu.frontend.{name}"
                for name in ("branches", "custom_vjp", "jacobians", "jvp", "loops", "transform", "vjp", "vmap")
            ),
            *(f"blu.frontend.array_api.{name}" for name in ("creation", "dtypes", "fft", "folding", "inspection")),
            *("blu.frontend.array_api.linalg", "blu.frontend.functional.interchange"),
            "blu.frontend.tracing.complex_leaves",
        },
    ),
}
# The rooms of `passes`, and what each may import of the others. Kernels of one target know nothing of another's.
ROOMS = {
    "framework": set(),
    "graph": {"framework"},
    "loops": {"framework"},
    "kernels": {"framework", "loops"},
    "host": {"framework", "loops", "kernels"},
    "cpu": {"framework", "loops", "kernels"},
    "gpu": {"framework", "graph", "loops", "kernels", "host"},
}
# Modules that give their names out as they are asked for, or that have those of others.
UNTOLD = ("blu", "blu.dialects.core.mlir", "blu.frontend.functional.functional")
MAX_FILE, MAX_FUNCTION, MAX_FOLDER = 400, 50, 20
MEANINGLESS = re.compile(r"(^|_)(utils?|helpers?|misc|common|stuff|new|old|v\d+|tmp)(_|$)")
# Homes of people and machines; "me" stands for the reader in examples.
MACHINE_PATH = re.compile(r"/(?:root|home|Users|work|workspace|mnt|scratch)/(?!me/)\w")


@dataclass(frozen=True)
class Import:
    """A module that a file imports; `at_import_time` if not only when a function runs, or for type checkers."""

    target: str
    at_import_time: bool


@dataclass(frozen=True)
class Module:
    """A Python file of the package."""

    name: str
    path: Path

    @property
    def part(self) -> str:
        """The folder it belongs to, or its own name for the files of the face."""
        return _part(self.name)

    @cached_property
    def tree(self) -> ast.Module:
        return tree_of(self.path)

    @cached_property
    def imports(self) -> list[Import]:
        return list(_imports(self.tree, True))


def _part(name: str) -> str:
    """The folder of a module's name: "passes" of "blu.passes.framework.base", nothing of "blu"."""
    return name.partition(".")[2].partition(".")[0]


def _imports(node: ast.AST, at_import_time: bool) -> Iterator[Import]:
    for child in statements_in(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, at_import_time) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"relative import on line {child.lineno}"
            yield from (Import(_target(child.module or "", alias.name), at_import_time) for alias in child.names)
        else:
            is_later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            is_typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            yield from _imports(child, at_import_time and not is_later and not is_typing)


def _target(module: str, name: str) -> str:
    """`from module import name` imports a module of that name where there is one."""
    return f"{module}.{name}" if f"{module}.{name}" in _names() else module


@cache
def _names() -> dict[str, Path]:
    """The package's modules: names and files."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))] = path
    return found


@cache
def _modules() -> tuple[Module, ...]:
    return tuple(Module(name, path) for name, path in _names().items())


def _files() -> tuple[Path, ...]:
    """All text files that belong to the project."""
    return text_files(ROOT)


def _where(path: Path, line: int = 0) -> str:
    return path.relative_to(ROOT).as_posix() + (f":{line}" if line else "")


def _none(wrong: list[str], rule: str) -> None:
    assert not wrong, rule + ":\n" + "\n".join(wrong)


def test_imports_follow_the_arrows() -> None:
    wrong = []
    for module in _modules():
        allowed = ARROWS[module.part] | {module.part} | (set() if module.part in BOTTOM else set(BOTTOM))
        wrong += [
            f"{_where(module.path)} imports {item.target}"
            for item in module.imports
            if _is_ours(item) and _part(item.target) not in allowed
        ]
    _none(wrong, "see ARROWS for what each part may import")


def test_what_reaches_upwards_is_registered_and_asked_where_the_table_says() -> None:
    found: dict[str, tuple[set[str], set[str]]] = {name: (set(), set()) for name in HOOKS}
    for module in _modules():
        for node in ast.walk(module.tree) if "HOOKS" in module.path.read_text() else ():
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "HOOKS":
                found[node.attr][isinstance(node.ctx, ast.Load)].add(module.name)
    assert found == HOOKS


def test_rooms_of_passes_follow_the_arrows() -> None:
    wrong = []
    for module in _modules():
        room = _room(module.name)
        allowed = ROOMS.get(room, set()) | {room}
        wrong += [
            f"{_where(module.path)} imports {item.target}"
            for item in module.imports
            if room and _room(item.target) and _room(item.target) not in allowed
        ]
    _none(wrong, "see ROOMS for what each may import")


def _room(name: str) -> str:
    """The folder within `passes` that a module is in: "graph" of "blu.passes.graph.inline"."""
    return name.split(".")[2] if name.startswith("blu.passes.") else ""


def test_inline_assembly_is_written_in_one_folder() -> None:
    """Elsewhere, an instruction is called by the name that the ISA gives it."""
    written = re.compile(r"inline_asm|\b(pure_)?assembly\(")
    others = [item for item in _modules() if _room(item.name) and not item.name.startswith("blu.passes.gpu.isa.")]
    _none([_where(item.path) for item in others if written.search(item.path.read_text())], "write it in passes/gpu/isa")


def test_every_room_of_passes_has_its_arrows() -> None:
    assert {_room(module.name) for module in _modules()} - {""} == set(ROOMS)


def test_folders_are_small() -> None:
    count = Counter(path.parent for path in _files() if path.suffix == ".py" and path.name != "__init__.py")
    _none([f"{_where(path)} has {size}" for path, size in count.items() if size > MAX_FOLDER], "files in a folder")


def test_what_is_imported_is_there() -> None:
    """In the package, its tests and its benchmarks, many of which only run where there is a GPU."""
    wrong = []
    for path in (path for path in _files() if path.suffix == ".py"):
        for node in statements_under(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "") in _names() and node.module not in UNTOLD:
                named = {alias.name for alias in node.names if f"{node.module}.{alias.name}" not in _names()}
                missing = named - _defined(node.module or "") - {"*"}
                wrong += [f"{_where(path, node.lineno)}: {node.module} has no {name}" for name in sorted(missing)]
    _none(wrong, "imported from where it is not")


@cache
def _defined(module: str) -> set[str]:
    """The names that a module gives to anything."""
    found: set[str] = set()
    for node in statements_under(tree_of(_names()[module])):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        else:
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            given = [item for target in targets if target for item in ast.walk(target) if isinstance(item, ast.Name)]
            found.update(item.id for item in given if isinstance(item.ctx, ast.Store))
    return found


def test_the_face_loads_nothing_at_once() -> None:
    face = next(module for module in _modules() if module.name == "blu")
    _none([item.target for item in face.imports if item.at_import_time and _is_ours(item)], "load it on first use")


def _is_ours(item: Import) -> bool:
    return item.target.split(".")[0] == "blu"


def test_only_jit_and_the_commands_see_both_ends() -> None:
    """A compiler module may know the frontend or the runtime; functions and the programs made of them join both."""
    seen = {module.name: {_part(item.target) for item in module.imports if _is_ours(item)} for module in _modules()}
    both = {name for name, parts in seen.items() if {"frontend", "runtime"} <= parts}
    others = {name for name in both if not name.startswith("blu.compiler.cli.")}
    assert others == {"blu.compiler.jit", "blu.compiler.compiled"}, "these see the frontend and the runtime"


def test_other_packages_are_declared() -> None:
    """What is imported is among pyproject's dependencies; programs run with NumPy alone. Extras are imported late."""
    declared = _packages(PROJECT["project"]["dependencies"])
    extras = PROJECT["project"]["optional-dependencies"]
    optional = _packages(item for name, items in extras.items() if name != "test" for item in items)
    wrong = []
    for module in _modules():
        bare = module.part in ("runtime", *BOTTOM)
        for item in module.imports:
            name = item.target.split(".")[0]
            allowed = {"numpy", "ml_dtypes"} if bare and item.at_import_time else declared
            allowed = allowed if item.at_import_time else allowed | optional
            if name != "blu" and name not in sys.stdlib_module_names | allowed:
                wrong.append(f"{_where(module.path)} imports {item.target}")
    _none(wrong, "not a declared dependency, or too much for what runs programs")


def _packages(requirements: Iterable[str]) -> set[str]:
    """The names of requirements, as one imports them."""
    names = {re.split(r"[=<>\[ ]", item)[0].lower().replace("-", "_") for item in requirements}
    return {{"cuda_bindings": "cuda", "nccl4py": "nccl"}.get(name, name) for name in names}


def test_one_file_says_which_package_carries_mlir() -> None:
    name = re.compile("torch" + "_mlir")
    wrong = [
        f"{_where(module.path)}: {node.value if isinstance(node, ast.Constant) else node.id}"
        for module in _modules()
        if {"torch", "mlir"} <= set(re.findall("torch|mlir", module.path.read_text()))
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.Constant) and isinstance(node.value, str) and name.search(node.value))
        or (isinstance(node, ast.Name) and name.search(node.id))
        if module.name != "blu.dialects.core.mlir"
    ]
    _none(wrong, "write `from blu.dialects.core.mlir import ...`")


def test_no_import_cycles() -> None:
    waiting = {module.name: _needs(module) for module in _modules()}
    while ready := [name for name, needs in waiting.items() if not needs & waiting.keys()]:
        for name in ready:
            del waiting[name]
    _none([f"{name} waits for {sorted(needs & waiting.keys())}" for name, needs in waiting.items()], "cycles")


def _needs(module: Module) -> set[str]:
    """The modules that must be complete before this one: imported ones with their packages, but not its own package."""
    found: set[str] = set()
    for item in module.imports:
        if item.at_import_time and _is_ours(item):
            parts = item.target.split(".")
            found.update(".".join(parts[:size]) for size in range(1, len(parts) + 1))
    own = module.name.split(".")
    packages = {".".join(own[:size]) for size in range(1, len(own) + 1)}
    return (found - packages) & _names().keys()


def test_runtime_needs_no_mlir() -> None:
    code = "import sys, blu.runtime; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = ("mlir", "torch_mlir", "llvmlite", "torch", "blu.compiler", "blu.dialects", "blu.passes", "blu.frontend")
    _none([name for name in loaded if name in heavy], "loaded by blu.runtime")


def test_files_and_functions_are_short() -> None:
    wrong = []
    for path in _files():
        if path.suffix != ".py":
            continue
        text = path.read_text()
        if (lines := len(text.splitlines())) > MAX_FILE:
            wrong.append(f"{_where(path)} has {lines} lines")
        for node in statements_under(tree_of(path)):
            if isinstance(node, ast.FunctionDef) and (lines := (node.end_lineno or 0) - node.lineno + 1) > MAX_FUNCTION:
                wrong.append(f"{_where(path, node.lineno)}: {node.name} has {lines} lines")
    _none(wrong, f"files stop at {MAX_FILE} lines, functions at {MAX_FUNCTION}")


def test_public_names_are_documented() -> None:
    wrong = []
    for module in _modules():
        if module.tree.body and not ast.get_docstring(module.tree):
            wrong.append(f"{_where(module.path)} says not what it is for")
        for node in module.tree.body:
            public = isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
            if public and not ast.get_docstring(node):
                wrong.append(f"{_where(module.path, node.lineno)}: {node.name} has no docstring")
    _none(wrong, "undocumented")


def test_file_names_say_what_is_inside() -> None:
    _none([_where(path) for path in _files() if MEANINGLESS.search(path.stem)], "name the file after what it holds")


def test_no_paths_of_one_machine() -> None:
    wrong = []
    for path in _files():
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
            if MACHINE_PATH.search(line):
                wrong.append(f"{_where(path, number)}: {line.strip()[:100]}")
    _none(wrong, "paths that exist on one machine only")


def test_the_wheel_has_every_package() -> None:
    packages = {name if path.name == "__init__.py" else name.rpartition(".")[0] for name, path in _names().items()}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == packages
    assert PROJECT["tool"]["setuptools"]["package-dir"] == {package: folder for folder, package in FOLDERS.items()}
    missing = [name for name in packages if not (_folder(name) / "__init__.py").is_file()]
    _none(missing, "packages without __init__.py")


def test_the_wheel_has_every_data_file() -> None:
    data = PROJECT["tool"]["setuptools"]["package-data"]
    wrong = []
    for folder, package in FOLDERS.items():
        for path in (ROOT / folder).rglob("*"):
            is_data = path.is_file() and path.suffix not in (".py", ".pyc") and not SKIPPED.search(_where(path))
            if is_data and not _is_declared(path.relative_to(ROOT / folder), package, data):
                wrong.append(_where(path))
    _none(wrong, "list the file in pyproject's package-data")


def _is_declared(path: Path, package: str, data: dict[str, list[str]]) -> bool:
    """Whether a pattern of one of the packages around a file (a path from `package` on) is that of the file."""
    for depth in range(len(path.parts)):
        owner, rest = ".".join((package, *path.parts[:depth])), Path(*path.parts[depth:])
        if any(rest.match(pattern) and len(Path(pattern).parts) == len(rest.parts) for pattern in data.get(owner, [])):
            return True
    return False


def _folder(package: str) -> Path:
    parts = package.split(".")[1:]
    return ROOT.joinpath(*parts) if parts and parts[0] in FOLDERS else ROOT.joinpath("blu", *parts)


@pytest.mark.parametrize("command", sorted(PROJECT["project"]["scripts"]))
def test_commands_exist(command: str) -> None:
    module, function = PROJECT["project"]["scripts"][command].split(":")
    tree = next(item.tree for item in _modules() if item.name == module)
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
