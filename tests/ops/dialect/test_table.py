"""The op table: `python -m blu.dialects`, and no op without its parts."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from blu.dialects.__main__ import COLUMNS, lowered_names, main
from blu.dialects.core.context import make_context
from blu.dialects.core.op import OPS
from blu.dialects.core.op_table import OpRow, op_rows

make_context()


def test_no_op_lacks_a_part_without_a_reason() -> None:
    holes = {row.name: row.holes for row in op_rows(lowered_names()) if row.holes}
    assert not holes


def test_a_hole_is_seen() -> None:
    row = OpRow("new", "pointwise", "x", "", "", "all", has_reference=False, lowering="", gradient="", reasons={})
    assert row.holes == ["reference", "lowering", "gradient"]
    without_rules = {row.name for row in op_rows(()) if row.holes}
    assert "exp" in without_rules and "softmax" not in without_rules


def test_every_op_is_documented_and_named_as_in_python() -> None:
    for name, cls in OPS.items():
        assert cls.__doc__ and cls.__doc__[0] not in " \n", name
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert name.replace("_", "") == cls.__name__.lower()


def test_the_table_prints(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    main()
    printed = capsys.readouterr().out
    assert f"{len(OPS)} ops" in printed
    assert re.search(
        r"softmax\s*│ normalization\s*│ operand\s*│ axis: int\s*│\s*│ floats\s*│ yes\s*│ decompose", printed
    )
    assert not re.search(r"has no (reference|lowering|gradient)", printed)
    assert "no gradient (it gives no floats): " in printed
    assert re.search(r"no lowering \(.*\): scan, while_loop", printed)


def test_the_table_in_a_pipe_cuts_nothing() -> None:
    printed = subprocess.run([sys.executable, "-m", "blu.dialects"], capture_output=True, text=True, check=True).stdout
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed.splitlines() if line.startswith("│")]
    # In order of their declaration, which depends on what a process has imported first.
    assert sorted(row[0] for row in rows) == sorted(row.name for row in op_rows(lowered_names()))
    assert {len(row) for row in rows} == {len(COLUMNS)} and "…" not in printed


def test_the_table_says_where_gradients_come_from() -> None:
    gradients = {row.name: row.gradient for row in op_rows(lowered_names())}
    assert gradients["softmax"] == "decompose" and gradients["exp"] == "rule"
    assert gradients["floor"] == "" and gradients["stop_gradient"] == ""
