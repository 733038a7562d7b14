"""How commands end: an error in a line with its exit code, and Ctrl-C in a line with 130, wherever it comes.

Python raises KeyboardInterrupt at whatever it is doing, and some of that loses it or makes another error of it: MLIR
drops what its handler of diagnostics raises, destructors can raise nothing at all. So Ctrl-C is remembered here, comes
again where it was lost, and whatever error it has become is an interruption.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from blu.compiler.cli.messages import UsageError, print_error
from blu.errors import BluError

INTERRUPTED = 130
AGAIN_SECONDS = 0.02
# Python code below these is called by code in C++ that drops its exceptions or ends the process on them; LLVM's (below
# a verifier are its parser and its printer) knows none, and leaves things half done where one comes through.
_DEAF = (
    "capture_diagnostics.<locals>.collect",
    "remembered.<locals>.check",
    "ExtensionFileLoader.create_module",
    "ExtensionFileLoader.exec_module",
)


class Interrupts:
    """While entered, in the main thread, SIGINT raises KeyboardInterrupt, and `is_received` says that it has come."""

    def __init__(self) -> None:
        self.is_received = False
        self._before: tuple[Any, Any] | None = None

    def __enter__(self) -> Interrupts:
        is_ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        if threading.current_thread() is threading.main_thread() and not is_ignored:
            self._before = signal.signal(signal.SIGINT, self._interrupt), sys.unraisablehook
            sys.unraisablehook = self._lost
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before[0])
            sys.unraisablehook = self._before[1]

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.is_received = True
        while frame is not None:
            if frame.f_code.co_qualname in _DEAF:
                return _interrupt_again()
            frame = frame.f_back
        raise KeyboardInterrupt

    def _lost(self, unraisable: Any) -> None:
        """What a destructor has raised: Ctrl-C comes again, the rest is shown as ever."""
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            _interrupt_again()
        elif self._before is not None:
            self._before[1](unraisable)


def _interrupt_again() -> None:
    timer = threading.Timer(AGAIN_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()


def run_command(program: str, run: Callable[[], int], on_error: Callable[[BluError], None] = lambda error: None) -> int:
    """Run a command; its exit code. What the user is to blame for is said in a line or two."""
    interrupts = Interrupts()
    try:
        with interrupts:
            code = run()
        if not interrupts.is_received or code == INTERRUPTED:
            return code
        error: BaseException = KeyboardInterrupt()
    except BaseException as raised:
        error = raised
    if interrupts.is_received or isinstance(error, KeyboardInterrupt):
        where = f" {error}" if isinstance(error, KeyboardInterrupt) and str(error) else ""
        sys.stderr.write(f"{program}: interrupted{where}\n")
        exec("")  # CPython remembers a Ctrl-C inside of exec, as in dataclasses, and would die of it at the end
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):  # `blu-compile ... | head`: Python must not complain about it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if not isinstance(error, BluError):
        raise error
    print_error(error, program)
    on_error(error)
    return 2 if isinstance(error, UsageError) else 1
