"""IR texts with mistakes in them: whatever is wrong, `blu-compile` and `blu-opt` answer with `file:line:col: error`.

    python -m tests.support.ir_mutants --seconds 600 --seed 3

Programs are lowered for a processor and a GPU; the text after each pass is the ground for mutants. Each mutant runs in
a fork of this process, so that nothing is imported anew. What MLIR itself does not survive (the commands do, since they
run their passes in a child) is counted as a crash.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import blu
from blu.compiler.cli import compile as compile_command
from blu.compiler.cli import opt as opt_command
from blu.compiler.cli import opt_run  # noqa: F401 (so that forks find it imported)
from blu.compiler.driver.driver import run_pipeline
from blu.compiler.driver.position import write_position
from blu.compiler.pipelines import cpu, pipeline_of, sm80
from blu.dialects.core.modules import module_text
from blu.dialects.targets.nvidia import TARGETS

LIMIT_SECONDS = 60
ERROR = re.compile(r"^(\S[^\n]*?):(\d+):(\d+): error: \S", re.MULTILINE)
NUMBERS = ("0", "1", "-1", "2", "3", "7", "63", "4096", "2147483648", "9223372036854775807", "-9223372036854775808")
TYPES = (
    "f32", "f64", "bf16", "i1", "i8", "i64", "ui8", "index", "f80", "tensor<f32>", "tensor<4xf32>", "tensor<0xf32>",
    "tensor<?xf32>", "tensor<*xf32>", "memref<4xf32>", "memref<?xf32>", "memref<4xf32, strided<[2], offset: 1>>",
    "vector<8xf32>", "!llvm.ptr", "none",
)  # fmt: skip
WORD = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%@#!^]?[A-Za-z_][\w.$-]*|%\d+|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|->|[^\s\w]')
TYPE = re.compile(
    r"\b(?:tensor|memref|vector)<[^<>]*(?:<[^<>]*>[^<>]*)*>|\b(?:f16|bf16|f32|f64|i1|i8|i16|i32|i64|index)\b"
)


def attend(q, k, v):
    return blu.softmax(q @ k.T / 8, axis=-1) @ v


def learn(w, b, x, y):
    def loss(w, b):
        hidden = blu.gelu(blu.layer_norm(x @ w, blu.ones((8,)), b))
        return blu.cross_entropy(hidden, y)

    return blu.value_and_grad(loss, argnums=(0, 1))(w, b)


def arrange(x, index):
    order = blu.argsort(x, axis=-1)
    return blu.concatenate([blu.take(x, index, axis=0).T[::-1], blu.cumsum(x, axis=0).T], axis=1), order


def halves(x, table, index):
    return blu.sum((x * 3).astype("bf16"), axis=0), blu.max(table[index] // 3, axis=-1)


def heads(q, k, v):
    return blu.attention(q, k, v, causal=True)


PROGRAMS: dict[str, tuple[Callable, tuple]] = {
    "attend": (attend, (blu.spec((8, 16)), blu.spec((12, 16)), blu.spec((12, 4)))),
    "learn": (learn, (blu.spec((4, 8)), blu.spec((8,)), blu.spec((6, 4)), blu.spec((6,), "i32"))),
    "arrange": (arrange, (blu.spec((5, 6)), blu.spec((3,), "i64"))),
    "halves": (halves, (blu.spec((40, 6), "f64"), blu.spec((9, 4), "i32"), blu.spec((7,), "i64"))),
    "heads": (heads, tuple(blu.spec((1, 2, 8, 8), "f16") for _ in range(3))),
}


@dataclass(frozen=True)
class Text:
    """A module before some pass, and the pass."""

    name: str
    target: str
    text: str
    next_pass: str


def texts(programs: list[str], targets: list[str]) -> Iterator[Text]:
    """The IR of programs before each pass that changes something, without locations."""
    for program in programs:
        function, arguments = PROGRAMS[program]
        traced = blu.jit(function).trace(*arguments)
        for target in targets:
            yield from _texts_of(program, traced.with_target(TARGETS[target]), target)


def _texts_of(program: str, module, target: str) -> Iterator[Text]:
    previous = ""
    for step in pipeline_of(TARGETS[target]).steps():
        text = module_text(module, locations=False)
        bare = re.sub(r"blu.passes_done = \d+ : i64", "", text)
        if bare != previous:
            yield Text(f"{program}, {target}, before {step.name}", target, text, str(step.pass_))
        previous = bare
        module = run_pipeline(module, [step]).module
        with module.context:
            write_position(module, step.position)


class Mutator:
    """Makes mistakes, the same for the same seed."""

    def __init__(self, seed: int, corpus: list[Text]):
        self.random = random.Random(seed)
        self.corpus = corpus

    def mutant(self) -> tuple[Text, str]:
        """A text of the corpus and the same with one to three mistakes."""
        source = self.random.choice(self.corpus)
        text = source.text
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            text = self.random.choice(self.mistakes)(self, text)
        return source, text

    def line_lost(self, text: str) -> str:
        lines = text.splitlines()
        del lines[self.random.randrange(len(lines))]
        return "\n".join(lines) or "module {}"

    def line_twice(self, text: str) -> str:
        lines = text.splitlines()
        index = self.random.randrange(len(lines))
        lines.insert(index, lines[index])
        return "\n".join(lines)

    def line_moved(self, text: str) -> str:
        lines = text.splitlines()
        lines.insert(self.random.randrange(len(lines)), lines.pop(self.random.randrange(len(lines))))
        return "\n".join(lines)

    def line_from_elsewhere(self, text: str) -> str:
        lines = text.splitlines()
        others = self.random.choice(self.corpus).text.splitlines()
        lines[self.random.randrange(len(lines))] = self.random.choice(others)
        return "\n".join(lines)

    def cut_off(self, text: str) -> str:
        return text[: self.random.randrange(len(text))]

    def word_lost(self, text: str) -> str:
        return self._replaced(WORD, text, lambda word: "")

    def word_for_word(self, text: str) -> str:
        words = WORD.findall(text)
        return self._replaced(WORD, text, lambda word: self.random.choice(words))

    def name_for_name(self, text: str) -> str:
        """One of the same kind: a value for a value, an op for an op."""

        def other(word: str) -> str:
            alike = [item for item in WORD.findall(text) if item[:1] == word[:1] and ("." in item) == ("." in word)]
            return self.random.choice(alike)

        return self._replaced(WORD, text, other)

    def number(self, text: str) -> str:
        return self._replaced(re.compile(r"(?<![\w%@#.])-?\d+(?=\D)"), text, lambda word: self.random.choice(NUMBERS))

    def extent(self, text: str) -> str:
        return self._replaced(re.compile(r"(?<=[<x])\d+(?=x)"), text, lambda word: self.random.choice(NUMBERS[:8]))

    def type(self, text: str) -> str:
        return self._replaced(TYPE, text, lambda word: self.random.choice(TYPES))

    def character(self, text: str) -> str:
        place = self.random.randrange(len(text) + 1)
        return text[:place] + self.random.choice('()[]{}<>,:%@#"x-0 ') + text[place + self.random.randrange(2) :]

    def attribute_lost(self, text: str) -> str:
        return self._replaced(re.compile(r"[\w.]+ = [^,{}]+,? ?"), text, lambda word: "")

    mistakes = (
        line_lost, line_twice, line_moved, line_from_elsewhere, cut_off, word_lost, word_for_word, name_for_name,
        name_for_name, number, number, extent, type, type, character, attribute_lost, attribute_lost,
    )  # fmt: skip

    def _replaced(self, pattern: re.Pattern[str], text: str, change: Callable[[str], str]) -> str:
        found = list(pattern.finditer(text))
        if not found:
            return text
        match = self.random.choice(found)
        return text[: match.start()] + change(match[0]) + text[match.end() :]


@dataclass(frozen=True)
class Answer:
    """What a command answered. `code` is negative for a signal."""

    code: int
    said: str

    @property
    def verdict(self) -> str:
        """ "accepted", "refused", "crash" (of MLIR's: the commands survive it), or what is wrong with the answer."""
        if self.code == 0:
            return "accepted"
        if self.code == -signal.SIGALRM:
            return f"took over {LIMIT_SECONDS} s"
        if self.code < 0:
            return "crash"
        if "Traceback" in self.said:
            return "a traceback"
        if "not what the pass before it leaves" in self.said:
            return "refused (by form)" if ERROR.search(self.said) else "no place"
        return "refused" if self.code in (1, 2) and ERROR.search(self.said) else "no place"


def ask(command: Callable[[list[str]], int], words: list[str]) -> Answer:
    """Run a command in a fork."""
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.stdout = sys.stderr = os.fdopen(2, "w")
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(LIMIT_SECONDS)
            os._exit(_guarded(command, words))
        _, status = os.waitpid(child, 0)
        said.seek(0)
        text = said.read().decode(errors="replace")
    return Answer(os.waitstatus_to_exitcode(status), text)


def _guarded(command: Callable[[list[str]], int], words: list[str]) -> int:
    try:
        return command(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 99
    finally:
        sys.stderr.flush()


@dataclass
class Tally:
    """How many mutants were answered how, and those that were answered wrongly."""

    verdicts: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, list[str], str, Answer]] = field(default_factory=list)


