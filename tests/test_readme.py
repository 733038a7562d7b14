"""README.md and CONTRIBUTING.md: the examples run, and the files and commands that they name exist."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DOCUMENTS = ("README.md", "CONTRIBUTING.md")


def test_the_examples_of_the_readme_run(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    script = tmp_path / "readme.py"
    check = "from blu.passes.framework.registry import lookup\nprint(lookup('blu-drop-double-negation'))\n"
    script.write_text("\n".join([*blocks, check]))
    finished = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    for shown in ("Array([[", '"blu.softmax"', "llvm.func", "DropDoubleNegation"):
        assert shown in finished.stdout, finished.stdout[:2000]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_files_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    names = re.findall(r"`((?:[a-z_]+/)+[\w.]*|[A-Z]+\.md)`", text)
    assert names
    missing = [name for name in names if not (ROOT / name).exists()]
    assert not missing, f"{document} names {missing}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_commands_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    commands = set(re.findall(r"^(blu[\w-]*) |`(blu-[a-z]+|blu) ", text, re.MULTILINE))
    names = {name for pair in commands for name in pair if name}
    assert names <= set(PROJECT["scripts"]), names


def test_the_commands_of_the_readme_install_what_they_need() -> None:
    text = (ROOT / "README.md").read_text()
    run, test = re.findall(r"^python3 -m venv .*$", text, re.MULTILINE)
    assert "pip install -e . &&" in run and "blu-compile gpt2-demo --run --prompt" in run
    assert "pip install -e '.[test]' && python -m pytest" in test
    ci = (ROOT / ".ci" / "run").read_text()
    assert "-e '.[test]'" in ci and test.rpartition("&& ")[2] in ci
