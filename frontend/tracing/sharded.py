"""Functions of whole tensors that are called with the parts that a rank has."""

from __future__ import annotations

from collections.abc import Mapping

from blu.dialects.core.dtypes import TensorType, product
from blu.dialects.sharding import Sharding, first_of
from blu.frontend.tracing.trace import Signature
from blu.plan.mesh import Mesh


def whole_signature(signature: Signature, mesh: Mesh, shardings: Mapping[str, str]) -> Signature:
    """The signature of the whole tensors of which a rank's parts have this one."""
    leaves = tuple(
        _whole(leaf, first_of(shardings, name), mesh) if isinstance(leaf, TensorType) else leaf
        for leaf, name in zip(signature.leaves, signature.tree.names, strict=True)
    )
    return Signature(signature.tree, leaves)


def _whole(type_: TensorType, text: str | None, mesh: Mesh) -> TensorType:
    dims = Sharding.parse(text).dims if text else ()
    if len(dims) != type_.ndim:
        return type_  # which is told when shardings are read
    ranks = [product(mesh.ranks(split.axis) for split in splits) for splits in dims]
    return type_.with_shape(tuple(size * count for size, count in zip(type_.shape, ranks, strict=True)))
