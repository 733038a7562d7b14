"""`blu-opt`: run passes, Blu's and MLIR's, over a file of IR.

The command runs itself as a child process and outlives it, so that a pass that crashes or hangs ends in an error that
names the pass and leaves a reproducer. The parent imports no MLIR; `opt_run` is what the child does.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from blu.compiler.cli.ir_flags import add_ir_flags
from blu.compiler.cli.messages import UsageError, version_line
from blu.compiler.cli.outcome import run_command
from blu.compiler.cli.supervised import run_supervised

EXAMPLES = """examples:
  blu-opt x.mlir --pass-pipeline='lower-to-linalg,canonicalize,blu-fuse{scalars-apart=true}'
  blu-opt x.mlir --canonicalize --cse -o y.mlir            passes in this order
  blu-opt x.mlir --load-pass my_pass.py --my-pass --mlir-print-ir-after-change
  blu-opt --replay /tmp/blu-reproducer-me-1/*-blu-fuse.mlir

exit codes: 0 done, 1 malformed input or a pass failed, 2 wrong usage"""


def make_parser() -> argparse.ArgumentParser:
    """The command line. A pass is a flag too: those are left over for `opt_run` to read, in order."""
    parser = argparse.ArgumentParser(
        prog="blu-opt",
        description="Run passes over a file of IR. Every pass is a flag too: --canonicalize, --blu-check-level=to=blu.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=version_line("blu-opt"))
    parser.add_argument("input", nargs="?", default="-", metavar="FILE", help="MLIR text or bytecode (default: stdin)")
    parser.add_argument("-o", dest="output", default="-", metavar="FILE", help="where to write (default: stdout)")
    parser.add_argument("--pass-pipeline", metavar="TEXT", help="passes to run, separated by commas")
    parser.add_argument("--replay", metavar="FILE", help="run what is left in the reproducer of a failed pass")
    parser.add_argument("--verify-diagnostics", action="store_true", help="check '// expected-error {{...}}' comments")
    parser.add_argument("--split-input-file", action="store_true", help="treat parts between '// -----' as files")
    parser.add_argument("--allow-unregistered-dialect", action="store_true", help="accept ops that nobody declares")
    parser.add_argument("--emit-bytecode", action="store_true", help="write MLIR bytecode")
    add_ir_flags(parser)
    survival = parser.add_argument_group("surviving passes that crash or hang")
    survival.add_argument(
        "--isolate", action=argparse.BooleanOptionalAction, default=True, help="run in a child process (default)"
    )
    survival.add_argument(
        "--pass-timeout", type=float, default=300.0, metavar="SECONDS", help="for one pass (default 300; 0: no limit)"
    )
    parser.add_argument("--progress-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=Path, help=argparse.SUPPRESS)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    return run_command("blu-opt", lambda: _run(words))


def _run(words: list[str]) -> int:
    arguments, rest = make_parser().parse_known_args(words)
    _check_usage(arguments, rest)
    if not arguments.isolate or arguments.list_passes or arguments.print_pipeline:
        from blu.compiler.cli.opt_run import run

        return run(arguments, rest)
    return run_supervised(
        "opt",
        words,
        arguments.replay or arguments.input,
        pass_timeout=arguments.pass_timeout or None,
        reproducer_dir=arguments.reproducer_dir,
        load_pass=arguments.load_pass,
        flags=("--allow-unregistered-dialect",) if arguments.allow_unregistered_dialect else (),
    )


def _check_usage(arguments: argparse.Namespace, rest: list[str]) -> None:
    words = [word for word in rest if not word.startswith("-")]
    if words:
        raise UsageError(f"unexpected argument '{words[0]}'", advice="one input FILE; every pass is a --flag")
    ways = {"--pass-pipeline": arguments.pass_pipeline is not None, "passes as flags": bool(rest)}
    ways |= {"--replay": arguments.replay is not None, "--steps": arguments.steps is not None}
    chosen = [way for way, is_given in ways.items() if is_given]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} both say which passes to run", advice="use one of them")
    if arguments.replay and arguments.input != "-":
        raise UsageError("--replay brings its own input", advice=f"leave out '{arguments.input}'")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
