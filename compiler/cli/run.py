"""`blu run FILE.blu`: run a compiled program on arrays from .npy files. Needs neither MLIR nor the compiler.

With --nproc N it is run by N processes, and so may be a Python program (`blu run --nproc 4 program.py`).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blu.compiler.cli.messages import UsageError
from blu.compiler.cli.outcome import run_command
from blu.compiler.cli.ranks.flags import add_launch_flags, take_launch_flags
from blu.compiler.cli.ranks.python_program import python_program, run_python_program
from blu.errors import BluError, CacheError, WeightsError, suggestion
from blu.plan.tensors import TensorSpec
from blu.runtime.artifact import WEIGHTS, Artifact
from blu.runtime.host import set_threads
from blu.runtime.load import is_for_gpu, load_program
from blu.runtime.ranks.team import join_team
from blu.runtime.ranks.world import World
from blu.runtime.runnable import Runnable

MODEL = "model."
RANDOM = "random:"
_UNNAMED = ("bf16", "f8e4m3", "f8e5m2")
EXAMPLES = """examples:
  blu run f.blu                                              what it takes and gives
  blu run f.blu --input x=x.npy --input y=y.npy              results are printed in short
  blu run gpt2.blu --weights DIR --input tokens=t.npy --output-dir out/
  blu run --nproc 4 --device cuda program.py --its flags     four processes of a Python program, a GPU each

Inputs called model.* are a model's parameters: --weights brings them all, unless they are in the file
(`blu-compile --embed-weights`).

A .blu file holds native code, and running it, or loading it in Python, runs that code with all that you may do:
take such files only from people you trust. Hashes show damage, not who made a file.

exit codes: 0 done, 1 error, 2 wrong usage"""


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="blu run",
        description="Run a compiled program on arrays.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "program", metavar="FILE.blu", help="what `blu-compile --emit=artifact` has written; or FILE.py"
    )
    parser.add_argument("--input", action="append", default=[], metavar="NAME=FILE.npy", help="an array (repeatable)")
    parser.add_argument("--weights", metavar="DIR|random:SEED", help="a model's parameters")
    parser.add_argument("--output-dir", type=Path, metavar="DIR", help="save each result there as .npy")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run N times, and say how long it takes")
    parser.add_argument("--threads", type=int, metavar="N", help="run on N threads (default: all cores)")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    add_launch_flags(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if (script := python_program(words)) is not None:
        return run_command("blu run", lambda: run_python_program(words, script))
    arguments = make_parser().parse_args(words)
    return run_command("blu run", lambda: _launch(arguments, words) if "nproc" in arguments else _run_rank(arguments))


def _launch(arguments: argparse.Namespace, words: Sequence[str]) -> int:
    """Start the ranks, each of which is this command without the flags that say how many there are."""
    flags, rest = take_launch_flags(words)
    on_gpus = is_for_gpu(Artifact.open(_existing(arguments.program)))
    return flags.launch([sys.executable, "-m", "blu", "run", *rest], on_gpus)


def _run_rank(arguments: argparse.Namespace) -> int:
    world = World.of_environment()
    if world.size == 1:
        return _run(arguments)
    with join_team(world, device="cuda" if is_for_gpu(Artifact.open(_existing(arguments.program))) else "cpu"):
        return _run(arguments, is_first=world.rank == 0)


def _existing(path: str) -> str:
    if not Path(path).is_file():
        raise UsageError(f"there is no file {path}", advice="blu-compile MODEL --emit=artifact -o FILE.blu")
    return path


def _run(arguments: argparse.Namespace, is_first: bool = True) -> int:
    """Run the program; of several processes, the first says and saves the results."""
    if arguments.threads is not None:
        set_threads(arguments.threads)
    _existing(arguments.program)
    program, artifact = load_program(arguments.program), Artifact.open(arguments.program)
    if program.inputs and not arguments.input and arguments.weights is None:
        print(_signature(program, artifact))
        return 0
    pairs = list(zip(program.inputs, _values(program, arguments, artifact), strict=True))
    values = [array if spec.donated else program.keep([array])[0] for spec, array in pairs]
    seconds = []
    for _ in range(max(1, arguments.repeat)):
        # Donated arguments are overwritten: every run gets the numbers it was given.
        inputs = [array.copy() if spec.donated else array for spec, array in zip(program.inputs, values, strict=True)]
        start = time.perf_counter()
        # Results on a GPU are copied, which waits for it.
        results = [np.asarray(result) for result in program.run(inputs, overwrite=True)]
        seconds.append(time.perf_counter() - start)
    program.close()  # which raises what runs without results have found
    if not is_first:
        return 0
    names = [_result_name(spec, index) for index, spec in enumerate(program.outputs)]
    if arguments.output_dir is not None:
        _save(arguments.output_dir, dict(zip(names, results, strict=True)))
    _report(arguments, dict(zip(names, results, strict=True)), seconds)
    return 0


def _signature(program: Runnable, artifact: Artifact) -> str:
    """What a program takes and gives; a model's many parameters in one line."""
    embedded = {spec.name for spec in _embedded(program, artifact)}
    parameters = sum(spec.name.startswith(MODEL) for spec in program.inputs)
    given = [spec for spec in program.inputs if not spec.name.startswith(MODEL) and spec.name not in embedded]
    lines = [program.summary(), "takes"]
    lines += [f"  {spec.name or index}: {_type_of(spec)}" for index, spec in enumerate(given)]
    source = "in the file, or --weights" if embedded else "--weights"
    lines += [f"  {MODEL}*: {parameters} parameters ({source})"] if parameters else []
    lines += ["gives", *(f"  {_result_name(spec, i)}: {_type_of(spec)}" for i, spec in enumerate(program.outputs))]
    return "\n".join(lines)


