"""Tests of what commands show while they work."""

from __future__ import annotations

import re
import sys
import time

import pytest

from blu.compiler.cli import progress as progress_module
from blu.compiler.cli.progress import ProgressDisplay


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "PATIENCE", 0.05)


def shown_until(capsys: pytest.CaptureFixture[str], text: str) -> str:
    """What is on stderr once that is."""
    said, end = "", time.monotonic() + 20
    while text not in said and time.monotonic() < end:
        time.sleep(0.01)
        said += capsys.readouterr().err
    return said


def test_a_long_step_is_a_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressDisplay("blu-compile").step("compiling f"):
        assert shown_until(capsys, "\n") == "blu-compile: compiling f ...\n"
    assert capsys.readouterr().err == ""


def test_a_short_step_is_silent(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "PATIENCE", 30.0)
    with ProgressDisplay("blu-compile").step("compiling f"):
        pass
    assert capsys.readouterr().err == ""


def test_quiet_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    progress = ProgressDisplay("blu-compile", -1)
    with progress.step("compiling f"):
        time.sleep(0.3)
    progress.say("done")
    assert capsys.readouterr().err == ""


def test_verbose_times_every_step(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "PATIENCE", 30.0)
    with ProgressDisplay("blu-compile", 1).step("compiling f"):
        pass
    assert re.fullmatch(r"blu-compile: compiling f: \d\.\d\d s\n", capsys.readouterr().err)


def test_a_terminal_gets_a_spinner_with_details(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    progress = ProgressDisplay("blu-compile")
    with progress.step("compiling f"):
        assert "compiling f" in shown_until(capsys, "compiling f")
        progress.detail("blu-fuse")
        said = shown_until(capsys, "compiling f: blu-fuse")
    said += capsys.readouterr().err
    assert "compiling f: blu-fuse" in said
    assert "\r" in said


@pytest.mark.parametrize("is_terminal", [False, True])
def test_what_is_late_shows_nothing(
    is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step ends while its timer goes off: a spinner would turn for ever."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr(progress_module, "PATIENCE", 30.0)
    progress = ProgressDisplay("blu-compile")
    with progress.step("compiling f"):
        late = progress._step
    progress._show(late)
    assert progress._spinner is None and capsys.readouterr().err == ""


def test_an_error_ends_the_step() -> None:
    progress = ProgressDisplay("blu-compile")
    with pytest.raises(ZeroDivisionError), progress.step("compiling f"):
        time.sleep(0.2)
        raise ZeroDivisionError
    assert progress._spinner is None
