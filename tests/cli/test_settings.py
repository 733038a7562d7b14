"""The variables BLU_*: one table of them, values with types, and no slip of the pen that is ignored."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import blu
from blu import settings
from blu.compiler.cli import doctor, main
from blu.compiler.codegen.cubins import find_ptxas
from blu.errors import ArgumentError, SettingError
from tests.support.folders import ROOT

NAMES = {setting.name for setting in settings.TABLE}


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a test sets is set (and where the cache is)."""
    for name in NAMES - {"BLU_CACHE_DIR"}:
        monkeypatch.delenv(name, raising=False)


def test_every_setting_has_a_typed_field_of_its_name():
    assert len(NAMES) == len(settings.TABLE) == 17
    asked = settings.current()
    for setting in settings.TABLE:
        assert setting.name == f"BLU_{setting.field.upper()}"
        assert setting.help.endswith(".")
        if setting.field != "cache_dir":
            assert getattr(asked, setting.field) == setting.default, setting.name


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("BLU_NUM_THREADS", "1", 1),
        ("BLU_NUM_THREADS", " 1024 ", 1024),
        ("BLU_CACHE_DIR", "~/cache", Path("~/cache").expanduser()),
        ("BLU_CACHE_LIMIT", "0", 0),
        ("BLU_CODEGEN_TIMEOUT", "0.5", 0.5),
        ("BLU_CODEGEN_TIMEOUT", "inf", float("inf")),
        ("BLU_PTXAS", sys.executable, sys.executable),
        ("BLU_PTXAS", "", ""),
        ("BLU_TUNED", "~/tuned.json", Path("~/tuned.json").expanduser()),
        ("BLU_TRACEBACK", "full", "full"),
        ("BLU_CUDA_DRIVER", "bindings", "bindings"),
        ("BLU_CUDA_GRAPH", "0", False),
        ("BLU_CUDA_GRAPH", "off", False),
        ("BLU_CUDA_POOL", "No", False),
        ("BLU_CUDA_SYNC", "1", True),
        ("BLU_CUDA_SYNC", "false", False),
        ("BLU_NVTX", "Yes", True),
        ("BLU_RANK_JOIN", "2.5", 2.5),
        ("BLU_RANK_TIMEOUT", "60", 60.0),
        ("BLU_RANK_TOKEN", "a secret", "a secret"),
    ],
)
def test_values_are_read_when_they_are_asked_for(monkeypatch, name, text, value):
    monkeypatch.setenv(name, text)
    found = getattr(settings.current(), name.removeprefix("BLU_").lower())
    assert (found, type(found)) == (value, type(value))
    if text and not isinstance(value, bool) and text == text.strip() and "~" not in text:
        assert settings.as_environment(**{name.removeprefix("BLU_").lower(): value}) == {name: text}


@pytest.mark.parametrize(
    "setting", [item for item in settings.TABLE if not item.kind.takes_empty], ids=lambda s: s.name
)
def test_an_empty_variable_is_as_if_unset(monkeypatch, setting):
    monkeypatch.setenv(setting.name, " ")
    assert getattr(settings.current(), setting.field) == setting.default


