"""The command line on a GPU: `blu-compile --run` against the CPU target, and `blu train` with kills and resumes.

    python bench/train_cli_gpu.py [--folder DIR] [--save FILE]

* gpt2-demo, and gpt2 with random weights, in f32: greedy tokens on the GPU are those on the CPU,
* `blu train` of the demo model's size in f32, bf16 and tf32: the loss falls, two runs write the same bytes, and a run
  that was killed (SIGKILL) and resumed writes them as well; also with BLU_NVTX=1, and without graphs,
* a few steps of gpt2 at 8 x 1024 tokens in bf16: speed, share of the peak, memory,
* what the host takes to start a step, and the GPU's memory before, with, and after programs in one process.

Blu must be importable in other processes (installed, or by PYTHONPATH).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

import checkout  # noqa: F401
import numpy as np

from bench.gpu.report import digest

DEMO = ["gpt2-demo-config", "--tokenizer", "bytes", "--batch-size", "8", "--length", "128", "--steps", "60",
        "--learning-rate", "2e-3", "--checkpoint-every", "20", "--validate-every", "30", "--sample-every", "30",
        "--sample-tokens", "16", "--log-every", "20"]  # fmt: skip
GPT2 = ["gpt2", "--tokenizer", "bytes", "--dtype", "bf16", "--batch-size", "8", "--length", "1024", "--steps", "24",
        "--validate-every", "0", "--log-every", "12", "--checkpoint-every", "0"]  # fmt: skip
VARIANTS: dict[str, dict[str, str]] = {
    "first": {}, "second": {}, "nvtx": {"BLU_NVTX": "1"}, "no graphs": {"BLU_CUDA_GRAPH": "0"}
}  # fmt: skip
STEPS = 60
SECONDS = 400


def command(module: str, *words: str) -> list[str]:
    """A command of Blu's as a process's words."""
    return [sys.executable, "-m", f"blu.compiler.cli.{module}", *words]


def finish(words: list[str], **environment: str) -> tuple[dict[str, Any], str]:
    """Run a command with --json: its summary, and everything it has written beside."""
    start = time.perf_counter()
    done = subprocess.run(
        [*words, "--json"], env={**os.environ, **environment}, capture_output=True, text=True, timeout=SECONDS
    )
    text = done.stderr
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} exited with {done.returncode}\n{text[-3000:]}\n{done.stdout[-500:]}")
    return {**json.loads(done.stdout.splitlines()[-1]), "seconds": time.perf_counter() - start}, text


def same_tokens(model: str, *options: str) -> dict[str, Any]:
    """Greedy tokens for a model on both targets."""
    words = [model, *options, "--run", "--max-tokens", "48", "--ignore-eos"]
    found = {target: finish(command("compile", *words, f"--target={target}"))[0] for target in ("cuda", "cpu")}
    return {
        "command": f"blu-compile {' '.join(words)} --target=cuda|cpu",
        "same": found["cuda"]["tokens"] == found["cpu"]["tokens"],
        "tokens": found["cuda"]["tokens"][:8],
        "tokens per second": {target: item["tokens_per_second"] for target, item in found.items()},
        "seconds": {target: item["seconds"] for target, item in found.items()},
    }


def write_text(path: Path) -> None:
    """A text that has something to learn in it."""
    words = np.random.default_rng(0).choice(
        ["the", "cat", "sat", "on", "a", "mat", "and", "ran", "away", "home"], 40000
    )
    path.write_text(" ".join(words))


def kill_and_resume(words: list[str], directory: Path, after: int) -> dict[str, Any]:
    """Kill a run once it has done so many steps, and let it go on."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + SECONDS
        while process.poll() is None and _steps_done(directory) < after and time.monotonic() < end:
            time.sleep(0.002)
        killed = process.poll() is None
        process.send_signal(signal.SIGKILL)
    at = _steps_done(directory)
    summary, text = finish(command("main", "train", "--resume", "--out", str(directory)))
    resumed = re.search(r"goes on after step (\d+)", text)
    return {"killed": killed, "killed after": at, "resumed after": int(resumed[1]) if resumed else None,
            "step": summary["step"]}  # fmt: skip


def _steps_done(directory: Path) -> int:
    path = directory / "metrics.jsonl"
    return path.read_text().count('"event": "step"') if path.is_file() else 0


def train_demo(folder: Path, dtype: str) -> dict[str, Any]:
    """Runs of the demo model's size that must all end with the same bytes."""
    text = folder / "text.txt"
    write_text(text)
    flags = [*DEMO, "--target=cuda", f"--dtype={dtype}", "--data"]
    words = command("main", "train", *flags, str(text), "--out")
    report: dict[str, Any] = {"command": f"blu train {' '.join(flags)} text.txt", "seconds": {}}
    digests = {}
    for name, environment in VARIANTS.items():
        out = folder / f"{dtype} {name}"
        summary, _ = finish([*words, str(out)], **environment)
        digests[name] = digest(out / f"step-{STEPS:08}")
        report.setdefault("losses", summary["losses"][::10] + summary["losses"][-1:])
        report.setdefault("validation losses", summary["validation_losses"])
        report.setdefault("peak memory", summary["peak_memory"])
        report["seconds"][name] = summary["seconds"]
    out = folder / f"{dtype} killed"
    report["killed"] = kill_and_resume([*words, str(out)], out, 47)
    digests["killed"] = digest(out / f"step-{STEPS:08}")
    return report | {"same bytes": len(set(digests.values())) == 1, "digests": digests}


