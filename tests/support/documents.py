"""Documents that run: the code blocks of a Markdown file are executed in order, and the output they show is compared.

    ```python                 runs; all blocks of a document share one namespace
    ```python file=model.py   becomes a file of that name, and does not run
    ```console                each `$ blu-...` line runs, those with --nproc in processes of their own; what is below it
                              is compared with what it prints
    ```mlir output            compared with what the block before it printed (any language)

In expected output, `...` stands for anything.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
# The file of each command, and what it needs to run in this process.
COMMANDS = {
    "blu-compile": ("compile", []),
    "blu-opt": ("opt", ["--no-isolate"]),
    "blu run": ("run", []),
    "blu train": ("train", []),
}


@dataclass(frozen=True)
class Block:
    """A fenced block: the words behind the fence, its text, and the line of the document it begins on."""

    words: tuple[str, ...]
    text: str
    line: int

    @property
    def language(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def file(self) -> str:
        """The file that the block is written to, or nothing."""
        return next((word.removeprefix("file=") for word in self.words if word.startswith("file=")), "")


def blocks_of(document: Path) -> Iterator[Block]:
    """The fenced blocks of a Markdown file."""
    text = document.read_text()
    for match in _FENCE.finditer(text):
        yield Block(tuple(match["info"].split()), match["body"], text.count("\n", 0, match.start("body")) + 1)


@dataclass
class Reader:
    """Someone who types in what a document says, in the current folder."""

    document: Path
    namespace: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    printed: str = ""
    compared: int = 0

    def read(self) -> None:
        """Run all blocks. AssertionError names the line of the document where the output differs."""
        for block in blocks_of(self.document):
            if block.file:
                Path(block.file).write_text(block.text)
            elif "output" in block.words:
                self._compare(block.text, self.printed, block.line)
            elif block.language == "python":
                self._run_python(block)
            elif block.language == "console":
                self._run_commands(block)

    def _run_python(self, block: Block) -> None:
        code = "\n" * (block.line - 1) + block.text
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(code, str(self.document), "exec"), self.namespace)
        self.printed = output.getvalue()

    def _run_commands(self, block: Block) -> None:
        for command, expected in _commands(block.text):
            program = next((name for name in COMMANDS if command.startswith(name)), None)
            assert program is not None, f"{self.document.name}:{block.line}: {command} is none of {', '.join(COMMANDS)}"
            if "--nproc" in command:
                self._compare(expected, self._run_ranks(command, block.line), block.line)
                continue
            file, extra = COMMANDS[program]
            main = import_module(f"blu.compiler.cli.{file}").main
            with contextlib.redirect_stdout(_Output()) as output, contextlib.redirect_stderr(io.StringIO()) as errors:
                code = main([*shlex.split(command.removeprefix(program)), *extra])
            assert code == 0, f"{self.document.name}:{block.line}: {command}: {errors.getvalue()}"
            self._compare(expected, output.getvalue(), block.line)

    def _run_ranks(self, command: str, line: int) -> str:
        """What a command of several processes prints."""
        words = [sys.executable, "-m", *shlex.split(command)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, f"{self.document.name}:{line}: {command}: {done.stderr}"
        return done.stdout

    def _compare(self, expected: str, printed: str, line: int) -> None:
        pattern = r".*?".join(re.escape(part) for part in _tidy(expected).split("..."))
        assert re.fullmatch(pattern, _tidy(printed), re.DOTALL), (
            f"{self.document.name}:{line}: expected\n{expected}\nbut it prints\n{printed}"
        )
        self.compared += bool(expected.strip())


class _Output(io.TextIOWrapper):
    """What a command prints, as text or as bytes."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def getvalue(self) -> str:
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined]


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Each `$ command` and the lines below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        yield command, expected


def _tidy(text: str) -> str:
    """Without spaces at the ends of lines, and without empty lines around."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip()
