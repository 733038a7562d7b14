"""How rules that are said once for a model lay out its parameters over any mesh."""

from __future__ import annotations

import pytest

import blu
from blu import nn
from blu.errors import ShapeError
from blu.frontend.io.gpt2 import SHARDINGS

RULES = {"up.*": "*, tp", "down.*": "tp, *"}
SHAPES = {"up.weight": (6, 8), "down.weight": (8, 6), "norm": (6,), "odd": (3, 5), "scalar": ()}


@pytest.mark.parametrize(
    ("mesh", "over", "expected"),
    [
        ("", "dp", {}),
        ("dp=2", "", {}),
        ("tp=2", "", {"up.weight": "*, tp", "down.weight": "tp, *"}),
        ("dp=2", "dp", {"up.weight": "dp, *", "down.weight": "dp, *", "norm": "dp"}),
        ("dp=2,tp=2", "dp", {"up.weight": "dp, tp", "down.weight": "tp, dp", "norm": "dp"}),
        ("dp=5", "dp", {"odd": "*, dp"}),
        ("dp=1,tp=2", "dp", {"up.weight": "*, tp", "down.weight": "tp, *"}),
    ],
)
def test_rules_and_an_axis_for_all_that_it_divides(mesh: str, over: str, expected: dict) -> None:
    assert blu.arrange(SHAPES, blu.Mesh.of_text(mesh), RULES, over=over) == expected


def test_sizes_that_rules_cannot_split_name_the_ranks_that_can() -> None:
    with pytest.raises(ShapeError, match="8 elements cannot be split over 3 ranks of tp") as caught:
        blu.arrange(SHAPES, blu.Mesh(tp=3), RULES)
    assert "1, 2, 4, 8" in str(caught.value)


def test_gpt2_is_split_by_columns_rows_heads_and_words() -> None:
    model = nn.GPT2({"n_layer": 1, "n_head": 2, "n_embd": 8, "vocab_size": 10, "n_positions": 4})
    shapes = {name: item.shape for name, item in model.named_parameters()}
    found = blu.arrange(shapes, blu.Mesh(tp=2), SHARDINGS)
    assert found["wte.weight"] == "tp, *" and found["h.0.attn.c_attn.weight"] == "*, tp/3"
    assert "h.0.attn.c_proj.bias" not in found and "h.0.ln_1.weight" not in found and "wpe.weight" not in found


def test_what_a_user_writes_is_arranged_by_rules_of_its_own() -> None:
    """A model of a user's own, its optimizer's state split over dp and its layers over tp."""

    class Net(nn.Module):
        def __init__(self) -> None:
            self.up, self.down = nn.Linear(6, 8, bias=False), nn.Linear(8, 6, bias=False)

        def forward(self, x: blu.Tensor) -> blu.Tensor:
            return blu.mean(blu.square(self.down(blu.tanh(self.up(x)))))

    def step(net: Net, momentum: Net, x: blu.Tensor) -> dict:
        loss, gradients = blu.value_and_grad(lambda net: net(x))(net)
        moved = {name: item * 0.9 + gradients.state_dict()[name] for name, item in momentum.state_dict().items()}
        return {"loss": loss, "net": {n: p - moved[n] for n, p in net.state_dict().items()}, "momentum": moved}

    mesh, net = blu.Mesh(dp=2, tp=2), Net()
    shapes = {name: item.shape for name, item in net.named_parameters()}
    rules = {"up.weight": "tp, *", "down.weight": "*, tp"}
    shard = {f"net.{name}": text for name, text in blu.arrange(shapes, mesh, rules).items()}
    shard |= {f"momentum.{name}": text for name, text in blu.arrange(shapes, mesh, rules, over="dp").items()}
    program = blu.jit(step, mesh=mesh, shard=shard | {"x": "dp, *"}).trace(net, Net(), blu.spec((4, 6)))
    plan = program.compile().program.plan
    shown = {item.name: item.shape for item in plan.inputs}
    assert shown["net.up.weight"] == (4, 6) and shown["momentum.up.weight"] == (4, 3)
    assert {item.kind for item in plan.collectives} >= {"reduce_scatter", "all_gather", "all_reduce"}
