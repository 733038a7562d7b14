"""Flags about IR and passes that `blu-opt` and `blu-compile` share, spelled as MLIR spells them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blu.compiler.driver.driver import DriverOptions
    from blu.compiler.driver.printing import PrintOptions


def add_ir_flags(parser: argparse.ArgumentParser) -> None:
    """Printing, dumping, timing, plugins and reproducers."""
    passes = parser.add_argument_group("passes")
    passes.add_argument(
        "--load-pass",
        action="append",
        default=[],
        metavar="FILE.py",
        help="load passes from a file (repeatable)",
    )
    passes.add_argument("--list-passes", action="store_true", help="list all passes with their options, and stop")
    passes.add_argument("--print-pipeline", action="store_true", help="print the pipeline as text, and stop")
    passes.add_argument(
        "--verify-each", type=_boolean, nargs="?", const=True, default=True, help="verify after each pass (default)"
    )
    passes.add_argument("--no-verify-each", dest="verify_each", action="store_false", help="do not verify")
    _add_output_flags(parser.add_argument_group("looking at the IR"))


def _add_output_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--dump-ir", type=Path, metavar="DIR", help="a file per pass that changes something, with diffs and a manifest"
    )
    group.add_argument(
        "--reproducer-dir",
        type=Path,
        metavar="DIR",
        help="where failures leave a file to --replay",
    )
    group.add_argument("--mlir-timing", action="store_true", help="print the seconds that each pass took")
    group.add_argument("--mlir-pass-statistics", action="store_true", help="print what passes have counted")
    group.add_argument(
        "--explain-fusion",
        action="store_true",
        help="print why kernels stay apart, what is written in place, and what is copied",
    )
    for when in ("before", "after"):
        group.add_argument(
            f"--mlir-print-ir-{when}", type=_names, default=(), metavar="PASS,...", help=f"print the IR {when} passes"
        )
        group.add_argument(f"--mlir-print-ir-{when}-all", action="store_true", help=f"print the IR {when} every pass")
    group.add_argument(
        "--mlir-print-ir-after-change", action="store_true", help="after a pass, print only if it changed something"
    )
    group.add_argument("--mlir-print-ir-after-failure", action="store_true", help="print what a failing pass was given")
    group.add_argument("--mlir-print-ir-tree-dir", type=Path, metavar="DIR", help="print to files in place of stderr")
    group.add_argument("--mlir-print-debuginfo", action="store_true", help="print locations")
    group.add_argument("--mlir-print-op-generic", action="store_true", help="print the generic form")
    group.add_argument("--mlir-print-local-scope", action="store_true", help="print without aliases")
    group.add_argument(
        "--readable",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="print as --dump-ir writes: values by name, arguments on lines of their own",
    )
    group.add_argument(
        "--mlir-use-nameloc-as-prefix", action="store_true", help="call values after the names in their locations"
    )
    group.add_argument(
        "--mlir-elide-elementsattrs-if-larger", type=int, metavar="N", help="do not print constants of over N elements"
    )
    group.add_argument(
        "--mlir-elide-resource-strings-if-larger",
        type=int,
        metavar="N",
        help="do not print longer resources",
    )


def _boolean(text: str) -> bool:
    values = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in values:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return values[text.lower()]


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def print_options(arguments: argparse.Namespace) -> PrintOptions:
    """What the --mlir-print-* flags ask for."""
    from blu.compiler.driver.printing import PrintOptions

    return PrintOptions(
        before=arguments.mlir_print_ir_before,
        after=arguments.mlir_print_ir_after,
        before_all=arguments.mlir_print_ir_before_all,
        after_all=arguments.mlir_print_ir_after_all,
        after_change=arguments.mlir_print_ir_after_change,
        after_failure=arguments.mlir_print_ir_after_failure,
        debuginfo=arguments.mlir_print_debuginfo,
        generic=arguments.mlir_print_op_generic,
        local_scope=arguments.mlir_print_local_scope,
        names=arguments.mlir_use_nameloc_as_prefix,
        readable=arguments.readable,
        elide_elements=arguments.mlir_elide_elementsattrs_if_larger,
        elide_resources=arguments.mlir_elide_resource_strings_if_larger,
        tree_dir=arguments.mlir_print_ir_tree_dir,
    )


def driver_options(arguments: argparse.Namespace) -> DriverOptions:
    """The driver's options as the flags of `add_ir_flags` give them."""
    from blu.compiler.driver.driver import DriverOptions

    return DriverOptions(
        verify_each=arguments.verify_each,
        dump_dir=arguments.dump_ir,
        printing=print_options(arguments),
        reproducer_dir=arguments.reproducer_dir,
    )


def load_passes(arguments: argparse.Namespace) -> None:
    """Load the files of --load-pass. UsageError says what is wrong with one."""
    from blu.compiler.cli.messages import as_usage
    from blu.errors import ParseError
    from blu.passes.framework.registry import load_pass_file

    for path in arguments.load_pass:
        try:
            load_pass_file(path)
        except ParseError as error:
            raise as_usage(error) from error.__cause__


def pass_list() -> str:
    """Text of --list-passes: our passes with level, options and first docstring line, then the names of MLIR's."""
    import textwrap

    from blu.passes.framework.options import options_of
    from blu.passes.framework.registry import all_passes
    from blu.passes.framework.upstream import UPSTREAM_PASSES

    lines = ["Blu's passes and those of plugins:"]
    for name, cls in all_passes().items():
        level = f"[{cls.level}{f' -> {cls.leads_to}' if cls.leads_to else ''}] " if cls.level else ""
        lines.append(f"  {name:<28} {level}{(cls.__doc__ or '').strip().splitlines()[0]}")
        lines += [f"  {'':<28}   {option}" for option in options_of(cls)]
    upstream = textwrap.wrap(", ".join(UPSTREAM_PASSES), 118, break_on_hyphens=False)
    return "\n".join(
        [*lines, "", "MLIR's passes (these and others; options as in MLIR):", *(f"  {x}" for x in upstream)]
    )
