"""The command line of `blu-compile`."""

from __future__ import annotations

import argparse
from pathlib import Path

from blu.compiler.cli.ir_flags import add_ir_flags
from blu.compiler.cli.messages import UsageError, version_line
from blu.dialects.core.autocast import POLICIES
from blu.errors import suggestion

EXAMPLES = """MODEL is one of
  gpt2-demo                                              a small model of Python code that comes with Blu
  gpt2, gpt2-medium, gpt2-large, gpt2-xl, OWNER/NAME     a model of the Hugging Face hub, or of its cache
  DIR                                                    a directory with config.json, model.safetensors and
                                                         tokenizer.json, or a training run (its latest checkpoint)
  FILE.py::FUNCTION                                      a function of yours (see below)
  FILE.mlir                                              IR that --dump-ir has written, or yours

examples:
  blu-compile gpt2 --run --prompt "The compiler said"              compile, then generate text
  blu-compile gpt2 --weights random:0 --run --prompt-tokens 1,2,3  without any file
  blu-compile gpt2 --emit=artifact -o gpt2.blu                     then `blu run gpt2.blu`
  blu-compile gpt2 --gpus 4 --target sm_90a --dump-ir ir/          what one of four ranks runs to train it
  blu-compile model.py::loss --dump-ir ir/ --compile-to=linalg     the IR after every pass
  blu-compile ir/*-blu-fuse.mlir --emit=object -o model.o          from there on

A function says what it is compiled for by annotations (or defaults) that are specs,
  def loss(x: blu.spec((8, 16), "f32"), y: blu.spec((8,), "i32")): ...
or, where arguments are modules or nested, by a function NAME_example() in the same file that returns them as a tuple.

Without --run and without anything to write, a model is made ready for --run: its weights are found, its programs
compiled into the cache.

exit codes: 0 done, 1 an error in what was compiled or run, 2 wrong usage, 130 interrupted"""

EMITS = ("artifact", "mlir", "blu", "linalg", "memref", "kernel", "llvm", "asm", "object")


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="blu-compile",
        usage="blu-compile MODEL [options]",
        description="Compile a model, and run it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=version_line("blu-compile"))
    parser.add_argument("model", nargs="?", metavar="MODEL", help="what to compile (see below)")
    _add_model_flags(parser.add_argument_group("the model"))
    _add_run_flags(parser.add_argument_group("running it"))
    _add_compile_flags(parser.add_argument_group("compiling it"))
    add_ir_flags(parser)
    parser.set_defaults(readable=True)
    parser.add_argument("--progress-fd", type=int, help=argparse.SUPPRESS)
    loudness = parser.add_mutually_exclusive_group()
    loudness.add_argument("-v", "--verbose", action="store_true", help="say what takes how long; tracebacks of errors")
    loudness.add_argument("-q", "--quiet", action="store_true", help="say nothing but results and errors")
    return parser


def check_policy(name: str | None) -> None:
    """UsageError for what --autocast does not know."""
    if name is not None and name not in POLICIES:
        guess = suggestion(name, list(POLICIES)) or f"one of {', '.join(POLICIES)}"
        raise UsageError(f"--autocast={name} is no policy", advice=guess)


def _add_model_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--weights", metavar="DIR|random:SEED", help="where weights come from, if not from MODEL")
    group.add_argument("--tokenizer", metavar="DIR|bytes", help="where the tokenizer comes from, if not from MODEL")
    group.add_argument("--batch-size", type=_at_least(1), default=1, metavar="N", help="without --run (default 1)")
    group.add_argument("--seq-len", type=_at_least(1), metavar="N", help="tokens, without --run (default 128)")
    group.add_argument("--gpus", type=_at_least(1), metavar="N", help="the same as --mesh dp=N")
    group.add_argument(
        "--mesh",
        metavar="AXES",
        help="the training step of one rank of a mesh such as dp=2,tp=2, with --batch-size sequences; needs no GPUs",
    )
    group.add_argument("--shard", metavar="WHAT", help="what ranks of dp share besides: optimizer or parameters")
    group.add_argument("--sequence-parallel", action="store_true", help="ranks of tp do norms on parts of sequences")


