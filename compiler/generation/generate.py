"""Generating text with a GPT-2: one program for the prompt, one for each further token, and the loop around them.

Knows no MLIR: programs come from a function that loads them, compiled now or from the cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from blu.compiler.generation.gpt2_programs import Gpt2Request, bucket
from blu.compiler.generation.sampling import Sampler, Sampling, check_finite
from blu.dataclass import dataclass, field
from blu.errors import ArgumentError
from blu.runtime.memory import ALIGNMENT, address_of
from blu.runtime.runnable import Runnable

MODEL = "model."
CACHE = "cache."


@dataclass(frozen=True)
class Generation:
    """Generated tokens, seconds of the prompt and of all further tokens, and why it ended: "max_tokens",
    "end_of_text", "n_positions" (the model has no more) or "interrupted"."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    prefill_seconds: float
    decode_seconds: float
    ended_by: str

    @property
    def prefill_tokens_per_second(self) -> float:
        """Prompt tokens per second."""
        return len(self.prompt) / self.prefill_seconds if self.prefill_seconds else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens per second after the first, which is the prompt's work."""
        return (len(self.tokens) - 1) / self.decode_seconds if self.decode_seconds else 0.0

    def __repr__(self) -> str:
        return f"Generation({len(self.tokens)} tokens, {self.tokens_per_second:.1f} tokens/s, ended by {self.ended_by})"


@dataclass
class Gpt2Runner:
    """A GPT-2 with weights. `load` gives the program for a request; each is loaded once.

    `config` is a checked config.json, `state` the parameters by name (float32), `target` the target's name.
    """

    config: Mapping[str, Any]
    state: Mapping[str, np.ndarray]
    target: str
    load: Callable[[Gpt2Request], Runnable]
    _programs: dict[tuple[str, int], Runnable] = field(default_factory=dict)
    _placed: tuple[Any, dict[str, Any]] = (None, {})
    _bound: dict[Runnable, tuple[list[Any], list[tuple[int, str]]]] = field(default_factory=dict)

    def program(self, entry: str, length: int) -> Runnable:
        """The program for `entry` and tokens [1, length]."""
        if (entry, length) not in self._programs:
            request = Gpt2Request.of(entry, self.config, self.target, length=length)
            self._programs[entry, length] = self.load(request)
        return self._programs[entry, length]

    def logits(self, prompt: Sequence[int]) -> np.ndarray:
        """Logits [T, V], float32, of the next token at every position of the prompt."""
        tokens = self._padded(prompt)
        [result] = self._run(self.program("forward", tokens.shape[1]), {"tokens": tokens})
        return np.asarray(result)[0, : len(prompt)]

    def prepare(self, prompt: Sequence[int]) -> None:
        """Load what generating from this prompt takes."""
        self.program("prefill", self._padded(prompt).shape[1])
        self.program("decode", 1)

    def generate(
        self,
        prompt: Sequence[int],
        max_tokens: int,
        sampling: Sampling,
        end_of_text: Sequence[int] = (),
        on_token: Callable[[int], None] = lambda token: None,
    ) -> Generation:
        """Generate up to `max_tokens` tokens; `on_token` gets each as soon as it is chosen.

        The prompt's first token may be anything in the vocabulary; a prompt longer than the model's positions is an
        ArgumentError. Ctrl-C ends the generation and returns what there is.
        """
        self.prepare(prompt)
        loop = _Loop(self, prompt, Sampler(sampling), on_token)
        ended_by = "max_tokens"
        try:
            while len(loop.tokens) < max_tokens:
                if not loop.has_room:
                    ended_by = "n_positions"
                    break
                if loop.step() in end_of_text:
                    ended_by = "end_of_text"
                    break
        except KeyboardInterrupt:
            ended_by = "interrupted"
        return Generation(tuple(prompt), tuple(loop.tokens), loop.prefill_seconds, loop.decode_seconds, ended_by)

    def _padded(self, prompt: Sequence[int]) -> np.ndarray:
        """The prompt as i32 [1, bucket], with zeros on the right that causal attention never looks at."""
        check_prompt(prompt, self.config)
        tokens = np.zeros((1, bucket(len(prompt), self.config["n_positions"])), np.int32)
        tokens[0, : len(prompt)] = prompt
        return tokens

    def _run(self, program: Runnable, values: Mapping[str, Any]) -> list[Any]:
        """Run a program on parameters that are brought where it reads them once for all runs."""
        if self._placed[0] is not self.state:
            self._placed = self.state, dict(zip(self.state, program.keep([*self.state.values()]), strict=True))
            self._bound.clear()
        if program not in self._bound:
            self._bound[program] = self._bind(program)
        arrays, places = self._bound[program]
        inputs = arrays.copy()
        for place, name in places:
            inputs[place] = values[name]
        return program.run(inputs, overwrite=True)

    def _bind(self, program: Runnable) -> tuple[list[Any], list[tuple[int, str]]]:
        """A program's arguments with the parameters in their places, and the places and names of the others."""
        names = [spec.name for spec in program.inputs]
        arrays = [self._placed[1][name[len(MODEL) :]] if name.startswith(MODEL) else None for name in names]
        return arrays, [(place, name) for place, name in enumerate(names) if not name.startswith(MODEL)]