def train_gpt2(folder: Path) -> dict[str, Any]:
    """A few steps of GPT-2 124M."""
    words = [*GPT2, "--target=cuda", "--data", str(folder / "text.txt"), "--out", str(folder / "gpt2")]
    summary, text = finish(command("main", "train", *words))
    lines = (folder / "gpt2" / "metrics.jsonl").read_text().splitlines()
    steps = [line for line in map(json.loads, lines) if line["event"] == "step"][4:]
    return {
        "command": f"blu train {' '.join([*GPT2, '--target=cuda', '--data', 'text.txt'])}",
        "losses": [summary["losses"][0], summary["losses"][-1]],
        "tokens per second": statistics.median(step["tokens_per_second"] for step in steps),
        "milliseconds": 1e3 * statistics.median(step["seconds"] for step in steps),
        "MFU": statistics.median(step["utilization"] for step in steps),
        "peak memory": summary["peak_memory"],
        "shown": [line for line in text.splitlines() if "| loss" in line][-1:],
        "seconds": summary["seconds"],
    }


def in_one_process() -> dict[str, Any]:
    """The host's time for a step, and the GPU's memory around it."""
    from blu.compiler.training.engine import Engine
    from blu.compiler.training.presets import training_config
    from blu.compiler.training.recipe import Recipe
    from blu.frontend.io.gpt2 import random_state_dict
    from blu.runtime.cuda import memory_stats, synchronize
    from blu.runtime.cuda.driver import driver

    before = memory_stats()
    config = training_config("gpt2")
    engine = Engine.of(config, Recipe(batch_size=8, length=1024, dtype="bf16"), target="cuda")
    engine.set_parameters(random_state_dict(config, 0))
    tokens = np.random.default_rng(0).integers(0, 50257, (2, 8, 1024), dtype=np.int32)
    values = {"tokens": tokens[0], "targets": tokens[1], "learning_rate": np.array(1e-4, np.float32)}
    host, step = [], []
    for _ in range(20):
        start = time.perf_counter()
        loss = engine._run("step", values)[0]
        host.append(time.perf_counter() - start)
        float(loss)
        step.append(time.perf_counter() - start)
    program, during, planned = engine.program("step"), memory_stats(), engine.peak_bytes
    late = _late_error(engine, values)
    del loss
    program.close()
    engine.arrays.clear()
    engine._programs.clear()
    synchronize()
    driver.default_driver().pool.release_kept()
    after = memory_stats()
    return {
        "host milliseconds": 1e3 * statistics.median(host[4:]),
        "step milliseconds": 1e3 * statistics.median(step[4:]),
        "launches": len(program.plan.launches),
        "a token that is none": late,
        "bytes": {"planned": planned, "of Blu's arrays and programs": during.peak, "after": after.used},
        "bytes of the GPU": {"before": before.total - before.free, "during": during.total - during.free,
                             "after": after.total - after.free},
    }  # fmt: skip


def _late_error(engine: Any, values: dict[str, np.ndarray]) -> str:
    """What is raised for a token beyond the vocabulary, and when."""
    from blu.errors import OutOfRangeError

    loss = engine._run("step", values | {"tokens": values["tokens"] + 60000})[0]
    try:
        float(loss)
    except OutOfRangeError as error:
        return f"when the loss was read: {error}"
    return "nothing was raised"


def describe() -> dict[str, str]:
    """The machine, versions and date."""
    from blu.runtime.cuda import device_name

    return {"gpu": device_name(), "python": platform.python_version(), "numpy": np.__version__,
            "date": datetime.date.today().isoformat()}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--save", metavar="FILE")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {"command": "python bench/train_cli_gpu.py"}
    parts = {
        "gpt2-demo": lambda: same_tokens("gpt2-demo", "--prompt", "def add(a, b):"),
        "gpt2": lambda: same_tokens("gpt2", "--weights", "random:0", "--prompt-tokens", "464,3797,3332"),
        "train demo": lambda: train_demo(folder, "f32"),
        "train demo, bf16": lambda: train_demo(folder, "bf16"),
        "train demo, tf32": lambda: train_demo(folder, "tf32"),
        "train gpt2": lambda: train_gpt2(folder),
        "one process": in_one_process,
        "machine": describe,
    }
    failed = False
    for name, part in parts.items():
        try:
            report[name] = part()
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            report[name], failed = {"error": str(error)}, True
        print(name, json.dumps(report[name]), flush=True)
    if arguments.save:
        Path(arguments.save).write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