RIGHT = ("accepted", "refused", "refused (by form)", "crash")


def commands(source: Text, file: Path, folder: Path, chance: random.Random) -> Iterator[tuple[Callable, list[str]]]:
    """What each mutant is given to."""
    here = ["--no-isolate", f"--reproducer-dir={folder / 'failed'}"]
    yield compile_command.main, [str(file), *here, "-q", "--compile-to=llvm"]
    passes = [source.next_pass, "canonicalize", "cse", str(chance.choice(chance.choice(_PIPELINES)).pass_)]
    yield opt_command.main, [str(file), *here, f"--pass-pipeline={chance.choice(passes)}"]


_PIPELINES = (cpu.PIPELINE.steps(), sm80.PIPELINE.steps())


def try_mutants(corpus: list[Text], seed: int, is_over: Callable[[int], bool]) -> Tally:
    """Ask both commands about mutants until it is over."""
    mutator, tally, number = Mutator(seed, corpus), Tally(), 0
    with tempfile.TemporaryDirectory(prefix="blu-mutants-") as name:
        folder = Path(name)
        file = folder / "mutant.mlir"
        while not is_over(number):
            source, text = mutator.mutant()
            file.write_text(text)
            for command, words in commands(source, file, folder, mutator.random):
                answer = ask(command, words)
                tally.verdicts[answer.verdict] += 1
                if answer.verdict not in RIGHT:
                    tally.wrong.append((source.name, words, text, answer))
            number += 1
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description="Ask blu-compile and blu-opt about IR with mistakes in it.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="where to write mutants that are answered wrongly")
    arguments = parser.parse_args()
    with contextlib.redirect_stdout(io.StringIO()):
        corpus = list(texts(list(PROGRAMS), ["x86-64-v3", "sm_90a"]))
    end = time.monotonic() + arguments.seconds
    tally = try_mutants(corpus, arguments.seed, lambda number: time.monotonic() > end)
    print(f"{len(corpus)} texts, seed {arguments.seed}: {dict(tally.verdicts)}")
    for number, (name, words, text, answer) in enumerate(tally.wrong):
        said = answer.said.strip().splitlines() or [""]
        print(f"\n{answer.verdict} ({name}): {' '.join(words[1:])}\n  {said[0][:300]}\n  {said[-1][:300]}")
        if arguments.keep:
            arguments.keep.mkdir(exist_ok=True)
            (arguments.keep / f"{arguments.seed}-{number}.mlir").write_text(text)
            (arguments.keep / f"{arguments.seed}-{number}.txt").write_text(f"{words}\n{answer.said}")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
