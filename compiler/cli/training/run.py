"""What `blu train`'s flags ask for, put together: model, recipe, data, weights, programs, checkpoints."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from blu.compiler.cache import default_cache
from blu.compiler.cli.messages import UsageError
from blu.compiler.cli.progress import ProgressDisplay
from blu.compiler.generation.generate import Gpt2Runner
from blu.compiler.requests import ProgramRequest, compile_request
from blu.compiler.target import GPU_NAMES, resolve_target_name
from blu.compiler.training.arithmetic_peak import gpu_peak_flops, peak_flops
from blu.compiler.training.engine import Engine
from blu.compiler.training.events import Note, Observer
from blu.compiler.training.place import Place
from blu.compiler.training.presets import training_config
from blu.compiler.training.recipe import Cadence, Recipe
from blu.compiler.training.resume import check_metadata
from blu.compiler.training.trainer import Trainer, TrainingResult
from blu.compiler.training.writer import Writer
from blu.dataclass import dataclass, field
from blu.errors import ArgumentError, UnsupportedError, WeightsError
from blu.frontend.io.atomic import replacing
from blu.frontend.io.byte_tokenizer_file import write_byte_tokenizer
from blu.frontend.io.checkpoints.checkpoint import read_metadata
from blu.frontend.io.checkpoints.checkpoints import Checkpoints
from blu.frontend.io.checkpoints.directory import has_any
from blu.frontend.io.checkpoints.latest import latest
from blu.frontend.io.data.training_data import TrainingData, open_training_data
from blu.frontend.io.gpt2 import HEAD, random_state_dict
from blu.frontend.io.huggingface import gpt2_state_dict, load_config, resolve
from blu.frontend.io.json_files import read_json
from blu.frontend.io.state_dict import cast
from blu.frontend.io.tokenizer import BYTES_VOCABULARY, ByteTokenizer, Tokenizer, has_tokenizer, load_tokenizer
from blu.runtime.host import set_threads
from blu.runtime.load import load_program
from blu.runtime.pool import default_threads
from blu.runtime.runnable import Runnable

RUNS = Path("runs")
FLAGS_FILE = "run.json"
SEQUENCES = "sequences"
"""In that file, how many a micro-batch of all ranks has."""
# Flags of one start of a run, which the next start does not take over.
_SPREAD = ("mesh", "shard", "threads")
OF_ONE_START = (*_SPREAD, "resume", "find_nonfinite", "json", "plot", "dump_grads", "out", "max_minutes")
SIZES = {
    "layers": "n_layer",
    "heads": "n_head",
    "width": "n_embd",
    "positions": "n_positions",
    "vocab_size": "vocab_size",
}


@dataclass
class Run:
    """One start of a run. `flags` are those given, and on resuming those of the run's first start."""

    flags: Mapping[str, Any]
    directory: Path
    config: Mapping[str, Any]
    source: Path | None
    cadence: Cadence
    tokenizer: Tokenizer | None = None
    place: Place = field(default_factory=Place)
    compile_progress: ProgressDisplay = field(default_factory=lambda: ProgressDisplay("blu train"))

    @classmethod
    def of(cls, given: Mapping[str, Any], place: Place | None = None) -> Run:
        """Read the flags. Raises UsageError or WeightsError for what they get wrong.

        Of several ranks, the first chooses the directory.
        """
        place = place or Place()
        directory = Path(place.told("the directory of the run", lambda: str(_directory(given))))
        flags = dict(given)
        if given.get("resume") and not {"model", "init_from"} & given.keys() and not (directory / FLAGS_FILE).is_file():
            advice = "name the directory of a run with --out, or the model of a new one"
            raise UsageError(f"there is no run to resume in {directory}", advice=advice)
        if given.get("resume") and (directory / FLAGS_FILE).is_file():
            flags = _flags_of(directory, given, place.data_ranks) | flags
        source = resolve(flags["init_from"]) if "init_from" in flags else None
        cadence = _as_usage(partial(Cadence, **_fields_of(Cadence, flags)))
        _check_target(flags.get("target", "cpu"))
        return cls(flags, directory, _config(flags, source), source, cadence, place=place)

    def check(self) -> None:
        """Raise what is wrong with the run as far as one process can know: UsageError, WeightsError, DataError."""
        data, recipe = self._described()
        make = partial(Trainer, self._engine(recipe), self.config, recipe, data, self.cadence, place=self.place)
        trainer = _as_usage(make)
        if self.flags.get("resume") and has_any(self.directory) and (path := latest(self.directory)) is not None:
            check_metadata(path, read_metadata(path), self.config, trainer.batches)

    def prepare(self, observer: Observer) -> Trainer:
        """Everything up to the first step; `observer` hears what there is to say."""
        if "threads" in self.flags:
            set_threads(self.flags["threads"])
        data, recipe = self._described()
        shared = [str(self.place.mesh), self.flags.get("shard", "")]
        self.place.agree("what is trained", [dict(self.config), recipe.to_dict(), data.train.fingerprint, shared])
        trainer = self._trainer(recipe, data)
        trainer.observers = (observer,)
        observer(Note(f"{self._description(trainer)}; run in {self.directory}"))
        resumed = trainer.resume() if self.flags.get("resume") else None
        if resumed is not None:
            observer(Note(f"goes on after step {resumed}"))
        trainer.prepare()
        if self.place.is_first:
            _write_flags(self.directory, {**self.flags, SEQUENCES: recipe.batch_size})
        return trainer

    def last_words(self, result: TrainingResult) -> str:
        """How a run ended, in a line or two."""
        ended = {"steps": "done", "time": "out of time"}.get(result.ended_by, f"stopped by {result.ended_by}")
        text = f"{ended} after step {result.step}; {result.tokens_per_second:,.0f} tokens/s; see {self.directory}"
        more = "" if result.ended_by == "steps" else f"\ngo on with: blu train --resume --out {self.directory}"
        return text + more

    @staticmethod
    def full_name(name: str) -> str:
        """A parameter's name in transformers' GPT2LMHeadModel."""
        return name if name == HEAD else f"transformer.{name}"

    def _described(self) -> tuple[TrainingData, Recipe]:
        """The data and the recipe that the flags ask for."""
        if not self.flags.get("data"):
            raise UsageError("there is no data", advice="give --data FILES: shards, texts or directories")
        self.tokenizer = self._tokenizer()
        data = self._data()
        self._take_tokenizer(data.tokenizer)
        return data, self._recipe(data)

    def _engine(self, recipe: Recipe, target: str = "cpu") -> Engine:
        """The engine of this rank, without numbers. UsageError where the ranks cannot share the run."""
        find = self.flags.get("find_nonfinite", False)
        options = {"guarded": find, "load": self._load, "mesh": self.place.mesh, "rank": self.place.rank}
        options["sharded"] = self.flags.get("shard", "")
        engine = _as_usage(partial(Engine.of, self.config, recipe, target=target, **options))
        self._check_alone(engine)
        return engine

    def _trainer(self, recipe: Recipe, data: TrainingData) -> Trainer:
        target = resolve_target_name(self.flags.get("target", "cpu"))
        engine, find = self._engine(recipe, target), self.flags.get("find_nonfinite", False)
        runner = Gpt2Runner(self.config, {}, target, self._load)
        make = partial(
            Trainer,
            engine,
            self.config,
            recipe,
            data,
            cadence=self.cadence,
            writer=Writer(runner, self.tokenizer, self.config, recipe.seed),
            **self._machine(target, recipe.dtype),
            find_nonfinite=find,
            max_seconds=60 * self.flags.get("max_minutes", math.inf),
            place=self.place,
        )
        trainer = _as_usage(make)
        engine.set_parameters(self._weights(recipe.seed))
        by_bytes = isinstance(self.tokenizer, ByteTokenizer)
        tokenizer_from = self.directory if by_bytes else self._tokenizer_directory()
        # Last, because it makes the directory.
        trainer.checkpoints = Checkpoints(
            self.directory, keep_last=self.cadence.keep_last, config=self.config, tokenizer_from=tokenizer_from
        )
        if by_bytes and self.place.is_first:
            write_byte_tokenizer(self.directory, self.config["vocab_size"])
        return trainer

    def _check_alone(self, engine: Engine) -> None:
        """UsageError for what one rank can only do if it has all parameters."""
        if engine.layout.is_model_split and self.cadence.sample_every:
            advice = "leave out --sample-every, and write with the checkpoints: blu-compile RUN --run"
            raise UsageError("no rank has all parameters to write samples with", advice=advice)
        if engine.layout.is_split and self.flags.get("find_nonfinite"):
            advice = "go on from the last checkpoint with --nproc alone, which leaves each rank all of the parameters"
            raise UsageError("--find-nonfinite repeats a step on one rank, and none has all arrays", advice=advice)

    def _machine(self, target: str, dtype: str) -> dict[str, Any]:
        """Peak arithmetic and memory of what the run is on; on a GPU, of that."""
        if target not in GPU_NAMES:
            return {"peak": peak_flops(target, self.flags.get("threads") or default_threads())}
        from blu.runtime.cuda import device_name, memory_stats

        peak = gpu_peak_flops(device_name(), dtype)
        return {"peak": peak and peak * self.place.ranks, "memory": lambda: memory_stats().peak}

    def _take_tokenizer(self, tokenizer: Tokenizer | None) -> None:
        """Remember what made tokens of the texts; in a fresh model, its end of text begins and ends them."""
        self.tokenizer = tokenizer
        if tokenizer is not None and self.source is None:
            self.config = {**self.config, "bos_token_id": tokenizer.end_of_text, "eos_token_id": tokenizer.end_of_text}

    def _weights(self, seed: int) -> Mapping[str, Any]:
        if self.source is None:
            return random_state_dict(self.config, seed)
        return cast(gpt2_state_dict(self.source), "f32")

    def _load(self, request: ProgramRequest) -> Runnable:
        with self.compile_progress.step(f"compiling {request.name} for {request.target}"):
            return load_program(compile_request(request, default_cache(), self.compile_progress.detail))

    def _recipe(self, data: TrainingData) -> Recipe:
        """The recipe that the flags and defaults make; UsageError for what contradicts itself."""
        flags = dict(self.flags)
        values = {"length": min(self.config["n_positions"], 1024)} | _fields_of(Recipe, flags)
        if flags.get("no_shuffle"):
            values["shuffle"] = False
        values["batch_size"] = values.get("batch_size", Recipe.batch_size) * self.place.data_ranks
        sizes = _as_usage(partial(Recipe, **{key: values[key] for key in _SIZES if key in values}))
        if "total_batch_size" in flags:
            values["accumulate"] = _accumulation(flags["total_batch_size"], sizes.batch_size * sizes.length)
        if "epochs" in flags:
            sequences = sizes.batch_size * values.get("accumulate", 1)
            windows = int(data.train.windows_per_file(sizes.length).sum())
            values["steps"] = max(1, int(flags["epochs"] * windows / sequences))
        steps = values.setdefault("steps", Recipe.steps)
        values.setdefault("warmup", max(steps, 0) // 20)
        values.setdefault("decay_steps", max(steps, 1))
        rate = values.get("learning_rate", Recipe.learning_rate)
        values.setdefault("final_learning_rate", abs(rate) * flags.get("final_fraction", 0.1))
        return _as_usage(partial(Recipe, **values))

    def _data(self) -> TrainingData:
        flags = self.flags
        vocabulary = self.config["vocab_size"]
        if self.tokenizer is not None and self.tokenizer.vocab_size > vocabulary:
            message = f"the tokenizer has {self.tokenizer.vocab_size} tokens, the model a vocabulary of {vocabulary}"
            raise UsageError(message, advice=f"give --vocab-size {self.tokenizer.vocab_size}, or another tokenizer")
        return open_training_data(
            flags["data"],
            vocab_size=vocabulary,
            tokenizer=self.tokenizer,
            validation=flags.get("val_data", ()),
            split=flags.get("val_split"),
        )

    def _tokenizer(self) -> Tokenizer | None:
        if self.flags.get("tokenizer") == "bytes":
            return ByteTokenizer(min(BYTES_VOCABULARY, self.config["vocab_size"]))
        directory = self._tokenizer_directory()
        try:
            return None if directory is None else load_tokenizer(directory)
        except WeightsError as error:
            advice = "give a directory with tokenizer.json, or --tokenizer bytes"
            raise UsageError(error.message, advice=advice) from error

    def _tokenizer_directory(self) -> Path | None:
        name = self.flags.get("tokenizer")
        if name == "bytes":
            return None
        if name is not None:
            path = Path(name).expanduser()
            return path.parent if path.name == "tokenizer.json" else resolve(name)
        return self.source if self.source is not None and has_tokenizer(self.source) else None

    def _description(self, trainer: Trainer) -> str:
        parameters = trainer.engine.num_parameters
        recipe, data = trainer.recipe, trainer.data
        held_out = f", {data.validation.num_tokens:,} for validation" if data.validation is not None else ""
        return (
            f"{parameters:,} parameters, {data.train.num_tokens:,} tokens{held_out}, {recipe.steps} steps of "
            f"{recipe.tokens_per_step:,} tokens"
        )


_SIZES = ("batch_size", "length", "accumulate")


def _fields_of(cls: type, flags: Mapping[str, Any]) -> dict[str, Any]:
    return {item.name: flags[item.name] for item in fields(cls) if item.name in flags}


def _as_usage(make: Any) -> Any:
    try:
        return make()
    except ArgumentError as error:
        raise UsageError(error.message, advice=error.advice) from None


def _check_target(name: str) -> None:
    """Refuse a name that no target has, before anything is begun; whether there is a GPU is found out later."""
    if name != "cuda":
        try:
            resolve_target_name(name)
        except UnsupportedError as error:
            raise UsageError(error.message, advice=error.advice) from None


def _config(flags: Mapping[str, Any], source: Path | None) -> Mapping[str, Any]:
    changes = {key: flags[name] for name, key in SIZES.items() if name in flags}
    if source is not None:
        if changes:
            raise UsageError(
                f"the sizes of the model in {source} are what they are", advice=f"leave out {list(changes)}"
            )
        return load_config(source)
    if "model" not in flags:
        raise UsageError("which model?", advice="for example `blu train gpt2-demo-config --data FILE`")
    return training_config(flags["model"], changes)


def _accumulation(tokens: int, tokens_per_batch: int) -> int:
    if tokens < 1 or tokens % tokens_per_batch:
        below = max(1, tokens // tokens_per_batch) * tokens_per_batch
        message = f"--total-batch-size {tokens} is not a multiple of a batch's {tokens_per_batch} tokens"
        raise UsageError(message, advice=f"for example {below} or {below + tokens_per_batch}")
    return tokens // tokens_per_batch


def _directory(given: Mapping[str, Any]) -> Path:
    """The run's directory. A new run must not have one with checkpoints."""
    if "out" in given:
        directory = Path(given["out"]).expanduser()
        if has_any(directory) and not given.get("resume"):
            raise UsageError(f"{directory} has checkpoints of another run", advice="give --resume, or another --out")
        return directory
    name = re.sub(r"[^\w.-]", "_", given.get("model") or Path(given.get("init_from", "model")).name)
    if given.get("resume"):
        return _last_run(name if "model" in given or "init_from" in given else None)
    number = 1
    while (RUNS / f"{name}-{number}").exists():
        number += 1
    return RUNS / f"{name}-{number}"


def stored_target(given: Mapping[str, Any]) -> str:
    """The target of the run that `--resume` goes on with: cpu if there is none, or nothing was said of it."""
    path = _directory(given) / FLAGS_FILE
    return str(read_json(path).get("target", "cpu")) if path.is_file() else "cpu"


def _last_run(name: str | None) -> Path:
    """The run in runs/ that was last written to, of this name if there is one."""
    found = [path.parent for path in RUNS.glob(f"*/{FLAGS_FILE}")]
    if name is not None:
        found = [path for path in found if path.name.rpartition("-")[0] == name]
    if not found:
        raise UsageError(f"there is no run to resume in {RUNS}/", advice="name its directory with --out")
    return max(found, key=lambda path: path.stat().st_mtime)


def _flags_of(directory: Path, given: Mapping[str, Any], data_ranks: int) -> dict[str, Any]:
    """The flags of the run's first start, without those that flags given now stand for.

    Of a micro-batch, each of the ranks has as many sequences as make those that it had. UsageError where none do.
    """
    saved = read_json(directory / FLAGS_FILE)
    sequences = saved.pop(SEQUENCES, None)
    if type(sequences) is int and "batch_size" not in given:
        if sequences % data_ranks:
            message = f"the run's batch of {sequences} sequences cannot be shared out among {data_ranks} ranks"
            advice = f"give --batch-size, the sequences of each of them, for another batch than {sequences}"
            raise UsageError(message, advice=advice)
        saved["batch_size"] = sequences // data_ranks
    for group in (("steps", "epochs"), ("total_batch_size", "accumulate"), ("final_learning_rate", "final_fraction")):
        if any(name in given for name in group):
            for name in group:
                saved.pop(name, None)
    return saved


def _write_flags(directory: Path, flags: Mapping[str, Any]) -> None:
    kept = {name: value for name, value in flags.items() if name not in OF_ONE_START}
    try:
        with replacing(directory / FLAGS_FILE) as temporary:
            temporary.write_text(json.dumps(kept, indent=2) + "\n")
    except OSError as error:
        raise WeightsError(f"{directory}: cannot be written: {error.strerror or error}") from error
