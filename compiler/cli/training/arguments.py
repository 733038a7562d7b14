"""From the words of `blu train`'s command line to what they say; contradictions and slips are UsageErrors."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from blu.compiler.cli.messages import UsageError
from blu.compiler.cli.ranks.flags import add_launch_flags
from blu.compiler.cli.training.flags import ANYTHING, FLAGS, GROUPS, WITHOUT_MEANING, as_model
from blu.errors import suggestion

EXAMPLES = """examples:
  blu train gpt2-demo-config --data texts/ --steps 500                       bytes of texts
  blu train gpt2 --data 'fineweb/*.bin' --batch-size 4 --total-batch-size 65536 --dtype bf16
  blu train gpt2 --init-from DIR --data notes.txt --tokenizer DIR --steps 100
  blu train --resume --out runs/gpt2-1                                       go on, with the same flags
  blu train gpt2 --data 'fineweb/*.bin' --target cuda --nproc 4 --batch-size 64    on four GPUs, 64 sequences on each

nanoGPT's and llm.c's names of flags are accepted as well: docs/training.md has the table.
exit codes: 0 done, 1 error, 2 wrong usage, 130 and 143 stopped by Ctrl-C and SIGTERM, with a checkpoint"""

# Pairs that contradict each other.
CONTRADICTIONS = (
    ("total_batch_size", "accumulate"),
    ("final_learning_rate", "final_fraction"),
    ("steps", "epochs"),
    ("data", "dataset"),
    ("val_data", "val_split"),
)


class _Parser(argparse.ArgumentParser):
    """A parser that raises, and that reads -1e-3 as a number (as Python's own does from 3.14 on)."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self._negative_number_matcher = re.compile(r"-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|-inf", re.IGNORECASE)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, advice="`blu train --help` lists all flags")


class _WithoutMeaning(argparse.Action):
    """A flag of nanoGPT or llm.c that changes nothing here, as long as it says what is so anyway."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        allowed, reason = WITHOUT_MEANING[self.option_strings[0]]
        if allowed != ANYTHING and values not in allowed.split():
            raise UsageError(f"{option_string} {values} is not possible: {reason}")
        namespace.notes = [*getattr(namespace, "notes", ()), f"{option_string} means nothing here: {reason}"]


def make_parser() -> argparse.ArgumentParser:
    """The command line. Flags that are not given are absent from the result."""
    parser = _Parser(
        prog="blu train",
        description="Train a GPT-2.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("preset", metavar="MODEL", nargs="?", type=as_model, help="gpt2, gpt2-medium, d12, ...")
    for title, flags in GROUPS.items():
        group = parser.add_argument_group(title)
        for flag in flags:
            options: dict[str, Any] = {"dest": flag.destination, "help": flag.help}
            if flag.parse is None:
                options |= {"action": "store_true"}
            else:
                options |= {"type": flag.parse, "metavar": flag.metavar}
            if flag.is_list:
                options |= {"nargs": "+", "action": "extend"}
            group.add_argument(*flag.spellings, **options)
    add_launch_flags(parser)
    for name in WITHOUT_MEANING:
        parser.add_argument(name, action=_WithoutMeaning, help=argparse.SUPPRESS)
    return parser


def read_arguments(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """What was given, by name, and notes on what was ignored. Raises UsageError."""
    namespace, rest = make_parser().parse_known_args(list(words))
    if rest:
        known = [name for flag in FLAGS.values() for name in flag.spellings]
        guess = suggestion(rest[0].partition("=")[0], known)
        raise UsageError(f"unknown argument {rest[0]!r}", advice=guess or "`blu train --help` lists all flags")
    given = vars(namespace)
    notes = given.pop("notes", [])
    for first, second in CONTRADICTIONS:
        if first in given and second in given:
            names = (FLAGS[first].spellings[0], FLAGS[second].spellings[0])
            raise UsageError(f"{names[0]} and {names[1]} contradict each other", advice="leave one of them out")
    return _rewritten(given), notes


def _rewritten(given: dict[str, Any]) -> dict[str, Any]:
    """What other programs say in another way, in ours."""
    if "preset" in given:
        given.setdefault("model", given["preset"])
        if given.pop("preset") != given["model"]:
            raise UsageError(f"two models: MODEL and {given['model']}", advice="leave one of them out")
    if given.pop("resume_if", False):
        given["resume"] = True
    if given.pop("decay_lr", True) is False:
        given["schedule"] = "constant"
    if given.get("steps") == -1:  # llm.c's one epoch
        del given["steps"]
        given["epochs"] = 1.0
    if "dataset" in given:
        folder = Path("data") / given.pop("dataset")
        given["data"] = [str(folder / "train.bin")]
        given.setdefault("val_data", [str(folder / "val.bin")])
    return _init_from(given)


def _init_from(given: dict[str, Any]) -> dict[str, Any]:
    """nanoGPT's --init_from scratch and --init_from resume, where there is no such directory."""
    source = given.get("init_from")
    if source in ("scratch", "resume") and not Path(source).is_dir():
        del given["init_from"]
        if source == "resume":
            given["resume"] = True
    return given
