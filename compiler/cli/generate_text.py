"""`blu-compile MODEL --run`: the prompt, the text as it comes, and what it took."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blu.compiler.cli.messages import UsageError
from blu.compiler.cli.progress import ProgressDisplay
from blu.compiler.cli.subjects.subject import Gpt2Subject, find_tokenizer, load_weights
from blu.compiler.generation.generate import Generation, Gpt2Runner, check_prompt, float32_state
from blu.compiler.generation.gpt2_programs import Gpt2Request
from blu.compiler.generation.sampling import Sampling
from blu.compiler.process_memory import peak_memory_bytes
from blu.dataclass import dataclass
from blu.errors import ArgumentError, BluError
from blu.frontend.io.tokenizer import StreamDecoder, Tokenizer
from blu.runtime.runnable import Runnable

RANDOM_CHOICE = ("temperature", "top_k", "top_p", "seed")


@dataclass
class Session:
    """One --run: what was asked, and where programs come from. `compile_seconds` counts what `load` took."""

    subject: Gpt2Subject
    arguments: argparse.Namespace
    progress: ProgressDisplay
    target: str
    load: Callable[[Gpt2Request], Runnable]
    compile_seconds: Callable[[], float]


def sampling_of(arguments: argparse.Namespace) -> Sampling:
    """How tokens are chosen: greedy, unless a flag of random choice is there. UsageError for contradictions."""
    given = {name: value for name in RANDOM_CHOICE if (value := getattr(arguments, name)) is not None}
    if arguments.greedy and given:
        flag = "--" + next(iter(given)).replace("_", "-")
        raise UsageError(f"--greedy and {flag} contradict each other", advice="leave one of them out")
    try:
        return Sampling(greedy=not given, **given)
    except ArgumentError as error:
        raise UsageError(error.message, advice=error.advice) from None


def run_session(session: Session) -> int:
    """Generate (and save logits, where asked); the exit code."""
    arguments = session.arguments
    sampling = sampling_of(arguments)
    tokenizer = find_tokenizer(session.subject, arguments.weights, arguments.tokenizer)
    prompt = _prompt(session, tokenizer)
    check_prompt(prompt, session.subject.config)
    with session.progress.step("loading the weights"):
        state = float32_state(load_weights(session.subject, arguments.weights))
    runner = Gpt2Runner(session.subject.config, state, session.target, session.load)
    if arguments.logits is not None:
        _save(arguments.logits, runner.logits(prompt))
    if not arguments.run:
        return 0
    runner.prepare(prompt)
    stream = _Stream(tokenizer, silent=arguments.json)
    stream.start(arguments.prompt if arguments.prompt is not None else "")
    generation = runner.generate(prompt, arguments.max_tokens, sampling, _end_of_text(session), on_token=stream.push)
    stream.finish()
    _report(session, generation, None if tokenizer is None else stream.text)
    return 130 if generation.ended_by == "interrupted" else 0


def prepare_session(session: Session) -> int:
    """Find the weights and compile what --run needs, for prompts of up to 16 tokens; the exit code."""
    with session.progress.step("finding the weights"):
        state = load_weights(session.subject, session.arguments.weights)
    runner = Gpt2Runner(session.subject.config, state, session.target, session.load)
    runner.prepare([0])
    session.progress.say(f"{session.subject.name} is ready for --run ({session.compile_seconds():.1f} s)")
    return 0


def _prompt(session: Session, tokenizer: Tokenizer | None) -> Sequence[int]:
    """The prompt's tokens; without a prompt, the token that texts begin with."""
    arguments, config = session.arguments, session.subject.config
    if arguments.prompt_tokens is not None:
        return arguments.prompt_tokens
    if arguments.prompt:
        if tokenizer is None:
            raise BluError(
                f"{session.subject.name} comes without a tokenizer, so --prompt cannot be read",
                advice="give --prompt-tokens 1,2,3, or --tokenizer DIR, or --tokenizer bytes",
            )
        return tokenizer.encode(arguments.prompt)
    first = config.get("bos_token_id")
    if isinstance(first, int) and 0 <= first < config["vocab_size"]:
        return [first]
    raise UsageError("there is no prompt", advice="give --prompt TEXT or --prompt-tokens 1,2,3")


def _end_of_text(session: Session) -> Sequence[int]:
    found = session.subject.config.get("eos_token_id")
    if session.arguments.ignore_eos or found is None:
        return ()
    return found if isinstance(found, list) else [found]


def _save(path: Path, logits: np.ndarray) -> None:
    try:
        with path.open("wb") as file:
            np.save(file, np.ascontiguousarray(logits, np.float32))
    except OSError as error:
        raise BluError(f"cannot write {path}: {error.strerror}") from error


class _Stream:
    """The text on stdout as it comes; token ids, where there is no tokenizer."""

    def __init__(self, tokenizer: Tokenizer | None, silent: bool):
        self.decoder = StreamDecoder(tokenizer) if tokenizer is not None else None
        self.vocab_size = tokenizer.vocab_size if tokenizer is not None else 0
        self.silent = silent
        self.text = ""

    def start(self, prompt: str) -> None:
        self._write(prompt)

    def push(self, token: int) -> None:
        if self.decoder is None:
            self._write(f"{token} ")
        elif token < self.vocab_size:
            self._add(self.decoder.push(token))
        else:  # the vocabulary of a model may be larger than its tokenizer's
            self._add(f"{self.decoder.finish()}<{token}>")

    def finish(self) -> None:
        if self.decoder is not None:
            self._add(self.decoder.finish())
        self._write("\n")

    def _add(self, text: str) -> None:
        self.text += text
        self._write(text)

    def _write(self, text: str) -> None:
        if not self.silent:
            encoding = sys.stdout.encoding or "utf-8"
            sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
            sys.stdout.flush()


def _report(session: Session, generation: Generation, text: str | None) -> None:
    """What was generated and how fast: a line on stderr, and with --json one on stdout."""
    session.progress.say(
        f"{len(generation.prompt)} tokens of prompt at {generation.prefill_tokens_per_second:.1f} tokens/s, "
        f"{len(generation.tokens)} generated at {generation.tokens_per_second:.1f} tokens/s "
        f"({generation.ended_by.replace('_', ' ')})"
    )
    if session.arguments.json:
        print(json.dumps(_summary(session, generation, text)))


def _summary(session: Session, generation: Generation, text: str | None) -> dict[str, Any]:
    return {
        "tokens": list(generation.tokens),
        "text": text,
        "prompt_tokens": list(generation.prompt),
        "ended_by": generation.ended_by,
        "tokens_per_second": generation.tokens_per_second,
        "prefill_tokens_per_second": generation.prefill_tokens_per_second,
        "prefill_seconds": generation.prefill_seconds,
        "decode_seconds": generation.decode_seconds,
        "compile_seconds": session.compile_seconds(),
        "peak_memory_bytes": peak_memory_bytes(),
        "target": session.target,
    }