def _type_of(spec: TensorSpec) -> str:
    donated = " (donated)" if spec.donated else ""
    return f"{spec.dtype}[{', '.join(map(str, spec.shape))}]{donated}"


def _result_name(spec: TensorSpec, index: int) -> str:
    """A result's own name, where that can be a file's."""
    return spec.name if re.fullmatch(r"[\w.-]+", spec.name) else f"result_{index}"


def _embedded(program: Runnable, artifact: Artifact, given: Collection[str] = ()) -> list[TensorSpec]:
    """The inputs whose values are in the file and not given."""
    names = set(artifact.names())
    return [spec for spec in program.inputs if f"{WEIGHTS}/{spec.name}" in names and spec.name not in given]


def _read_embedded(spec: TensorSpec, artifact: Artifact) -> np.ndarray:
    array, name = np.empty(spec.shape, spec.numpy_dtype), f"{WEIGHTS}/{spec.name}"
    if artifact.size(name) != array.nbytes:
        message = f"{artifact.where}: {name} has {artifact.size(name)} bytes, and {_type_of(spec)} {array.nbytes}"
        raise CacheError(message, advice="compile the program again")
    artifact.read_into(name, array.reshape(-1).view(np.uint8))
    return array


def _values(program: Runnable, arguments: argparse.Namespace, artifact: Artifact) -> list[np.ndarray]:
    """One array for each of the program's inputs. UsageError names those that are missing."""
    known = {spec.name: spec for spec in program.inputs}
    values = dict(_weights(program, arguments.weights)) if arguments.weights else {}
    values |= {spec.name: _read_embedded(spec, artifact) for spec in _embedded(program, artifact, values)}
    for item in arguments.input:
        name, separator, path = item.partition("=")
        if not separator:
            raise UsageError(f"--input {item} is not of the form NAME=FILE.npy")
        if name not in known:
            guess = suggestion(name, list(known)) or f"inputs: {', '.join(_without_parameters(known))}"
            raise UsageError(f"the program has no input {name!r}", advice=guess)
        values[name] = load_array(path, known[name])
    missing = [f"{name} ({_type_of(spec)})" for name, spec in known.items() if name not in values]
    if missing:
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        advice = "--weights brings the parameters" if any(name.startswith(MODEL) for name in missing) else ""
        raise UsageError(f"inputs are missing: {shown}", advice=advice or "give each with --input NAME=FILE.npy")
    return [values[name] for name in known]


