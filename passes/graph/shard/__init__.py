"""From a program over whole tensors to that of one rank: a rule for each op, in the files of this folder."""

# Importing a file registers its rules.
from blu.passes.graph.shard import arrangement, elementwise, layers, lookups, reductions  # noqa: F401
from blu.passes.graph.shard.rules import RULES, shards
from blu.passes.graph.shard.shard import Shard

__all__ = ["RULES", "Shard", "shards"]
