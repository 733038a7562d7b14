"""Other sizes, and windows as columns, beside torch's: results and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu

torch = pytest.importorskip("torch")

CASES: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("interpolate", (2, 3, 5), {"size": 7}),
    ("interpolate", (1, 2, 4, 5), {"scale_factor": 2}),
    ("interpolate", (1, 2, 7), {"scale_factor": 0.6}),
    ("interpolate", (1, 2, 5), {"size": 8, "mode": "linear"}),
    ("interpolate", (1, 2, 4, 6), {"scale_factor": (2, 0.5), "mode": "bilinear"}),
    ("interpolate", (1, 2, 3, 4), {"size": (5, 1), "mode": "bilinear", "align_corners": True}),
    ("interpolate", (1, 2, 3, 4), {"size": (5, 2), "mode": "bicubic"}),
    ("interpolate", (1, 2, 3, 4), {"size": (5, 1), "mode": "bicubic", "align_corners": True}),
    ("interpolate", (1, 2, 3, 4), {"scale_factor": 1.7, "mode": "bicubic"}),
    ("interpolate", (1, 2, 3, 4), {"size": (2, 5), "mode": "area"}),
    ("interpolate", (1, 2, 7), {"scale_factor": 0.4, "mode": "nearest-exact"}),
    ("fold", (2, 8, 20), {"output_size": (5, 6), "kernel_size": 2}),
    (
        "fold",
        (1, 6, 15),
        {"output_size": (5, 6), "kernel_size": (2, 3), "dilation": (2, 1), "padding": 1, "stride": (1, 2)},
    ),
    ("unfold", (2, 2, 5, 4), {"kernel_size": (3, 2), "stride": 2, "padding": 1}),
    ("unfold", (1, 2, 5, 4), {"kernel_size": 2, "dilation": (2, 1)}),
]


def _program(name: str, keywords: dict[str, Any]) -> Any:
    names = {"kernel_size": "window", "output_size": "size"}
    own = {names.get(key, key): value for key, value in keywords.items()}

    def apply(x: Any) -> tuple[Any, Any]:
        function = getattr(blu, name)
        return function(x, **own), blu.grad(lambda x: blu.sum(function(x, **own) ** 2))(x)

    return apply


def test_results_and_gradients_are_torchs() -> None:
    rng = np.random.default_rng(0)
    operands = [rng.standard_normal(shape) for _, shape, _ in CASES]
    programs = [_program(name, keywords) for name, _, keywords in CASES]
    found = blu.jit(lambda row: [program(x) for program, x in zip(programs, row, strict=True)])(operands)
    for (name, _, keywords), x, (y, gradient) in zip(CASES, operands, found, strict=True):
        tensor = torch.tensor(x, requires_grad=True)
        expected = getattr(torch.nn.functional, name)(tensor, **keywords)
        (expected**2).sum().backward()
        np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-12, atol=1e-12, err_msg=str(keywords))
        np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=1e-11, atol=1e-12, err_msg=str(keywords))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda x: blu.interpolate(x, 4, mode="linear"), "does not fit"),
        (lambda x: blu.interpolate(x), "a size or a scale_factor"),
        (lambda x: blu.interpolate(x, 0), "at least 1"),
        (lambda x: blu.unfold(x, 9), "reaches over"),
        (lambda x: blu.interpolate(x[0], 4, mode="bicubic"), "does not fit"),
        (lambda x: blu.fold(x[0], (5, 6), 2), r"fold: x must be \[N, C \* 4, 20\]"),
        (lambda x: blu.fold(x[0], (5, 6), 7), "fold: x must be"),
    ],
)
def test_what_does_not_fit_is_told(given: Any, message: str) -> None:
    with pytest.raises(blu.BluError, match=message):
        blu.jit(given).trace(blu.spec((2, 3, 6, 5)))
