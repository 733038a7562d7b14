"""`blu-compile --mesh`: the training step that one rank of a mesh runs, compiled where there is no other rank."""

from __future__ import annotations

import argparse

from blu.compiler.cli.messages import UsageError
from blu.compiler.cli.subjects.subject import Gpt2Subject, Subject
from blu.compiler.training.parallel import DATA_AXIS, RunLayout
from blu.compiler.training.programs import TrainingRequest
from blu.errors import ArgumentError
from blu.plan.mesh import Mesh


def mesh_of(arguments: argparse.Namespace) -> Mesh | None:
    """The mesh that --mesh or --gpus asks for. UsageError for what is none."""
    if arguments.mesh is not None and arguments.gpus is not None:
        raise UsageError("--mesh and --gpus contradict each other", advice="--gpus N is --mesh dp=N")
    if arguments.gpus is not None:
        return Mesh(**{DATA_AXIS: arguments.gpus})
    try:
        return None if arguments.mesh is None else Mesh.of_text(arguments.mesh)
    except ArgumentError as error:
        raise UsageError(f"--mesh {arguments.mesh}: {error.message}", advice=error.advice) from None


def check_mesh(subject: Subject, arguments: argparse.Namespace) -> None:
    """UsageError where a mesh makes no sense."""
    mesh_of(arguments)
    if arguments.run or arguments.logits is not None:
        raise UsageError("ranks of a mesh do not write text", advice="leave out --mesh and --gpus, or --run")
    if not isinstance(subject, Gpt2Subject):
        advice = "say it in Python: blu.jit(f, mesh=blu.Mesh(dp=2), shard={...})"
        raise UsageError("--mesh and --gpus are for language models", advice=advice)


def rank_request(
    subject: Gpt2Subject, arguments: argparse.Namespace, target: str, length: int
) -> TrainingRequest | None:
    """The training step of one rank, if one is asked for. UsageError where the ranks cannot share it out."""
    mesh = mesh_of(arguments)
    if mesh is None:
        return None
    layout = RunLayout(subject.config, mesh, arguments.shard or "", sequence_parallel=arguments.sequence_parallel)
    batch = arguments.batch_size * layout.data_ranks
    try:
        layout.check(batch, length)
    except ArgumentError as error:
        raise UsageError(error.message, advice=error.advice) from None
    options = {"batch": batch, "length": length, "mesh": str(mesh), "sharded": layout.sharded}
    options["sequence_parallel"] = layout.sequence_parallel
    return TrainingRequest.of("step", subject.config, target, dtype=arguments.autocast or "f32", **options)