class _Loop:
    """One generation: the cache and the tokens so far."""

    def __init__(self, runner: Gpt2Runner, prompt: Sequence[int], sampler: Sampler, on_token: Callable[[int], None]):
        self.runner = runner
        self.prompt = prompt
        self.sampler = sampler
        self.on_token = on_token
        self.tokens: list[int] = []
        self.prefill_seconds = 0.0
        self.decode_seconds = 0.0
        self._cache = _empty_cache(runner.program("decode", 1))

    @property
    def has_room(self) -> bool:
        """Whether the last token still has a position."""
        return len(self.prompt) + len(self.tokens) <= self.runner.config["n_positions"]

    def step(self) -> int:
        """Run the prompt, or the last token; choose the next one."""
        start = time.perf_counter()
        token = self._choose(*(self._decode() if self.tokens else self._prefill()))
        seconds = time.perf_counter() - start
        if self.tokens:
            self.decode_seconds += seconds
        else:
            self.prefill_seconds += seconds
        self.tokens.append(token)
        self.on_token(token)
        return token

    def _choose(self, logits: Any, likeliest: Any) -> int:
        """The next token for logits [1, V]. Taking the likeliest reads no more of them than its own."""
        if not self.sampler.sampling.greedy:
            return self.sampler.choose(np.asarray(logits)[0])
        token = int(likeliest[0])
        check_finite(float(logits[0, token]))
        return token

    def _prefill(self) -> tuple[Any, Any]:
        tokens = self.runner._padded(self.prompt)
        program = self.runner.program("prefill", tokens.shape[1])
        return self._advance(program, {"tokens": tokens, "length": _scalar(len(self.prompt))})

    def _decode(self) -> tuple[Any, Any]:
        position = len(self.prompt) + len(self.tokens) - 1
        tokens = np.array([[self.tokens[-1]]], np.int32)
        return self._advance(self.runner.program("decode", 1), {"tokens": tokens, "position": _scalar(position)})

    def _advance(self, program: Runnable, values: Mapping[str, Any]) -> tuple[Any, Any]:
        """Run a program that takes the cache and gives logits, the likeliest token, and the cache."""
        logits, likeliest, *cache = self.runner._run(program, {**values, **self._cache})
        self._cache = dict(zip(self._cache, cache, strict=True))
        return logits, likeliest


def _scalar(value: int) -> np.ndarray:
    """An i32 as programs take it without converting it first."""
    return np.array(value, np.int32)


def _empty_cache(decode: Runnable) -> dict[str, np.ndarray]:
    """The cache's arrays by input name, in the order in which programs return them.

    They are zero, because what is masked is multiplied by 0, and 0 * NaN is NaN. Zeros that the system hands out take
    no memory before they are written, so a short text does not pay for the model's longest.
    """
    specs = [spec for spec in decode.inputs if spec.name.startswith(CACHE)]
    return {spec.name: _aligned_zeros(spec.nbytes).view(spec.numpy_dtype).reshape(spec.shape) for spec in specs}


def _aligned_zeros(nbytes: int) -> np.ndarray:
    raw = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -address_of(raw) % ALIGNMENT
    return raw[start : start + nbytes]


def check_prompt(prompt: Sequence[int], config: Mapping[str, Any]) -> None:
    """Raise ArgumentError for a prompt that the model cannot take, before anything is compiled."""
    if not prompt:
        raise ArgumentError(
            "the prompt has no tokens", advice="Give at least one: --prompt TEXT or --prompt-tokens 1,2,3."
        )
    if len(prompt) > config["n_positions"]:
        raise ArgumentError(
            f"the prompt has {len(prompt)} tokens, the model {config['n_positions']} positions",
            advice="Shorten the prompt.",
        )
    outside = [token for token in prompt if not 0 <= token < config["vocab_size"]]
    if outside:
        raise ArgumentError(
            f"token {outside[0]} of the prompt is not in the model's vocabulary of {config['vocab_size']}"
        )


def float32_state(state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The parameters in float32 and as kernels read them (contiguous, aligned), copied only where they are not."""
    return {name: np.require(array, np.float32, ["C", "A"]) for name, array in state.items()}
