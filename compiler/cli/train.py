"""`blu train`: train a GPT-2 on token shards or text. A run whose programs are in the cache needs no MLIR."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from blu.compiler.cli.messages import UsageError, print_error
from blu.errors import BluError

SIGNAL_CODES = {"SIGINT": 130, "SIGTERM": 143}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    from blu.compiler.cli.train_arguments import read_arguments

    try:
        return _train(*read_arguments(sys.argv[1:] if argv is None else argv))
    except BluError as error:
        print_error(error, "blu train")
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        sys.stderr.write("blu train: interrupted\n")
        return 130


def _train(given: dict, notes: list[str]) -> int:
    from blu.compiler.cli.train_run import Run
    from blu.compiler.cli.training_display import make_display
    from blu.compiler.train.events import Note
    from blu.compiler.train.metrics import MetricsLog, check_plotting, plot_losses
    from blu.frontend.io.safetensors import save_file

    if given.get("plot"):
        check_plotting()
    run = Run.of(given)
    stream = sys.stderr if given.get("json") else sys.stdout
    with make_display(stream, run.cadence.log_every) as display:
        for text in notes:
            display(Note(text))
        trainer = run.prepare(display)
        if "dump_grads" in given:
            gradients = trainer.first_gradients()
            save_file(Path(given["dump_grads"]), {run.full_name(name): array for name, array in gradients.items()})
        with MetricsLog(run.directory, trainer.step) as metrics:
            trainer.observers = (display, metrics)
            result = trainer.run()
        display(Note(run.last_words(result)))
        if given.get("plot"):
            display(Note(f"losses: {plot_losses(run.directory)}"))
    if given.get("json"):
        print(json.dumps(_summary(result, str(run.directory))))
    return SIGNAL_CODES.get(result.ended_by, 0)


def _summary(result, directory: str) -> dict:
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
