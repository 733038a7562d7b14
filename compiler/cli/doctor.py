"""`blu doctor`: what is installed, what works, and what to do about what does not."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import blu.installed as installed
from blu import settings
from blu.compiler import settings_table
from blu.dataclass import dataclass
from blu.errors import BluError, SettingError

GOOD, MISSING, BROKEN = "ok", "--", "!!"
PATIENCE = 20.0
REQUIRED = ("torch-mlir", "llvmlite", "numpy", "ml_dtypes", "safetensors", "tokenizers", "huggingface_hub")
OPTIONAL = {
    "pycuda": "runs programs on NVIDIA GPUs: pip install 'blu[cuda]'",
    "mpi4py": "runs as several processes: pip install 'blu[mpi]'",
    "torch": "the reference that tests compare with: pip install 'blu[test]'",
}
SELF_TEST = """
import numpy, blu
x = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
found = numpy.asarray(blu.jit(lambda x: blu.softmax(x @ x.T, axis=-1))(x))
scores = numpy.exp(x @ x.T - (x @ x.T).max(-1, keepdims=True))
assert abs(found - scores / scores.sum(-1, keepdims=True)).max() < 1e-6, found
"""


@dataclass(frozen=True)
class Finding:
    """One line of the report: "ok", "--" (absent, and not needed) or "!!" (something to do, which `advice` says)."""

    state: str
    subject: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        advice = f"\n{'':16} -> {self.advice}" if self.advice else ""
        return f"{self.state} {self.subject:<12} {self.text}{advice}"


def examine() -> Iterator[Finding]:
    """Everything there is to say, the basics first. Nothing here raises: what fails is a finding."""
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _python,
        _settings,
        _packages,
        _processor,
        _memory,
        _threads,
        _cache,
        _compilation,
        _ptxas,
        _gpus,
        _ranks,
    )
    for check in checks:
        try:
            yield from check()
        except SettingError:
            pass  # said once, among the settings
        except Exception as error:
            yield Finding(BROKEN, check.__name__.strip("_"), f"{type(error).__name__}: {error}")


def _python() -> Iterator[Finding]:
    state = GOOD if sys.version_info >= (3, 11) else BROKEN
    yield Finding(
        state,
        "python",
        f"{platform.python_version()} on {platform.platform()}",
        "" if state == GOOD else "use 3.11 or newer",
    )
    yield Finding(GOOD, "blu", f"{installed.version_of('blu')} in {Path(__file__).resolve().parents[2]}")


def _settings() -> Iterator[Finding]:
    problems = settings.problems()
    for error in problems:
        yield Finding(BROKEN, "settings", error.message, error.advice)
    if not problems:
        given = [f"{setting.name}={setting.given}" for setting in settings.TABLE if setting.given is not None]
        yield Finding(GOOD, "settings", ", ".join(given) or "all have their defaults")


def _packages() -> Iterator[Finding]:
    for name in REQUIRED:
        version = installed.version_of(name)
        yield Finding(GOOD, name, version) if version else Finding(BROKEN, name, "not installed", f"pip install {name}")
    for name, purpose in OPTIONAL.items():
        version = installed.version_of(name)
        yield Finding(GOOD, name, version) if version else Finding(MISSING, name, f"not installed ({purpose})")


def _processor() -> Iterator[Finding]:
    from blu.compiler.target import host_target_name
    from blu.runtime.host import processor_name

    model = processor_name()
    try:
        yield Finding(GOOD, "processor", f"{model}: --target=cpu is {host_target_name()}")
    except BluError as error:
        yield Finding(BROKEN, "processor", f"{model}: {error.message}", error.advice)


def _memory() -> Iterator[Finding]:
    from blu.runtime.memory import machine_memory

    if machine_memory() < 1 << 60:
        yield Finding(GOOD, "memory", f"{machine_memory() / 1e9:.1f} GB")


def _threads() -> Iterator[Finding]:
    from blu.runtime.pool import default_threads

    yield Finding(GOOD, "threads", f"{default_threads()}")


def _cache() -> Iterator[Finding]:
    from blu.compiler.cache import default_cache

    cache = default_cache()
    if cache.directory is None:
        yield Finding(
            MISSING, "cache", "off: every program is compiled again", "set BLU_CACHE_DIR to a folder of yours"
        )
        return
    place = next(path for path in (cache.directory, *cache.directory.parents) if path.exists())
    entries = cache.entries()
    text = f"{len(entries)} programs, {sum(entry.nbytes for entry in entries) / 1e6:.1f} MB in {cache.directory}"
    if os.access(place, os.W_OK) and shutil.disk_usage(place).free > 100 << 20:
        yield Finding(GOOD, "cache", text)
    else:
        yield Finding(BROKEN, "cache", f"{text}, which is full or read-only", "set BLU_CACHE_DIR to another folder")


def _compilation() -> Iterator[Finding]:
    """Compile and run a function in a process of its own, without the cache."""
    settings.current()  # what is wrong with them is not the compiler's fault
    start = time.perf_counter()
    outcome = _output([sys.executable, "-c", SELF_TEST], settings.as_environment(cache_limit=0), 60.0)
    if outcome.returncode == 0:
        yield Finding(GOOD, "compiler", f"compiled and ran a function in {time.perf_counter() - start:.1f} s")
    else:
        last = (outcome.stderr.strip().splitlines() or ["it said nothing"])[-1]
        yield Finding(
            BROKEN, "compiler", f"a small function fails: {last}", "reinstall Blu: pip install --force-reinstall blu"
        )


def _ptxas() -> Iterator[Finding]:
    from blu.compiler.codegen.cubins import find_ptxas

    path = find_ptxas()
    if path is None:
        yield Finding(MISSING, "ptxas", "not found (compiles for NVIDIA GPUs: pip install 'blu[cuda]')")
        return
    lines = _output([path, "--version"]).stdout.strip().splitlines()
    release = next((line for line in lines if "release" in line), "version unknown")
    yield Finding(GOOD, "ptxas", f"{release.strip()} at {path}")


def _gpus() -> Iterator[Finding]:
    path = shutil.which("nvidia-smi")
    if path is None:
        yield Finding(MISSING, "gpu", "no NVIDIA driver found", "CPU programs work without it")
        return
    query = _output([path, "--query-gpu=name,driver_version,compute_cap,mig.mode.current", "--format=csv,noheader"])
    if query.returncode != 0:
        said = (query.stdout + query.stderr).strip().splitlines() or ["nvidia-smi fails"]
        yield Finding(MISSING, "gpu", said[0], "CPU programs work without it")
        return
    for line in query.stdout.strip().splitlines():
        name, driver, capability, mig = ([item.strip() for item in line.split(",")] + ["?"] * 4)[:4]
        slices = ", split into MIG instances" if mig == "Enabled" else ""
        yield Finding(GOOD, "gpu", f"{name}, driver {driver}, compute capability {capability}{slices}")
    yield _gpu_target()


def _gpu_target() -> Finding:
    """What --target=cuda means here."""
    from blu.compiler.target import gpu_target_name
    from blu.runtime.cuda.driver.driver import default_driver

    try:
        return Finding(GOOD, "gpu target", f"{gpu_target_name()}, by {type(default_driver()).__name__}")
    except BluError as error:
        return Finding(MISSING, "gpu target", error.message, error.advice)


def _ranks() -> Iterator[Finding]:
    """What running as several processes needs."""
    from blu.compiler.cli.ranks.health import parts

    for part in parts(_output):
        yield Finding(GOOD if part.there else MISSING, part.name, part.text, part.advice)


def _output(
    command: list[str], environment: dict[str, str] | None = None, patience: float = PATIENCE
) -> subprocess.CompletedProcess[str]:
    """What a command prints; a hanging one is a failed one."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=patience, env={**os.environ, **(environment or {})}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 1 if something needed is broken."""
    parser = argparse.ArgumentParser(prog="blu doctor", description=__doc__, allow_abbrev=False)
    parser.add_argument("--json", action="store_true", help="one JSON object in place of text")
    parser.add_argument("--settings", action="store_true", help="only list the variables BLU_*, with their values")
    arguments = parser.parse_args(argv)
    return _report_settings(arguments.json) if arguments.settings else _report(arguments.json)


def _report_settings(as_json: bool) -> int:
    """Print all settings; 1 if one is wrong."""
    table = list(settings_table.rows())
    is_right = not any(row.problem for row in table)
    if as_json:
        print(json.dumps({"healthy": is_right, "settings": settings_table.as_records(table)}))
    else:
        print(settings_table.as_text(table))
    return 0 if is_right else 1


def _report(as_json: bool) -> int:
    """Print all findings; 1 if something needed is broken."""
    findings = []
    for finding in examine():
        findings.append(finding)
        if not as_json:
            print(finding, flush=True)
    healthy = all(finding.state != BROKEN for finding in findings)
    if as_json:
        print(json.dumps({"healthy": healthy, "findings": [asdict(finding) for finding in findings]}))
    else:
        print("\nBlu works on this machine." if healthy else "\nSomething is to be done: see the lines with !!.")
    return 0 if healthy else 1


if __name__ == "__main__":
    sys.exit(main())
