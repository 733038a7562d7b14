"""The flags by which a command is started as several processes: --nproc and its companions."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import NoReturn

from blu.compiler.cli.messages import UsageError
from blu.dataclass import dataclass
from blu.errors import RankError
from blu.runtime.ranks.launch import RankLaunch, launch

DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class LaunchFlags:
    """What the command line says about processes; no `count` where it does not ask for any."""

    count: int | None = None
    nodes: int = 1
    node: int = 0
    rendezvous: tuple[str, int] | None = None

    @property
    def ranks(self) -> int:
        """How many processes there are, of all hosts."""
        return (self.count or 1) * self.nodes

    def launch(self, command: Sequence[str], on_gpus: bool, check: Callable[[], None] = lambda: None) -> int:
        """Run the command as so many processes on this host; the exit code. UsageError for what cannot be started.

        `check` is called before, where they can be: what it raises is said once, and by no rank.
        """
        assert self.count is not None
        job = RankLaunch(command, self.count, on_gpus, self.rendezvous, self.nodes, self.node)
        try:
            job.check()
            check()
            return launch(job)
        except RankError as error:
            raise UsageError(error.message, advice=error.advice) from error


def add_launch_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags, which are absent from the result where they are not given."""
    group = parser.add_argument_group("several processes (docs/distributed.md)")
    options: list[tuple[str, str, str]] = [
        ("--nproc", "N", "run as N processes on this host: through MPI, or on GPUs each with one of its own"),
        ("--nodes", "N", "the number of hosts, on each of which N processes are started in this way (GPUs only)"),
        ("--node-rank", "K", "which of the hosts this one is, from 0"),
        ("--rendezvous", "HOST:PORT", "where all meet: an address of host 0, the same on all hosts"),
    ]
    for name, metavar, text in options:
        group.add_argument(name, metavar=metavar, help=text, default=argparse.SUPPRESS)


class _Quiet(argparse.ArgumentParser):
    """A parser that raises, and knows nothing but these flags."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def take_launch_flags(words: Sequence[str]) -> tuple[LaunchFlags, list[str]]:
    """What the words say about processes, and the other words. UsageError for what makes no sense."""
    parser = _Quiet(add_help=False, allow_abbrev=False)
    add_launch_flags(parser)
    given, rest = parser.parse_known_args(list(words))
    values = vars(given)
    if values and "nproc" not in values:
        flag = "--" + next(iter(values)).replace("_", "-")
        raise UsageError(f"{flag} without --nproc", advice="say with --nproc N how many processes each host runs")
    if not values:
        return LaunchFlags(), rest
    nodes = _number("--nodes", values.get("nodes", "1"), 1)
    node = _number("--node-rank", values.get("node_rank", "0"), 0)
    return LaunchFlags(_number("--nproc", given.nproc, 1), nodes, node, _address(values.get("rendezvous"))), rest


def _number(flag: str, text: str, least: int) -> int:
    if not re.fullmatch(r"\d{1,9}", text) or int(text) < least:
        raise UsageError(f"{flag} {text} is not a number from {least} on")
    return int(text)


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<name>[^\[\]:\s]+)):(?P<port>\d{1,5})", text)
    if match is None or not 1 <= int(match["port"]) <= 65535:
        raise UsageError(f"--rendezvous {text} is not of the form HOST:PORT")
    return match["six"] or match["name"], int(match["port"])
