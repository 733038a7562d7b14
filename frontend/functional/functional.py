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
from blu.frontend.functional.activations import *
from blu.frontend.functional.collective import *
from blu.frontend.functional.creation import *
from blu.frontend.functional.einsum import *
from blu.frontend.functional.indexing import *
from blu.frontend.functional.linear import *
from blu.frontend.functional.losses import *
from blu.frontend.functional.neural import *

FAMILIES = (
    "blu.dialects.ops.identity",
    *(f"blu.dialects.tensor.{name}" for name in ("arithmetic", "arrangement", "folding")),
    *(f"blu.frontend.functional.{name}" for name in ("activations", "collective", "creation", "einsum", "indexing")),
    *(f"blu.frontend.functional.{name}" for name in ("linear", "losses", "neural")),
)
# The module of each public function.
HOMES: dict[str, str] = {name: family for family in FAMILIES for name in sys.modules[family].__all__}
