"""The loop of a training run: data, steps, validation, samples, checkpoints. Shows nothing itself."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blu.compiler.process_memory import peak_memory_bytes
from blu.compiler.training.arithmetic_peak import flops_per_token
from blu.compiler.training.engine import MODEL, Batch, Engine
from blu.compiler.training.events import Event, Note, Observer, Sampled, Saved, StepDone, Validated
from blu.compiler.training.place import Place
from blu.compiler.training.presets import training_config
from blu.compiler.training.recipe import Cadence, Recipe
from blu.compiler.training.resume import saved_content, saved_parts, take_over
from blu.compiler.training.stop_signals import StopSignals
from blu.compiler.training.writer import Writer
from blu.dataclass import dataclass, field
from blu.errors import ArgumentError, BluError, DataError
from blu.frontend.io.checkpoints.checkpoints import Checkpoints
from blu.frontend.io.data.training_data import TrainingData, open_training_data
from blu.frontend.io.gpt2 import complete_config, random_state_dict
from blu.frontend.io.tokenizer import Tokenizer

MAX_SKIPPED = 100


class NonFiniteError(BluError, ArithmeticError):
    """The loss or the gradients of a step are NaN or infinite."""


@dataclass(frozen=True)
class TrainingResult:
    """A finished run: the loss of each of its steps (not of those before it resumed), and why it ended.

    `ended_by` is "steps", "time" or a signal's name. `peak_memory` is what the trainer's `memory` says, in bytes.
    """

    step: int
    losses: tuple[float, ...] = field(repr=False)
    validation_losses: tuple[tuple[int, float], ...] = field(repr=False)
    tokens_per_second: float
    peak_memory: int
    ended_by: str
    skipped: int = 0


@dataclass
class Trainer:
    """Trains the engine's GPT-2 of a configuration on data, as the recipe says.

        trainer = Trainer.of("gpt2-demo-config", ["texts/"], Recipe(length=256, steps=500), directory="runs/first")
        trainer.resume()                    # where there is a checkpoint
        result = trainer.run()

    The engine's parameters must have numbers; its programs fit the recipe. `peak` is the machine's arithmetic in
    operations per second, `memory` tells the most bytes used so far, `writer` writes samples, `observers` are told of
    every event. Without `checkpoints`, nothing is saved. `max_seconds` ends the run as a signal would. With
    `find_nonfinite`, the error for a step that is not finite names the op that made it so; the engine must be guarded.
    Of several ranks each has a trainer, with its `place` among them: the first saves and writes samples, and says when
    all end.
    """

    engine: Engine
    config: Mapping[str, Any]
    recipe: Recipe
    data: TrainingData
    cadence: Cadence = field(default_factory=Cadence)
    checkpoints: Checkpoints | None = None
    writer: Writer | None = None
    observers: Sequence[Observer] = ()
    peak: float | None = None
    memory: Callable[[], int] = peak_memory_bytes
    max_seconds: float = math.inf
    find_nonfinite: bool = False
    place: Place = field(default_factory=Place)
    step: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        recipe, positions = self.recipe, self.config["n_positions"]
        if recipe.length > positions:
            message = f"length {recipe.length} is more than the model's {positions} positions (n_positions)"
            raise ArgumentError(message, advice="take shorter sequences, or a model with more positions")
        shared = {"rank": self.place.data_rank, "world_size": self.place.data_ranks}
        self.batches = self.data.train.batches(
            self._own_batch, recipe.length, seed=recipe.seed, shuffle=recipe.shuffle, **shared
        )
        self.evaluation = self._evaluation()
        self._losses: list[float] = []
        self._validation_losses: list[tuple[int, float]] = []
        self._seconds: list[float] = []
        self._skipped = self._skipped_in_a_row = 0
        # The step whose checkpoint is on its way to the disk.
        self._saving: int | None = None

    @classmethod
    def of(
        cls,
        model: str | Mapping[str, Any],
        patterns: Sequence[str],
        recipe: Recipe,
        *,
        directory: str | Path | None = None,
        tokenizer: Tokenizer | None = None,
        **options: Any,
    ) -> Trainer:
        """Fresh weights for a preset or a configuration, data by patterns, checkpoints in a directory.

        `options` are the trainer's other fields. Raises WeightsError and DataError for what cannot be trained.
        """
        config = training_config(model) if isinstance(model, str) else complete_config(model)
        data = open_training_data(patterns, vocab_size=config["vocab_size"], tokenizer=tokenizer)
        engine = Engine.of(config, recipe)
        engine.set_parameters(random_state_dict(config, recipe.seed))
        trainer = cls(engine, config, recipe, data, **options)
        if directory is not None:
            trainer.checkpoints = Checkpoints(directory, keep_last=trainer.cadence.keep_last, config=config)
        return trainer

    def prepare(self) -> None:
        """Load or compile all programs that the run will need. RankError where ranks would not exchange the same."""
        entries = ("step",) if self.recipe.accumulate == 1 else ("micro", "update")
        entries += ("evaluate",) if self.evaluation else ()
        with self.place.phase("compiling"):
            self.engine.prepare(*entries)
            if self.cadence.sample_every and self.writer is not None and self.place.is_first:
                self.writer.prepare(self.cadence.sample_prompt)
        for entry in entries:
            self.place.agree_on_exchanges(entry, self.engine.program(entry))

    def resume(self) -> int | None:
        """Go on where the last checkpoint was saved; its step, None where there is none.

        Raises CheckpointError with all that does not fit the run.
        """
        found = None if self.checkpoints is None else self.checkpoints.resume()
        if found is None:
            return None
        for text in take_over(found, self.engine, self.config, self.recipe, self.batches):
            self._tell(Note(text))
        self.step = found.step
        return self.step

    def first_gradients(self) -> dict[str, Any]:
        """The gradients of the next step, f32 and not clipped, by the parameters' names; nothing moves on."""
        place = self.batches.state()
        gradients = self.engine.gradients(self._next_batches())
        self.batches.restore(place)
        return gradients

    def run(self) -> TrainingResult:
        """Train up to the recipe's last step, or until a signal; then save. Raises NonFiniteError, DataError."""
        self.prepare()
        start, ended_by = time.monotonic(), "steps"
        with StopSignals() as signals:
            while self.step < self.recipe.steps:
                self._one_step()
                self._in_between()
                ended = _ended(signals.received, time.monotonic() - start > self.max_seconds)
                if ended := self.place.agreed_end(self.step, ended):
                    ended_by = ended
                    break
            self._finish(ended_by)
        total = sum(self._seconds)
        rate = self.recipe.tokens_per_step * len(self._seconds) / total if total else 0.0
        losses, validation = tuple(self._losses), tuple(self._validation_losses)
        return TrainingResult(self.step, losses, validation, rate, self.memory(), ended_by, self._skipped)

    def validate(self) -> float:
        """The mean loss on the validation data; always on the same batches."""
        start = time.perf_counter()
        losses = [self.engine.evaluate(batch) for batch in self.evaluation]
        loss = math.fsum(losses) / len(losses)
        self._validation_losses.append((self.step, loss))
        self._tell(Validated(self.step, loss, time.perf_counter() - start))
        return loss

    def save(self, wait: bool = False, compare: bool = True) -> None:
        """Save a checkpoint: in the background, or now.

        All ranks come here after the same step, and find out whether they have the same parameters (`compare`), before
        the first of them saves its own. RankError names the first parameter that differs.
        """
        if compare:
            self.compare()
        if self.checkpoints is None:
            return
        with self.place.phase("saving a checkpoint"):
            if self.engine.layout.is_split and compare:
                self._save_parts(self.checkpoints, wait)
            elif self.place.is_first and not self.engine.layout.is_split:
                self._save(self.checkpoints, wait)

    def compare(self) -> None:
        """RankError on all ranks, with the tensor and the rank, where those that should have the same have not."""
        layout = self.engine.layout
        self.place.compare("parameters", self.engine.parameters, lambda name, rank: layout.holder(MODEL + name, rank))

    def _save_parts(self, checkpoints: Checkpoints, wait: bool) -> None:
        """All ranks save what is theirs. Where one cannot, there is no checkpoint, and training goes on."""
        self._hear_of_the_last_save()
        content = saved_parts(self.engine, self.config, self.recipe, self.batches)
        if wait:
            checkpoints.save_parts(self.step, *content, self.place)
            self._tell(Saved(self.step, checkpoints.directory))
        else:
            checkpoints.save_parts_async(self.step, *content, self.place.beside)
            self._saving = self.step

    def _save(self, checkpoints: Checkpoints, wait: bool) -> None:
        self._hear_of_the_last_save()
        content = saved_content(self.engine, self.config, self.recipe, self.batches)
        if wait:
            checkpoints.save(self.step, *content)
            self._tell(Saved(self.step, checkpoints.directory))
        else:
            checkpoints.save_async(self.step, *content)
            self._saving = self.step

    def _hear_of_the_last_save(self) -> None:
        """Wait for the save in the background, and tell what came of it. Where it failed, training goes on."""
        step, self._saving = self._saving, None
        if step is None or self.checkpoints is None:
            return
        try:
            self.checkpoints.wait()
        except BluError as error:
            self._tell(Note(str(error)))
        else:
            self._tell(Saved(step, self.checkpoints.directory))

    def _one_step(self) -> None:
        start = time.perf_counter()
        self.place.begin_step(self.step + 1)
        rate = self.recipe.rate(self.step)
        batches = self._next_batches()
        loss, norm = self.engine.step(batches, rate, meanwhile=self._look_ahead)
        seconds = time.perf_counter() - start
        self.step += 1
        try:
            skipped = self._check_finite(loss, norm)
        except NonFiniteError as error:
            if not self.find_nonfinite:
                raise
            found = self.engine.first_nonfinite(batches, rate) or "NumPy's step is finite"
            raise NonFiniteError(f"{error.message}; {found}", advice=error.advice) from None
        self._losses.append(loss)
        self._seconds.append(seconds)
        self._tell(self._report(loss, norm, rate, seconds, skipped))

    def _check_finite(self, loss: float, norm: float) -> bool:
        """Whether the step was skipped. Raises NonFiniteError where the policy is to stop."""
        overflowed = not math.isfinite(norm)
        if math.isfinite(loss) and not overflowed:
            self._skipped_in_a_row = 0
            return False
        self._skipped += 1
        self._skipped_in_a_row += 1
        # In f16, gradients that overflow are how the loss scale finds its size.
        expected = self.recipe.dtype == "f16" and math.isfinite(loss)
        if self.recipe.on_nonfinite == "stop" and not expected:
            what = f"the loss is {loss}" if not math.isfinite(loss) else f"the norm of the gradients is {norm}"
            raise NonFiniteError(f"{what} at step {self.step}", advice=self._advice())
        if self._skipped_in_a_row >= MAX_SKIPPED:
            message = f"{MAX_SKIPPED} steps in a row were not finite, the last one step {self.step}"
            raise NonFiniteError(message, advice=self._advice())
        return True

    def _advice(self) -> str:
        advice = "use a lower learning rate or a longer warmup"
        if self.recipe.on_nonfinite != "skip":
            advice += ", or skip such steps with --on-nonfinite skip"
        found = None if self.checkpoints is None else self.checkpoints.latest()
        return advice if found is None else f"{found} was saved before; go on from it with --resume: {advice}"

    def _in_between(self) -> None:
        """What is due after a step."""
        if self.checkpoints is not None and not self.checkpoints.is_saving:
            self._hear_of_the_last_save()
        if self.evaluation and _is_due(self.step, self.cadence.validate_every):
            self.validate()
        if _is_due(self.step, self.cadence.compare_every) and not _is_due(self.step, self.cadence.checkpoint_every):
            self.compare()
        if self.writer is not None and self.place.is_first and _is_due(self.step, self.cadence.sample_every):
            self._sample(self.writer)
        if _is_due(self.step, self.cadence.checkpoint_every) and self.step < self.recipe.steps:
            self.save()

    def _finish(self, ended_by: str) -> None:
        self._check_learnt()
        validated = self._validation_losses and self._validation_losses[-1][0] == self.step
        if ended_by == "steps" and self._losses and self.evaluation and not validated:
            self.validate()
        if self._losses:
            self.save(wait=True)

    def _check_learnt(self) -> None:
        """Raise NonFiniteError, and save nothing, where skipping has not helped: most steps, the last ones, were."""
        steps, last = len(self._losses), self._skipped_in_a_row
        if 2 * last <= steps or (self.recipe.dtype == "f16" and math.isfinite(self._losses[-1])):
            return
        self._hear_of_the_last_save()
        arrays = {name: np.asarray(array) for name, array in self.engine.parameters.items()}
        ruined = next((name for name, array in arrays.items() if not np.isfinite(array).all()), None)
        message = f"the last {last} of {steps} steps were not finite, up to step {self.step}"
        where = f"; the parameter {ruined} is not" if ruined else ""
        raise NonFiniteError(message + where, advice=self._advice())

    def _sample(self, writer: Writer) -> None:
        arguments = self.engine.parameters, self.cadence.sample_prompt, self.cadence.sample_tokens, self.step
        with self.place.phase("writing a sample"):
            text = writer.write(*arguments)
        self._tell(Sampled(self.step, text))

    def _next_batches(self) -> list[Batch]:
        """The micro-batches of the next step. Where the data turns out to be damaged, the run is saved as it is."""
        place = self.batches.state()
        try:
            return [next(self.batches) for _ in range(self.recipe.accumulate)]
        except DataError:
            self.batches.restore(place)
            if self._losses:
                self.save(wait=True, compare=False)  # the other ranks are elsewhere
            raise

    def _look_ahead(self) -> None:
        """Read the micro-batches of the step after this one, if there is one."""
        if self.step + 1 < self.recipe.steps:
            self.batches.prepare(self.recipe.accumulate)

    def _evaluation(self) -> list[Batch]:
        """The batches of every validation; none where the data does not fill one."""
        validation, recipe = self.data.validation, self.recipe
        if not self.cadence.validate_every or validation is None:
            return []
        if int(validation.windows_per_file(recipe.length).sum()) < recipe.batch_size:
            return []
        shared = {"rank": self.place.data_rank, "world_size": self.place.data_ranks}
        batches = validation.batches(self._own_batch, recipe.length, shuffle=False, epochs=1, **shared)
        return [batch for batch, _ in zip(batches, range(self.cadence.validate_batches), strict=False)]

    def _report(self, loss: float, norm: float, rate: float, seconds: float, skipped: bool) -> StepDone:
        recipe = self.recipe
        tokens_per_second = recipe.tokens_per_step / seconds
        recent = self._seconds[-20:]
        return StepDone(
            step=self.step,
            steps=recipe.steps,
            loss=loss,
            norm=norm,
            learning_rate=rate,
            tokens=self.step * recipe.tokens_per_step,
            seconds=seconds,
            tokens_per_second=tokens_per_second,
            utilization=self._flops_per_token * tokens_per_second / self.peak if self.peak else None,
            memory=self.memory(),
            epoch=self.batches.epoch,
            remaining_seconds=(recipe.steps - self.step) * sum(recent) / len(recent),
            skipped=skipped,
        )

    @property
    def _own_batch(self) -> int:
        """The sequences of a micro-batch that this rank has."""
        return self.recipe.batch_size // self.place.data_ranks

    @property
    def _flops_per_token(self) -> int:
        return flops_per_token(self.config, self.engine.num_parameters, self.recipe.length)

    def _tell(self, event: Event) -> None:
        for observer in self.observers:
            observer(event)


def _is_due(step: int, every: int) -> bool:
    return bool(every) and step % every == 0


def _ended(received: signal.Signals | None, out_of_time: bool) -> str:
    """Why to stop now, if at all."""
    return received.name if received is not None else "time" if out_of_time else ""
