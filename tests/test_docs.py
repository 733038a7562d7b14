"""The documents in docs/ run as they are written, and say of the code what is so."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from blu.dialects.core.context import make_context
from blu.dialects.core.op import OPS, BluDialect
from blu.passes.cpu.attention import schedule as cpu_attention_schedules
from blu.passes.cpu.gemm import schedule as cpu_gemm_schedules
from blu.passes.cpu.others import schedule as cpu_other_schedules
from blu.passes.cpu.rows import schedule as cpu_row_schedules
from blu.passes.framework import registry
from blu.passes.framework.families import FAMILIES
from blu.passes.framework.levels import LEVELS
from blu.passes.gpu.attention import schedule as attention_schedules
from blu.passes.gpu.gemm import schedule as gemm_schedules
from blu.passes.gpu.others import schedule as other_schedules
from blu.passes.gpu.rows import schedule as row_schedules
from blu.passes.kernels.math.expand_math import DOUBLE_FUNCTIONS, FUNCTIONS
from blu.passes.loops.lower_to_linalg import RULES
from blu.passes.loops.lower_to_linalg.pointwise import BODIES
from blu.plan import arguments
from blu.plan.collective import Collective
from blu.plan.host_launch import HostLaunch
from blu.plan.schema import Check, GpuLaunch, Launch, Plan, TensorMap
from tests.support.documents import Reader, blocks_of
from tests.support.folders import ROOT

make_context()  # declares Blu's own ops, before documents declare others
registry.all_passes()  # and its passes, which are forgotten with those of a document otherwise

FOLDER = Path(__file__).parents[1] / "docs"
DOCUMENTS = sorted(FOLDER.glob("*.md"))
# Tables that a document may add to.
TABLES = (OPS, RULES, BODIES, registry._passes, registry._placements)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder, with a cache of its own. What a document adds to Blu is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLU_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(BluDialect, "operations", list(BluDialect.operations))
    before = [dict(table) for table in TABLES]
    yield tmp_path
    for table, kept in zip(TABLES, before, strict=True):
        for name in [name for name in table if name not in kept]:
            del table[name]
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_what_a_document_says_runs(document: Path, here: Path):
    expected = [block for block in blocks_of(document) if "output" in block.words]
    reader = Reader(document)
    reader.read()
    assert reader.compared >= len(expected)


def test_the_tour_is_short():
    assert len((FOLDER / "tour.md").read_text().splitlines()) < 300


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_links_lead_somewhere(document: Path):
    text = re.sub(r"`[^`]*`", "", document.read_text())  # `f[0](x)` is code, and no link
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (FOLDER / target).exists(), target


def test_the_levels_are_those_of_the_code():
    text = (FOLDER / "ir.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| ([a-z, ]+) \|", text.partition("## `blu`")[0], re.MULTILINE))
    assert rows == {level.name: ", ".join(sorted(level.dialects - {"builtin"})) for level in LEVELS.values()}
    families = text.partition("| family |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", families)) == set(FAMILIES)


def test_ops_with_a_kernel_of_their_own_are_those_of_the_code():
    text = (FOLDER / "ir.md").read_text().partition("Some ops have a kernel of their own")[2].partition(". ")[0]
    assert set(re.findall(r"`blu\.(\w+)`", text)) == {name for name, cls in OPS.items() if cls.kernel}


SCHEDULES = {
    "For matrix products (`gemm`):": gemm_schedules.KINDS,
    "For rows (`rows`, `loops`):": row_schedules.KINDS,
    "For attention (`attention`)": attention_schedules.KINDS,
    "For its gradients (`attention_gradient`)": attention_schedules.GRADIENT_KINDS,
    "For scans, sorts and additions": {
        **other_schedules.SCAN_KINDS,
        **other_schedules.MERGE_KINDS,
        **other_schedules.SCATTER_KINDS,
    },
    "For matrix products there:": cpu_gemm_schedules.KINDS,
    "For rows on processors:": cpu_row_schedules.KINDS,
    "For scans and sorts on processors": {**cpu_other_schedules.SCAN_KINDS, **cpu_other_schedules.SORT_KINDS},
    "For attention on processors:": cpu_attention_schedules.KINDS | cpu_attention_schedules.GRADIENT_KINDS,
}


@pytest.mark.parametrize("title", SCHEDULES)
def test_the_kinds_of_schedules_are_those_of_the_code(title: str):
    _, found, rest = (FOLDER / "ir.md").read_text().partition(title)
    table = rest.partition("|---|---|---|")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", table, re.MULTILINE)
    described = {kind: set(re.findall(r"`(\w+)`", names)) for kind, names in rows}
    assert found and described == {kind: {item.name for item in fields(cls)} for kind, cls in SCHEDULES[title].items()}


def test_the_pointers_of_a_launch_are_those_of_the_code():
    text = (FOLDER / "ir.md").read_text().partition("Each of `args` is a pointer")[2].partition("\n\n")[0]
    assert set(re.findall(r'\["(\w+)",', text)) == set(arguments.SPACES)


ROOMS = (
    "blu",
    "frontend",
    "dialects",
    "passes",
    "compiler",
    "runtime",
    "tests",
    "lit_tests",
    "docs",
    "bench",
    "examples",
)
FOLDERS = ("*", *(f"{room}/**/*" for room in ROOMS))
SUFFIXES = (".py", ".pyi", ".md", ".mlir")
NAMED = re.compile(rf"(?<![\w./-])(?:{'|'.join(ROOMS)})/[\w./-]*\w\b(?![<{{*])")
PLACEHOLDER = re.compile(r"NAME")


def test_files_that_are_named_are_there():
    """In documents, docstrings, comments and messages: moves of files leave none behind."""
    wrong = []
    for path in (path for folder in FOLDERS for path in ROOT.glob(folder) if path.suffix in SUFFIXES):
        for name in set(NAMED.findall(path.read_text())):
            if not PLACEHOLDER.search(name) and not any((ROOT / f"{name}{end}").exists() for end in ("", ".py")):
                wrong.append(f"{path.relative_to(ROOT)} names {name}")
    assert not wrong, "\n".join(wrong)


def test_the_fields_of_a_plan_are_those_of_the_code():
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|", (FOLDER / "ir.md").read_text().partition("## `llvm`")[2], re.MULTILINE)
    described = dict(rows)
    assert described.keys() == {item.name for item in fields(Plan)}
    tables = {Launch: "launches", GpuLaunch: "launches", TensorMap: "tensor_maps", Check: "checks"}
    for kind, table in {**tables, Collective: "collectives", HostLaunch: "launches"}.items():
        assert {item.name for item in fields(kind)} <= set(re.findall(r"`(\w+)`", described[table])), table


def test_the_errors_of_functions_are_those_of_the_code():
    pattern = r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|"
    rows = re.findall(pattern, (FOLDER / "numerics.md").read_text(), re.MULTILINE)
    found = {f"math.{name}": (float(fused), float(other)) for name, fused, other, _ in rows}
    assert found == {name: function.max_ulp for name, function in FUNCTIONS.items() if function.max_ulp}
    doubles = {f"math.{name}": float(error) for name, *_, error in rows}
    assert doubles == {name: function.max_ulp for name, function in DOUBLE_FUNCTIONS.items()}
