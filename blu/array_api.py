"""`import blu.array_api`: the array-API standard's namespace, which is `blu.frontend.array_api`."""

from __future__ import annotations

import sys

import blu.compiler.jit  # noqa: F401 (calls on arrays need it)
from blu.frontend import array_api

sys.modules[__name__] = array_api