def _add_run_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--run", action="store_true", help="generate text")
    prompt = group.add_mutually_exclusive_group()
    prompt.add_argument("--prompt", metavar="TEXT", help="what the text begins with")
    prompt.add_argument("--prompt-tokens", type=_tokens, metavar="1,2,3", help="the same as token ids")
    group.add_argument("--max-tokens", type=_at_least(0), default=64, metavar="N", help="to generate (default 64)")
    group.add_argument(
        "--greedy", action="store_true", help="always the likeliest token (default without the next four)"
    )
    group.add_argument("--temperature", type=float, metavar="X", help="sample; above 1 is wilder, below 1 tamer")
    group.add_argument("--top-k", type=_at_least(1), metavar="N", help="sample among the N likeliest tokens")
    group.add_argument("--top-p", type=float, metavar="P", help="sample among the likeliest tokens that make up P")
    group.add_argument("--seed", type=_at_least(0), metavar="N", help="sample; the same text for the same seed")
    group.add_argument("--ignore-eos", action="store_true", help="go on after the end of the text")
    group.add_argument("--json", action="store_true", help="end with one line of JSON: tokens, text, speed, memory")
    group.add_argument("--logits", type=Path, metavar="FILE.npy", help="save the prompt's logits (float32 [T, V])")
    group.add_argument("--threads", type=_at_least(1), metavar="N", help="run on N threads (default: all cores)")


def _add_compile_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--target",
        default="cpu",
        metavar="NAME",
        help="cpu (this one; default), cuda (this GPU), x86-64-v2, -v3, -v4, aarch64, sm_80, sm_86, sm_89, sm_90a; "
        "several GPUs, with commas, for one artifact",
    )
    group.add_argument(
        "--autocast", metavar="POLICY", help=f"precision of products and attention of f32: {', '.join(POLICIES)}"
    )
    group.add_argument(
        "--schedules", metavar="FILE", help="fields of schedules by kernel, in JSON or TOML (see docs/ir.md)"
    )
    group.add_argument("--emit", metavar="WHAT", help=f"write one of {', '.join(EMITS)}")
    group.add_argument("--embed-weights", action="store_true", help="put the model's weights into the artifact")
    group.add_argument("-o", dest="output", metavar="FILE", help="where to write (text: default stdout)")
    group.add_argument(
        "--compile-from", metavar="LEVEL|FILE.mlir", help="go on from a dump; the level it is at, if it does not say so"
    )
    group.add_argument("--compile-to", metavar="LEVEL|PASS", help="stop there and write the IR")
    group.add_argument("--pass-pipeline", metavar="TEXT", help="run these passes in place of the target's")
    group.add_argument("--replay", metavar="FILE", help="run what is left in the reproducer of a failed pass")
    group.add_argument(
        "--isolate",
        action=argparse.BooleanOptionalAction,
        help="compile in a child process, whose crash is an error here (default for IR, and with --load-pass)",
    )
    group.add_argument(
        "--pass-timeout", type=float, default=300.0, metavar="SECONDS", help="for one pass in the child (0: no limit)"
    )
    group.add_argument("--no-cache", action="store_true", help="compile, whatever the cache has")


def _at_least(smallest: int):
    def read(text: str) -> int:
        if not text.strip().lstrip("+-").isdecimal() or int(text) < smallest:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least {smallest}")
        return int(text)

    return read


def _tokens(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not word.removeprefix("-").isdecimal() or abs(int(word)) >= 1 << 31:
            raise argparse.ArgumentTypeError(f"{word!r} is no token id; ids are separated by commas: 1,2,3")
    return [int(word) for word in words]
