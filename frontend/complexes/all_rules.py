"""All rules: importing this makes public functions take complex numbers."""

import blu.frontend.complexes.arithmetic
import blu.frontend.complexes.arrangement
import blu.frontend.complexes.folding
import blu.frontend.complexes.linalg
import blu.frontend.complexes.products
import blu.frontend.complexes.transcendental  # noqa: F401
