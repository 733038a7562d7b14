"""What a launch of a kernel was compiled for: an entry of an executable's `contracts.json`."""

from __future__ import annotations

from typing import Any

from blu.dataclass import dataclass
from blu.plan.schema import Argument, TensorMap

MEMBER = "contracts.json"
DONATED = "donated"
"""The space of an argument that the program may overwrite; "input" are those that it may only read."""
NOWHERE = Argument("arena", 0, 0)
"""The buffer of a tensor map in a contract, which says what is shown of whatever buffer."""


@dataclass(frozen=True)
class Contract:
    """What one launch of a kernel was compiled for.

    `size` is (blocks,), or the grid, the threads and the bytes of shared memory; `parameters` are bytes and kind of
    memory of each pointer, those of several calls one after the other; `maps` what its tensor maps show, with the
    number of the argument that they show.
    """

    size: tuple[int, ...]
    parameters: tuple[tuple[int, str], ...]
    maps: tuple[tuple[int, TensorMap], ...]

    @classmethod
    def parse(cls, entry: Any) -> Contract:
        """Read an entry of contracts.json."""
        maps = [(item["argument"], TensorMap.parse({**item, "buffer": NOWHERE.to_json()})) for item in entry["maps"]]
        parameters = tuple((int(nbytes), str(space)) for nbytes, space in entry["parameters"])
        return cls(tuple(map(int, entry["size"])), parameters, tuple(maps))

    def to_json(self) -> dict[str, Any]:
        """What `parse` reads."""
        maps = [{"argument": number, **shown.shown()} for number, shown in self.maps]
        return {"size": list(self.size), "parameters": [list(item) for item in self.parameters], "maps": maps}
