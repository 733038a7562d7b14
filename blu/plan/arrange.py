"""How the parameters of a model, and what an optimizer keeps beside them, are laid out over the ranks of a mesh.

    rules = {"h.*.mlp.c_fc.weight": "*, tp", "h.*.mlp.c_proj.weight": "tp, *"}      of a model, in full
    arrange(shapes, Mesh(dp=2), rules)                  nothing: the mesh has no axis that the rules speak of
    arrange(shapes, Mesh(tp=2), rules)                  h.0.mlp.c_fc.weight: "*, tp", ...
    arrange(shapes, Mesh(dp=2, tp=2), rules, over="dp") h.0.mlp.c_fc.weight: "dp, tp", ..., h.0.ln_1.weight: "dp"

Said once for a model, the rules serve any mesh.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blu.plan.mesh import Mesh
from blu.plan.sharding import Sharding, Split, first_of


def arrange(
    shapes: Mapping[str, Sequence[int]], mesh: Mesh, rules: Mapping[str, str] | None = None, *, over: str = ""
) -> dict[str, str]:
    """The shardings of arrays that are split at all, by their names.

    `rules` are shardings by patterns of names, of which the first that fits counts; axes that the mesh does not have
    are passed over. With `over`, each array is split over this axis as well, along the first of its dimensions that is
    whole and can be: so memory for it shrinks with the axis. ShapeError for sizes that rules cannot split.
    """
    found = {}
    for name, shape in shapes.items():
        sharding = _of_rules(shape, mesh, first_of(rules or {}, name))
        sharding.local_shape(shape, mesh)
        if over and mesh.ranks(over) > 1:
            sharding = _split_further(sharding, shape, mesh, over)
        if sharding.axes:
            found[name] = str(sharding)
    return found


def _of_rules(shape: Sequence[int], mesh: Mesh, text: str | None) -> Sharding:
    if text is None:
        return Sharding.whole(len(shape))
    dims = Sharding.parse(text).dims
    return Sharding(tuple(tuple(split for split in splits if mesh.ranks(split.axis) > 1) for splits in dims))


def _split_further(sharding: Sharding, shape: Sequence[int], mesh: Mesh, axis: str) -> Sharding:
    for dim, (size, splits) in enumerate(zip(shape, sharding.dims, strict=True)):
        if not splits and size and size % mesh.ranks(axis) == 0:
            return sharding.with_dim(dim, (Split(axis),))
    return sharding
