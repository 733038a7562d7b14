"""The groups of ranks along the axes of a mesh. A process joins them once, however many programs use them."""

from __future__ import annotations

from collections.abc import Callable

from blu.errors import RankError
from blu.plan.mesh import Mesh
from blu.runtime.ranks.group import Alone, RankGroup
from blu.runtime.ranks.world import World


class Groups(dict[str, RankGroup]):
    """Groups by axis; along one that a mesh does not have, every rank is alone."""

    def __missing__(self, axis: str) -> RankGroup:
        return Alone()


_joined: dict[tuple[str, Mesh], Groups] = {}
_worlds: dict[str, RankGroup] = {}


def axis_groups(mesh: Mesh, library: str, everyone: Callable[[World], RankGroup]) -> Groups:
    """The group of this rank along each axis of a mesh.

    `everyone` gives the group of all ranks, which is asked for once for each library. RankError where other than
    `mesh.size` processes run.
    """
    key = (library, mesh)
    if key not in _joined:
        _joined[key] = _split(mesh, library, everyone)
    return _joined[key]


def _split(mesh: Mesh, library: str, everyone: Callable[[World], RankGroup]) -> Groups:
    if mesh.size == 1:
        return Groups()
    world = World.of_environment()
    if world.size != mesh.size:
        started = f"{world.size} processes run" if world.size > 1 else "this is one process alone"
        raise RankError(
            f"the program is for {mesh.size} ranks ({mesh}), and {started}",
            advice=f"Start as many: `mpiexec -n {mesh.size} python ...`, or blu train --nproc {mesh.size}.",
        )
    if library not in _worlds:
        _worlds[library] = everyone(world)
    whole = _worlds[library]
    return Groups({name: _along(whole, mesh, name) for name, _ in mesh.axes})


def _along(whole: RankGroup, mesh: Mesh, axis: str) -> RankGroup:
    """The group along one axis; the ranks of all lines along it call this together."""
    if mesh.ranks(axis) == 1:
        return Alone()
    group = whole.split(mesh.peers(axis, whole.rank)[0], whole.rank)
    assert group is not None, "every rank is on a line along each axis"
    return group
