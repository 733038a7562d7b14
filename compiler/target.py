"""Targets by name, and the one that fits this machine."""

from __future__ import annotations

from blu.errors import UnsupportedError
from blu.runtime.host import X86_LEVELS, cpu_flags, machine_name

NAMES = (*reversed(X86_LEVELS), "aarch64")
GPU_NAMES = ("sm_80", "sm_86", "sm_89", "sm_90a")


def host_target_name() -> str:
    """The best target whose code this machine runs. UnsupportedError on a processor that has none."""
    machine = machine_name()
    if machine == "aarch64":
        return "aarch64"
    for name, needed in reversed(X86_LEVELS.items()):
        if machine == "x86_64" and cpu_flags().issuperset(needed):
            return name
    raise UnsupportedError(
        f"Blu has no target for this processor ({machine or 'unknown'})",
        advice=f"It generates code for {', '.join(NAMES)}; give one with --target to compile without running.",
    )


def resolve_target_name(name: str) -> str:
    """The full name of a target: "cpu" is this machine's. UnsupportedError names what there is."""
    if name in ("cpu", "host"):
        return host_target_name()
    if name in NAMES:
        return name
    if name == "cuda":
        return gpu_target_name()
    if name in GPU_NAMES:
        return name
    known = ", ".join(("cpu", "cuda", *NAMES, *GPU_NAMES))
    raise UnsupportedError(f"there is no target {name!r}", advice=f"Targets: {known}.")


def gpu_target_name() -> str:
    """The target for the first GPU of this machine. UnsupportedError where there is none, or none that Blu knows."""
    from blu.runtime.cuda.driver.device import compute_capability

    major, minor = compute_capability()
    for name in reversed(GPU_NAMES):
        if name in (f"sm_{major}{minor}", f"sm_{major}{minor}a") or (major == 8 and name == "sm_80"):
            return name
    raise UnsupportedError(
        f"Blu has no target for a GPU of compute capability {major}.{minor}",
        advice=f"It generates code for {', '.join(GPU_NAMES)}.",
    )


def runs_here(name: str) -> bool:
    """Whether this machine executes code of a target."""
    if name in GPU_NAMES:
        return _gpu_runs(name)
    try:
        host = host_target_name()
    except UnsupportedError:
        return False
    return name in NAMES[NAMES.index(host) : len(X86_LEVELS)] if host != "aarch64" else name == "aarch64"


def _gpu_runs(name: str) -> bool:
    from blu.runtime.cuda.code import runs_code
    from blu.runtime.cuda.driver.device import compute_capability

    try:
        return runs_code(name, compute_capability())
    except UnsupportedError:
        return False