def test_switches_are_written_as_one_would_write_them():
    assert settings.as_environment(cuda_sync=True, cuda_pool=False) == {"BLU_CUDA_SYNC": "1", "BLU_CUDA_POOL": "0"}


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("BLU_NUM_THREADS", "0", "BLU_NUM_THREADS='0' is not an integer from 1 to 1024"),
        ("BLU_NUM_THREADS", "1025", "BLU_NUM_THREADS='1025' is not an integer from 1 to 1024"),
        ("BLU_NUM_THREADS", "²", "BLU_NUM_THREADS='²' is not an integer"),
        ("BLU_CACHE_LIMIT", "-1", "BLU_CACHE_LIMIT='-1' is not a number of bytes"),
        ("BLU_CACHE_LIMIT", "4G", "BLU_CACHE_LIMIT='4G' is not a number of bytes"),
        ("BLU_CODEGEN_TIMEOUT", "nan", "BLU_CODEGEN_TIMEOUT='nan' is not a number of seconds above 0"),
        ("BLU_CODEGEN_TIMEOUT", "0", "BLU_CODEGEN_TIMEOUT='0' is not a number of seconds above 0"),
        ("BLU_PTXAS", "/nowhere/ptxas", "BLU_PTXAS='/nowhere/ptxas' is not a program"),
        ("BLU_TRACEBACK", "Full", "BLU_TRACEBACK='Full' is not short or full\n  did you mean 'full'?"),
        (
            "BLU_CUDA_DRIVER",
            "Pycuda",
            "BLU_CUDA_DRIVER='Pycuda' is not pycuda or bindings\n  did you mean 'pycuda'?",
        ),
        ("BLU_CUDA_SYNC", "ture", "BLU_CUDA_SYNC='ture' is not 0 or 1\n  did you mean 'true'?"),
        ("BLU_CUDA_GRAPH", "2", "BLU_CUDA_GRAPH='2' is not 0 or 1"),
        ("BLU_CUDA_SYNK", "1", "there is no setting BLU_CUDA_SYNK\n  did you mean 'BLU_CUDA_SYNC'?"),
        ("BLU_num_threads", "2", "there is no setting BLU_num_threads\n  did you mean 'BLU_NUM_THREADS'?"),
        ("BLU_LOGO", "2", "there is no setting BLU_LOGO\n  `blu doctor --settings` lists all"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_guess(monkeypatch, name, text, says):
    monkeypatch.setenv(name, text)
    with pytest.raises(SettingError, match=re.escape(says)) as caught:
        settings.current()
    assert caught.value.name == name
    assert len(settings.problems()) == 1


def test_names_of_others_are_left_alone(monkeypatch):
    for name in ("BLUE_TOOTH", "BLU", "MY_BLU_CACHE"):
        monkeypatch.setenv(name, "1")
    assert settings.problems() == []


PROGRAM = """
import blu, numpy, os
print("imported")
{}
@blu.jit
def double(x): return x + x
print(numpy.asarray(double(numpy.ones(2, numpy.float32))))
"""


def run_program(folder: Path, middle: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(PROGRAM.format(middle))
    environment = {"PATH": "", "BLU_CACHE_DIR": str(folder / "cache"), **environment}
    command = [sys.executable, "program.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100)


def test_a_misspelt_name_ends_a_program_at_its_first_call(tmp_path):
    found = run_program(tmp_path, BLU_NUMTHREADS="1")
    assert (found.returncode, found.stdout) == (1, "imported\n")
    assert "program.py:7: there is no setting BLU_NUMTHREADS" in found.stderr
    assert "did you mean 'BLU_NUM_THREADS'?" in found.stderr
    files = set(re.findall(r'File "([^"]+)"', found.stderr))
    assert files == {str(tmp_path / "program.py")}, "the traceback is the user's"


def test_a_program_may_set_settings_after_the_import(tmp_path):
    found = run_program(tmp_path, 'os.environ["BLU_CACHE_LIMIT"] = "0"')
    assert (found.returncode, found.stdout) == (0, "imported\n[2. 2.]\n"), found.stderr
    assert not (tmp_path / "cache").exists()


def test_a_wrong_setting_hides_no_other_error(monkeypatch):
    double = blu.jit(lambda x: x + x)
    monkeypatch.setenv("BLU_TRACEBACK", "ful")
    with pytest.raises(ArgumentError) as caught:
        double()
    assert [note.partition("\n")[0] for note in caught.value.__notes__] == ["BLU_TRACEBACK='ful' is not short or full"]


def test_tracing_looks_at_settings_first(monkeypatch):
    def never(x):
        raise AssertionError("traced")

    monkeypatch.setenv("BLU_CACHE_LIMITS", "0")
    with pytest.raises(SettingError, match="there is no setting BLU_CACHE_LIMITS"):
        blu.jit(never).trace(np.ones(1))


@pytest.mark.parametrize("words", [["cache"], ["opt", "x.mlir"], ["compile", "gpt2"], ["run", "x.blu"], ["train"]])
def test_commands_refuse_before_they_begin(monkeypatch, capsys, words):
    monkeypatch.setenv("BLU_CACHEDIR", "x")
    assert main.main(words) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "blu: error: there is no setting BLU_CACHEDIR"
    assert said[1].startswith("  did you mean 'BLU_CACHE_DIR'?") and len(said) == 2


def test_help_is_there_whatever_the_settings_are(monkeypatch, capsys):
    monkeypatch.setenv("BLU_CACHEDIR", "x")
    assert main.main(["--help"]) == main.main(["--version"]) == 0
    assert capsys.readouterr().err == ""


def test_the_doctor_lists_all_settings_and_where_they_come_from(monkeypatch, capsys):
    monkeypatch.setenv("BLU_NUM_THREADS", "3")
    assert main.main(["doctor", "--settings"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines.keys() == NAMES | {"setting"}
    assert re.match(
        r"BLU_NUM_THREADS +3 +environment +an integer from 1 to 1024 +Threads that", lines["BLU_NUM_THREADS"]
    )
    assert re.match(r"BLU_TRACEBACK +short +default", lines["BLU_TRACEBACK"])


def test_the_doctor_says_which_settings_are_wrong(monkeypatch, capsys):
    monkeypatch.setenv("BLU_CUDA_POOL", "maybe")
    monkeypatch.setenv("BLU_PTXSA", "")
    assert doctor.main(["--settings"]) == 1
    said = capsys.readouterr().out
    assert "\n  !! BLU_CUDA_POOL='maybe' is not 0 or 1: " in said
    assert "\n  !! there is no setting BLU_PTXSA: did you mean 'BLU_PTXAS'?" in said
    assert doctor.main(["--settings", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["healthy"] is False
    assert [row["setting"] for row in report["settings"] if row["problem"]] == ["BLU_CUDA_POOL", "BLU_PTXSA"]


def test_the_doctor_blames_nothing_else_for_a_wrong_setting(monkeypatch, capsys):
    monkeypatch.setenv("BLU_CACHE_LIMIT", "much")
    assert doctor.main(["--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    broken = [(item["subject"], item["text"]) for item in report["findings"] if item["state"] == "!!"]
    assert broken == [("settings", "BLU_CACHE_LIMIT='much' is not a number of bytes")]


def test_ptxas_is_looked_for_where_the_setting_says(monkeypatch):
    monkeypatch.setenv("BLU_PTXAS", sys.executable)
    assert find_ptxas() == sys.executable
    monkeypatch.setenv("BLU_PTXAS", "")
    assert find_ptxas() is None


def test_the_document_is_the_table():
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \| (.+) \|$", (ROOT / "docs/settings.md").read_text(), re.MULTILINE)
    assert rows == [(item.name, item.kind.says, item.default_text, item.help) for item in settings.TABLE]


def sources(*folders: str) -> list[Path]:
    """The Python files of these folders."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def test_documents_and_code_name_settings_that_exist():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    code = sources("blu", "frontend", "dialects", "passes", "compiler", "runtime", "bench")
    named = {
        (path.name, name)
        for path in [*pages, *code]
        for name in re.findall(r"\bBLU_[A-Z][A-Z_]*[A-Z]\b", path.read_text())
    }
    assert {name for _, name in named} == NAMES
    assert not {item for item in named if item[1] not in NAMES}


def test_settings_are_read_in_one_place():
    """No other module has the bare name of one, with which it could look it up."""
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources("blu", "frontend", "dialects", "passes", "compiler", "runtime")
        for name in re.findall(r"""["']BLU_\w*["']""", path.read_text())
        if path != ROOT / "blu/settings.py"
    ]
    assert not wrong
