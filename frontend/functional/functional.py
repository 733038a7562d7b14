"""The functions on tensors, named as in NumPy: what `blu.exp`, `blu.sum` and so on are.

In a traced function they emit ops. Outside of one, on arrays, each compiles itself and runs.
Each family says in its `__all__` which of its functions are public.
"""

from __future__ import annotations

import sys

from blu.dialects.ops.identity import *
from blu.dialects.tensor.arithmetic import *
from blu.dialects.tensor.arrangement import *
from blu.dialects.tensor.folding import *
from blu.dialects.tensor.updating import *
from blu.frontend.functional.activations import *
from blu.frontend.functional.attention import *
from blu.frontend.functional.collective import *
from blu.frontend.functional.convolutions import *
from blu.frontend.functional.creation import *
from blu.frontend.functional.einsum import *
from blu.frontend.functional.indexing import *
from blu.frontend.functional.linear import *
from blu.frontend.functional.losses.losses import *
from blu.frontend.functional.losses.margins import *
from blu.frontend.functional.neural import *
from blu.frontend.functional.norms import *
from blu.frontend.functional.padding import *
from blu.frontend.functional.pointwise import *
from blu.frontend.functional.pooling import *
from blu.frontend.functional.resizing import *
from blu.frontend.functional.running import *
from blu.frontend.functional.sampling import *
from blu.frontend.functional.searching.searching import *
from blu.frontend.functional.searching.segments import *
from blu.frontend.functional.searching.selecting import *
from blu.frontend.functional.searching.statistics import *
from blu.frontend.functional.special import *

FAMILIES = (
    "blu.dialects.ops.identity",
    *map("blu.dialects.tensor.{}".format, ("arithmetic", "arrangement", "folding", "updating")),
    *map("blu.frontend.functional.{}".format, ("activations", "attention", "collective")),
    *map("blu.frontend.functional.{}".format, ("creation", "einsum", "indexing")),
    *map("blu.frontend.functional.{}".format, ("convolutions", "pooling", "resizing", "sampling")),
    *map("blu.frontend.functional.{}".format, ("linear", "losses.losses", "losses.margins", "neural", "norms")),
    *map("blu.frontend.functional.{}".format, ("padding", "pointwise", "running", "special")),
    *map("blu.frontend.functional.searching.{}".format, ("searching", "segments", "selecting", "statistics")),
)
# The module of each public function.
HOMES: dict[str, str] = {name: family for family in FAMILIES for name in sys.modules[family].__all__}
