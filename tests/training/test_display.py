"""What `blu train` shows of a run: on a terminal, and elsewhere."""

from __future__ import annotations

import contextlib
import errno
import io
from pathlib import Path

import pytest

from blu.compiler.cli.training.display import LiveDisplay, PlainDisplay, make_display
from blu.compiler.training.arithmetic_peak import gpu_peak_flops
from blu.compiler.training.events import Note, Sampled, Saved, StepDone, Validated

STEP = StepDone(1, 100, 5.25, 1.5, 6e-4, 4096, 0.5, 8192.0, 0.25, 300 << 20, 0.1, 3725.0)
NUMBERS = (
    "step 1/100",
    "loss 5.2500",
    "lr 6.00e-04",
    "norm 1.500",
    "8,192 tokens/s",
    "MFU 25.0%",
    "300 MiB",
    "ETA 1:02:05",
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def at(step: int, **changes: object) -> StepDone:
    return StepDone(**(STEP.__dict__ | {"step": step} | changes))  # type: ignore[arg-type]


def test_lines_elsewhere() -> None:
    stream = io.StringIO()
    display = make_display(stream, 10)
    assert isinstance(display, PlainDisplay)
    with display:
        for step in range(1, 101):
            display(at(step, skipped=step == 37))
    lines = stream.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == [f"{step}/100" for step in (1, 10, 20, 30, 37, *range(40, 101, 10))]
    assert lines[0] == " | ".join(NUMBERS) and lines[4].endswith("| skipped")


def test_other_events_have_a_line_each() -> None:
    stream = io.StringIO()
    with make_display(stream, 0) as display:
        for event in (Validated(5, 2.5, 0.1), Sampled(5, "def f"), Saved(5, Path("runs/x")), Note("a note"), STEP):
            display(event)
    expected = ["step 5 | validation loss 2.5000", "step 5 | sample: def f", "step 5 | checkpoint in runs/x", "a note"]
    assert stream.getvalue().splitlines() == expected


def test_a_terminal_shows_the_last_step_in_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    display = make_display(stream, 10)
    assert isinstance(display, LiveDisplay)
    with display:
        display(Note("before [bold]the first step"))
        assert stream.getvalue() == "before [bold]the first step\n"
        display(STEP)
        display(Sampled(1, "text [red] of the model"))
        display(at(100))
    shown = stream.getvalue()
    assert all(number in shown for number in NUMBERS) and "step 100/100" in shown
    assert "step 1 | sample: text [red] of the model" in shown


def test_peaks_of_gpus_go_by_name_and_dtype() -> None:
    assert gpu_peak_flops("NVIDIA H200", "bf16") == gpu_peak_flops("NVIDIA H100 80GB HBM3", "f16") == 989e12
    assert gpu_peak_flops("NVIDIA H100 PCIe", "tf32") == 378e12
    assert gpu_peak_flops("NVIDIA A100-SXM4-80GB", "f32") == 19.5e12
    assert gpu_peak_flops("NVIDIA A10G", "bf16") == 70e12 and gpu_peak_flops("NVIDIA L40S", "bf16") == 362e12
    assert gpu_peak_flops("NVIDIA A1000", "bf16") is gpu_peak_flops("Fake GPU", "f32") is None


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_closed_terminal_does_not_end_the_run(code: int) -> None:
    """SIGHUP lets the run save; what it says meanwhile goes nowhere. Other errors of writing are told."""

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(code, "gone")

    with contextlib.nullcontext() if code == errno.EIO else pytest.raises(OSError, match="gone"):
        for display in (PlainDisplay(Closed(), 1), LiveDisplay(Closed())):
            with display:
                for event in (Note("a note"), STEP, Saved(5, Path("runs/x"))):
                    display(event)
        assert code == errno.EIO
