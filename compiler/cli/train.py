"""`blu train`: train a GPT-2 on token shards or text. A run whose programs are in the cache needs no MLIR."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from blu.compiler.cli.messages import UsageError, print_error
from blu.compiler.cli.ranks.flags import LaunchFlags, take_launch_flags
from blu.errors import ArgumentError, BluError
from blu.plan.mesh import Mesh
from blu.runtime.ranks.team import join_team
from blu.runtime.ranks.world import World

if TYPE_CHECKING:
    from blu.compiler.cli.training.run import Run
    from blu.compiler.training.events import Observer
    from blu.compiler.training.place import Place
    from blu.compiler.training.trainer import TrainingResult

SIGNAL_CODES = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    from blu.compiler.cli.training.arguments import read_arguments

    try:
        flags, words = take_launch_flags(sys.argv[1:] if argv is None else argv)
        given, notes = read_arguments(words)
        if flags.count is not None:
            check = partial(_check_once, given, flags, _mesh_of(given, flags.ranks))
            return flags.launch([sys.executable, "-m", "blu", "train", *words], _is_on_gpus(given), check)
        return _train_in_team(given, notes)
    except BluError as error:
        print_error(error, "blu train")
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        sys.stderr.write("blu train: interrupted\n")
        return 130


def _check_once(given: dict[str, Any], flags: LaunchFlags, mesh: Mesh | None) -> None:
    """Raise what is wrong with a run before any of its ranks starts: each would say it.

    Other hosts leave it to the first, whose directory the run has.
    """
    from blu.compiler.cli.training.run import Run
    from blu.compiler.training.place import Place

    _check_alone(given, flags.ranks)
    if flags.node == 0:
        with warnings.catch_warnings(action="ignore"):  # the first rank gives them
            Run.of(given, Place.first_of(flags.ranks, mesh)).check()


def _check_alone(given: dict[str, Any], ranks: int) -> None:
    """UsageError for what several ranks cannot do."""
    if ranks > 1 and "dump_grads" in given:
        raise UsageError("--dump-grads is for one process", advice="leave out --nproc")


def _is_on_gpus(given: dict[str, Any]) -> bool:
    """Whether the processes need a GPU each: as the flags say, or those of the run that they go on with."""
    target = given.get("target")
    if target is None and given.get("resume"):
        from blu.compiler.cli.training.run import stored_target

        target = stored_target(given)
    return target is not None and target.startswith(("cuda", "sm_"))


def _train_in_team(given: dict[str, Any], notes: list[str]) -> int:
    """Train alone, or as one of the processes that were started together."""
    from blu.compiler.training.place import Place

    world = World.of_environment()
    mesh = _mesh_of(given, world.size)
    if world.size == 1:
        return _train(given, notes, Place())
    _check_alone(given, world.size)
    on_gpus = _is_on_gpus(given)
    with join_team(world, device="cuda" if on_gpus else "cpu") as team:
        return _train(given, notes if world.rank == 0 else [], Place.in_team(team, mesh))


def _mesh_of(given: dict[str, Any], ranks: int) -> Mesh | None:
    """What --mesh says. UsageError where it is for another number of ranks."""
    if "mesh" not in given:
        return None
    try:
        mesh = Mesh.of_text(given["mesh"])
    except ArgumentError as error:
        raise UsageError(f"--mesh {given['mesh']}: {error.message}", advice=error.advice) from None
    if mesh.size != ranks:
        advice = f"start {mesh.size} with --nproc {mesh.size}, or give axes whose sizes multiply to {ranks}"
        raise UsageError(f"--mesh {mesh} is of {mesh.size} ranks, and {ranks} run", advice=advice)
    return mesh


def _train(given: dict[str, Any], notes: list[str], place: Place) -> int:
    from blu.compiler.cli.training.display import make_display, show_nothing
    from blu.compiler.cli.training.run import Run
    from blu.compiler.training.events import Note
    from blu.compiler.training.metrics import check_plotting, plot_losses

    if given.get("plot"):
        check_plotting()
    run = Run.of(given, place)
    if not place.is_first:
        with _warnings_as_notes(show_nothing):
            return SIGNAL_CODES.get(_run(run, show_nothing).ended_by, 0)
    stream = sys.stderr if given.get("json") else sys.stdout
    with make_display(stream, run.cadence.log_every) as display, _warnings_as_notes(display):
        for text in notes:
            display(Note(text))
        result = _run(run, display)
        display(Note(run.last_words(result)))
        if given.get("plot"):
            display(Note(f"losses: {plot_losses(run.directory)}"))
    if given.get("json"):
        print(json.dumps(_summary(result, str(run.directory))))
    return SIGNAL_CODES.get(result.ended_by, 0)


def _run(run: Run, display: Observer) -> TrainingResult:
    from blu.compiler.training.metrics import MetricsLog
    from blu.frontend.io.safetensors import save_file

    trainer = run.prepare(display)
    assert trainer.checkpoints is not None
    with trainer.checkpoints:
        if "dump_grads" in run.flags:
            gradients = trainer.first_gradients()
            save_file({run.full_name(name): array for name, array in gradients.items()}, run.flags["dump_grads"])
        if not run.place.is_first:
            trainer.observers = ()
            return trainer.run()
        with MetricsLog(run.directory, trainer.step) as metrics:
            trainer.observers = (display, metrics)
            return trainer.run()


@contextlib.contextmanager
def _warnings_as_notes(display: Observer) -> Iterator[None]:
    """Show warnings as what else there is to say."""
    from blu.compiler.training.events import Note

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *rest, **options: display(Note(f"warning: {message}"))
        yield


def _summary(result: TrainingResult, directory: str) -> dict[str, Any]:
    """The line of --json. JSON has no NaN: null stands for it."""
    return {
        "step": result.step,
        "losses": [loss if math.isfinite(loss) else None for loss in result.losses],
        "validation_losses": [list(pair) for pair in result.validation_losses],
        "tokens_per_second": result.tokens_per_second,
        "peak_memory": result.peak_memory,
        "ended_by": result.ended_by,
        "skipped": result.skipped,
        "out": directory,
    }
