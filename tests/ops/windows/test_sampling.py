"""`blu.grid_sample` and the rearrangement of pixels beside torch's: values and gradients, in one program each."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

import blu

BEYOND = ("zeros", "border", "reflection")
RNG = np.random.default_rng(0)
IMAGE, GRID = RNG.normal(size=(2, 3, 5, 6)), RNG.uniform(-1.6, 1.6, (2, 4, 3, 2))
VOLUME, PLACES = RNG.normal(size=(1, 2, 3, 4, 5)), RNG.uniform(-1.3, 1.3, (1, 2, 3, 2, 3))


def compare(found: Any, slopes: Any, wanted: torch.Tensor, given: list[torch.Tensor], what: str) -> None:
    torch.sin(wanted).sum().backward()
    np.testing.assert_allclose(np.asarray(found), wanted.detach(), rtol=1e-10, atol=1e-13, err_msg=what)
    for slope, tensor in zip(slopes, given, strict=True):
        assert tensor.grad is not None
        np.testing.assert_allclose(np.asarray(slope), tensor.grad, rtol=1e-9, atol=1e-12, err_msg=what)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize(("x", "grid"), [(IMAGE, GRID), (VOLUME, PLACES), (IMAGE[:, :, :1], GRID[:, :0])])
def test_samples_and_gradients_are_torchs(x: np.ndarray, grid: np.ndarray, mode: str) -> None:
    options = list(product(BEYOND, (False, True)))

    @blu.jit
    def run(x: Any, grid: Any) -> Any:
        found = []
        for own in options:

            def sample(x: Any, grid: Any, own: Any = own) -> Any:
                return blu.grid_sample(x, grid, mode, *own)

            found.append((sample(x, grid), blu.grad(lambda *at: blu.sum(blu.sin(sample(*at))), (0, 1))(x, grid)))
        return found

    for own, (found, slopes) in zip(options, run(x, grid), strict=True):
        given = [torch.tensor(value, requires_grad=True) for value in (x, grid)]
        wanted = torch.nn.functional.grid_sample(*given, mode, *own)
        compare(found, slopes, wanted, given, str(own))


@pytest.mark.parametrize(("name", "shape"), [("pixel_shuffle", (2, 8, 3, 4)), ("pixel_unshuffle", (2, 4, 6))])
def test_pixels_are_rearranged_as_in_torch(name: str, shape: tuple[int, ...]) -> None:
    x = RNG.normal(size=shape)
    function = getattr(blu, name)
    found, slope = blu.jit(lambda x: (function(x, 2), blu.grad(lambda x: blu.sum(blu.sin(function(x, 2))))(x)))(x)
    given = torch.tensor(x, requires_grad=True)
    compare(found, [slope], getattr(torch.nn.functional, name)(given, 2), [given], name)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: blu.grid_sample(IMAGE, GRID[..., :1]), r"grid \[N, \*places, 2\]"),
        (lambda: blu.grid_sample(IMAGE, GRID[:1]), "grid_sample: x must be"),
        (lambda: blu.grid_sample(IMAGE, GRID, "bicubic"), "mode must be bilinear or nearest"),
        (lambda: blu.grid_sample(IMAGE, GRID, padding_mode="wrap"), "padding_mode one of zeros, border, reflection"),
        (lambda: blu.grid_sample(IMAGE[:, :, :0], GRID), "has no pixels"),
        (lambda: blu.pixel_shuffle(IMAGE, 2), "pixel_shuffle: x must be"),
        (lambda: blu.pixel_unshuffle(IMAGE, 2), "pixel_unshuffle: x must be"),
    ],
)
def test_errors(call: Any, message: str) -> None:
    with pytest.raises(blu.BluError, match=message):
        call()
