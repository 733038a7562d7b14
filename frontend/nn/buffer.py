"""Arrays of a module that are no parameters: running statistics, tables, masks.

    class Centred(nn.Module):
        def __init__(self, width):
            self.mean = nn.Buffer(nn.Parameter((width,), kind="constant", scale=0.0))
            self.training = True

        def forward(self, x):
            if self.training:
                self.mean = 0.9 * self.mean + 0.1 * x.mean(axis=0)
            return x - self.mean

They are in the tree, in checkpoints and in `state_dict()`; gradients have None in their place, and optimizers leave
them as they are. What `forward` assigns is seen by the caller: gradients hand it to the module that they were called
with, so that the updated model which a compiled step returns has it; where a compiled function does not return it, the
caller's module gets it after the run.
"""

from __future__ import annotations

from typing import Any

from blu.dataclass import dataclass
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, TraceError
from blu.frontend.tracing.tree import is_array
from blu.frontend.tracing.user_location import user_line

# The attribute of a module that names those of it which are buffers.
BUFFERS = "_buffers"


@dataclass(frozen=True)
class Buffer:
    """Marks the array, or the `Parameter` that stands for it, which is assigned to an attribute of a module."""

    value: Any

    def __post_init__(self) -> None:
        if not is_array(self.value):
            raise ArgumentError(f"a Buffer is an array or a Parameter, got a {type(self.value).__name__}")


def check_assignment(module: Any, name: str, value: Any) -> None:
    """Refuse what would be lost or stay behind: no array, or a tensor in a module that is no argument of its trace."""
    owner = f"{name} of {type(module).__name__}"
    if not is_array(value):
        raise ArgumentError(f"{owner} is a buffer, and cannot be {value!r}", location=user_line())
    if isinstance(value, Tensor) and not isinstance(getattr(module, name), Tensor):
        raise TraceError(
            f"{owner} would change in a compiled function that the module is no argument of",
            location=user_line(),
            advice="Pass the module as an argument, or call its eval() before.",
        )