def _without_parameters(names: Mapping[str, Any]) -> list[str]:
    return [name for name in names if not name.startswith(MODEL)]


def load_array(path: str, spec: TensorSpec) -> np.ndarray:
    """An array from a .npy file; of dtypes that the format does not know (bf16, fp8), the bytes decide."""
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise BluError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        raise BluError(f"{path} is no .npy file of numbers: {error}") from error
    if not isinstance(array, np.ndarray):
        raise BluError(f"{path} holds several arrays", advice="Save one array to a file with numpy.save.")
    is_unnamed = array.dtype.type is np.void and spec.dtype in _UNNAMED and array.itemsize == spec.numpy_dtype.itemsize
    return array.view(spec.numpy_dtype) if is_unnamed else array


def _weights(program: Runnable, source: str) -> Iterator[tuple[str, np.ndarray]]:
    """The parameters by input name, from a directory, or at random."""
    shapes = {spec.name.removeprefix(MODEL): spec for spec in program.inputs if spec.name.startswith(MODEL)}
    if not shapes:
        raise UsageError("the program takes no parameters of a model, so --weights has no meaning")
    state = _random(shapes, source) if source.startswith(RANDOM) else _stored(shapes, source)
    for name, array in state.items():
        yield MODEL + name, array


def _stored(specs: Mapping[str, TensorSpec], source: str) -> Mapping[str, np.ndarray]:
    from blu.frontend.io import cast, check_state_dict, gpt2_state_dict, resolve

    state = gpt2_state_dict(resolve(source))
    check_state_dict({name: spec.shape for name, spec in specs.items()}, state, source=source)
    return cast(state, next(iter(specs.values())).dtype)


def _random(specs: Mapping[str, TensorSpec], source: str) -> Mapping[str, np.ndarray]:
    """Weights of a GPT-2 whose sizes are read off the parameters' shapes."""
    from blu.frontend.io import cast, random_state_dict

    seed = source.removeprefix(RANDOM)
    if not seed.isdecimal():
        raise UsageError(f"--weights {source}: {seed!r} is no seed", advice="for example --weights random:0")
    try:
        config = _config(specs)
    except (KeyError, ValueError) as error:
        raise WeightsError("these are no parameters of a GPT-2", advice="Give a directory with weights.") from error
    return cast(random_state_dict(config, int(seed)), specs["wte.weight"].dtype)


def _config(specs: Mapping[str, TensorSpec]) -> dict[str, Any]:
    """A configuration with these parameters (the number of heads shows in none of them)."""
    (vocabulary, width), (positions, _) = specs["wte.weight"].shape, specs["wpe.weight"].shape
    return {
        "model_type": "gpt2",
        "vocab_size": vocabulary,
        "n_positions": positions,
        "n_embd": width,
        "n_head": 1,
        "n_layer": len({name.split(".")[1] for name in specs if name.startswith("h.")}),
        "n_inner": specs["h.0.mlp.c_fc.weight"].shape[1],
        "tie_word_embeddings": "lm_head.weight" not in specs,
    }


def _save(directory: Path, results: Mapping[str, np.ndarray]) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, array in results.items():
            np.save(directory / f"{name.replace('/', '_')}.npy", array, allow_pickle=False)
    except OSError as error:
        raise BluError(f"cannot write to {directory}: {error.strerror or error}") from error


def _report(arguments: argparse.Namespace, results: Mapping[str, np.ndarray], seconds: list[float]) -> None:
    best = min(seconds)
    if not arguments.json:
        with np.printoptions(threshold=20, edgeitems=3, precision=5):
            for name, array in results.items():
                print(f"{name}: {array.dtype}{list(array.shape)}\n{array}")
    sys.stderr.write(f"blu run: {best * 1e3:.3f} ms\n")
    if arguments.json:
        shapes = {name: {"shape": list(array.shape), "dtype": str(array.dtype)} for name, array in results.items()}
        print(json.dumps({"seconds": best, "runs": len(seconds), "results": shapes}))


if __name__ == "__main__":
    sys.exit(main())
