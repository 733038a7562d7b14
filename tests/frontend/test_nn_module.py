"""Tests of modules as values: their tree, names, state dicts, and how they print."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import blu
from blu import jit, nn, spec
from blu.compiler.jit import Jitted
from blu.dialects.core.dtypes import f32
from blu.errors import ArgumentError, BluError, DTypeError, ShapeError, WeightsError
from blu.frontend.tracing import tree
from blu.frontend.tracing.module_path import current_module_path


class Tower(nn.Module):
    def __init__(self, width: int = 4, depth: int = 2):
        self.layers = [nn.Linear(width, width) for _ in range(depth)]
        self.heads = {"mean": nn.LayerNorm(width), "scale": (nn.Embedding(3, width), np.ones(width, np.float32))}
        self.sizes = [width, depth]
        self.bias = None

    def forward(self, x: Any) -> Any:
        return [current_module_path.get(), *(layer(x) for layer in self.layers)]


class Probe(nn.Module):
    def forward(self, x: Any) -> str:
        return current_module_path.get()


NAMES = (
    "layers.0.weight",
    "layers.0.bias",
    "layers.1.weight",
    "layers.1.bias",
    "heads.mean.weight",
    "heads.mean.bias",
    "heads.scale.0.weight",
    "heads.scale.1",
)


def loaded(seed: int = 0) -> Tower:
    module = Tower()
    module.initialize(seed)
    return module


def test_parameters_have_dotted_names() -> None:
    assert tuple(name for name, _ in Tower().named_parameters()) == NAMES
    assert [name for name, _ in Tower().named_modules()] == [
        "",
        "layers.0",
        "layers.1",
        "heads.mean",
        "heads.scale.0",
    ]


def test_a_module_is_a_tree() -> None:
    module = loaded()
    leaves, treedef = tree.flatten({"model": module})
    assert treedef.names == tuple(f"model.{name}" for name in NAMES)
    rebuilt = treedef.unflatten([leaf * 2 for leaf in leaves])["model"]
    assert type(rebuilt) is Tower
    assert rebuilt.sizes == [4, 2]
    assert rebuilt.bias is None
    np.testing.assert_array_equal(rebuilt.layers[1].weight, module.layers[1].weight * 2)
    assert tree.flatten({"model": rebuilt})[1] == treedef


def test_constants_are_part_of_the_tree_description() -> None:
    module, other = loaded(), loaded()
    other.sizes.append(7)
    before, after = tree.flatten({"model": module})[1], tree.flatten({"model": other})[1]
    assert tree.describe_difference(before, after) == "model: sizes = [4, 2] -> [4, 2, 7]"


def test_a_state_dict_comes_back() -> None:
    module, other = loaded(1), Tower()
    other.load_state_dict(module.state_dict())
    for (name, left), (_, right) in zip(module.named_parameters(), other.named_parameters(), strict=True):
        assert left is right, name


def test_initial_numbers_depend_on_the_seed_alone() -> None:
    left, right, other = loaded(3).state_dict(), loaded(3).state_dict(), loaded(4).state_dict()
    for name in NAMES[:-1]:
        np.testing.assert_array_equal(left[name], right[name])
    assert (left["layers.0.weight"] != other["layers.0.weight"]).any()
    assert (left["layers.0.weight"] != left["layers.1.weight"]).any()
    assert np.abs(left["layers.0.weight"]).max() <= 0.5
    assert (left["heads.mean.weight"] == 1).all()
    assert (left["heads.mean.bias"] == 0).all()


def test_all_differences_of_a_state_dict_are_listed() -> None:
    state = loaded().state_dict()
    del state["heads.mean.bias"]
    state["layers.0.weight"] = np.zeros((4, 5), np.float32)
    state["extra"] = np.zeros(1, np.float32)
    module = Tower()
    with pytest.raises(WeightsError) as caught:
        module.load_state_dict(state)
    text = str(caught.value)
    assert "missing: heads.mean.bias" in text
    assert "unexpected: extra" in text
    assert "shape of layers.0.weight: (4, 5), expected (4, 4)" in text
    assert isinstance(module.layers[1].weight, nn.Parameter), "nothing was loaded"


def test_without_strict_what_fits_is_loaded_and_differences_are_returned() -> None:
    state = loaded().state_dict()
    del state["heads.mean.bias"]
    state["layers.0.weight"] = np.zeros((4, 5), np.float32)
    module = Tower()
    differences = module.load_state_dict(state, strict=False)
    assert differences.missing == ("heads.mean.bias",)
    assert [item[0] for item in differences.mismatched] == ["layers.0.weight"]
    assert isinstance(module.layers[0].weight, nn.Parameter)
    assert module.heads["scale"][1] is state["heads.scale.1"]


def test_another_dtype_is_refused() -> None:
    state = {name: array.astype(np.float16) for name, array in loaded().state_dict().items()}
    with pytest.raises(WeightsError, match=r"dtype of layers.\{0,1\}.weight: float16, expected float32"):
        Tower().load_state_dict(state)


def test_calling_a_module_sets_its_path() -> None:
    tower = Tower()
    tower.layers = [Probe(), Probe()]
    tower.heads = {"a": Probe(), "b": (Probe(),)}
    assert tower(0) == ["", "layers.0", "layers.1"]
    assert current_module_path.get() == ""
    assert tower.layers[1](0) == "layers.1"
    assert tower.heads["b"][0](0) == "heads.b.0"
    assert Probe()(0) == ""


class Scale(nn.Module):
    def __init__(self, *shape: Any):
        self.by = nn.Parameter(*shape)

    def forward(self, x: Any) -> Any:
        return x * self.by


@pytest.mark.parametrize("shape", [((3,), "f32"), ([3], np.float32), ((np.int64(3),), "float32"), ((3,),)])
def test_a_parameter_is_made_of_a_shape_and_a_dtype(shape: tuple) -> None:
    assert Scale(*shape).by == nn.Parameter((3,), f32)
    assert Scale(*shape).initialize().by.dtype == np.float32


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((3,), "a shape consists of integers, got 3"),
        (((3.5,),), "a shape consists of integers"),
        (((-1,),), "sizes must not be negative"),
        (((3,), "f31"), "'f31' is not a dtype"),
        ((np.zeros(3),), "a shape that has no numbers yet, not an array"),
        (((3,), "f32", "gauss"), "kind='gauss' is no distribution: one of normal"),
    ],
)
def test_a_parameter_of_nothing_else_is_refused_at_once(words: tuple, message: str) -> None:
    with pytest.raises(BluError, match=message):
        nn.Parameter(*words)


def test_a_module_without_numbers_names_its_parameter_and_what_to_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Jitted, "_compile", None)  # it is said before anything is compiled
    model, x = {"deep": [Scale((3,))]}, np.ones(3, np.float32)
    run = jit(lambda model, x: model["deep"][0](x))
    calls = {"model.deep.0.by": lambda: run(model, x), "by": lambda: Scale((3,))(x), "x": lambda: run({}, spec((3,)))}
    for name, call in calls.items():
        with pytest.raises(ArgumentError, match=f"{name} is a .* and has no numbers") as raised:
            call()
        assert "initialize() or load_state_dict(state)" in raised.value.advice


def test_a_module_prints_its_layers() -> None:
    text = repr(Tower())
    assert "(layers): 2 x Linear(" in text
    assert "(weight): float32[4, 4], without numbers" in text
    assert "(sizes): [4, 2]" in text
    assert "without numbers" not in repr(loaded().layers[0])


def test_a_module_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"Module has no forward\(\)"):
        nn.Module()(1)


def test_many_layers_flatten_in_linear_time() -> None:
    class Nested(nn.Module):
        def __init__(self, inner: list):
            self.inner = inner
            self.weight = np.zeros(1, np.float32)

    module = Nested([])
    for _ in range(2000):
        module = Nested([module])
    leaves, treedef = tree.flatten(module)
    assert len(leaves) == 2001
    assert tree.flatten(treedef.unflatten(leaves))[1] == treedef
    wide = Tower(depth=1000)
    assert len(list(wide.named_parameters())) == 2004


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ShapeError, match="width=10 of the attention is not a multiple of num_heads=4"):
        nn.Attention(10, 4)


class Leaky(nn.Module):
    """Constants that never change by themselves, so that their description is kept."""

    def __init__(self) -> None:
        self.weight = np.ones((2, 3), np.float32)
        self.parts = [nn.LayerNorm(3).initialize()]
        self.slope, self.bias, self.name = 1, None, "leaky"


def rebuilt(module: nn.Module) -> nn.Module:
    leaves, treedef = tree.flatten(module)
    return treedef.unflatten(leaves)


COPIES = [lambda module: module, copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module)), rebuilt]
CHANGES: dict[str, Any] = {
    "another constant": lambda module: setattr(module, "slope", 2),
    "an equal constant of another type": lambda module: setattr(module, "slope", True),
    "a constant that becomes an array": lambda module: setattr(module, "bias", np.zeros(3, np.float32)),
    "an array that becomes a constant": lambda module: setattr(module, "weight", 3),
    "one attribute for another": lambda module: (delattr(module, "bias"), setattr(module, "other", None)),
    "one more": lambda module: setattr(module, "other", 0),
    "one less": lambda module: delattr(module, "weight"),
    "an emptied list": lambda module: module.parts.clear(),
    "one more in a list": lambda module: module.parts.append(nn.LayerNorm(3).initialize()),
    "a change within": lambda module: setattr(module.parts[0], "epsilon", 0.25),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("copied", COPIES)
def test_what_is_remembered_of_a_module_does_not_outlive_a_change(change: str, copied: Any) -> None:
    before = tree.flatten(Leaky())[1]
    fresh, used = copied(Leaky()), copied(Leaky())
    assert tree.flatten(used)[1] == before
    vars(fresh).pop("_blu_node", None)
    CHANGES[change](fresh)
    CHANGES[change](used)
    (leaves, after), (expected_leaves, expected) = tree.flatten(used), tree.flatten(fresh)
    assert after == expected and after != before
    assert len(leaves) == len(expected_leaves) and hash(after) == hash(expected)
    assert sorted(repr(used).splitlines()) == sorted(repr(fresh).splitlines())


def test_parameters_in_another_dtype() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm(3))
    halves = module.astype("bf16")
    assert {name: str(array.dtype) for name, array in halves.named_parameters() if "num" not in name} == {
        **dict.fromkeys(("0.weight", "0.bias", "1.weight", "1.bias"), "bf16"),
        **dict.fromkeys(("1.running_mean", "1.running_var"), "f32"),
    }
    module.initialize()
    found = module.astype("f64")
    assert found.state_dict()["0.weight"].dtype == np.float64 and module.state_dict()["0.weight"].dtype == np.float32
    np.testing.assert_array_equal(found.state_dict()["0.weight"], module.state_dict()["0.weight"])
    linear, x = nn.Linear(2, 3).initialize(), np.ones((4, 2), np.float32)
    slopes = blu.jit(blu.grad(lambda linear: blu.sum(linear.astype("bf16")(x.astype(ml_dtypes.bfloat16)))))(linear)
    assert slopes.weight.dtype == np.float32 and (np.asarray(slopes.weight) == 4).all()
    with pytest.raises(DTypeError, match="cannot become i32"):
        module.astype("i32")


def test_a_state_dict_of_a_trace_is_loaded() -> None:
    """As a teacher whose weights follow a student's."""

    def moved(linear: nn.Linear) -> Any:
        other = nn.Linear(2, 3)
        other.load_state_dict({name: value * 2 for name, value in linear.state_dict().items()})
        return other

    linear = nn.Linear(2, 3).initialize(0)
    np.testing.assert_array_equal(blu.jit(moved)(linear).weight, 2 * linear.weight)
    with pytest.raises(WeightsError, match=r"dtype of bias.*: float64, expected float32"):
        blu.jit(lambda x: nn.Linear(2, 3).load_state_dict({"weight": x, "bias": x[:, 0]}))(np.ones((3, 2)))


def test_layers_that_are_put_into_a_model_get_numbers_beside_its_own() -> None:
    class Adapted(nn.Module):
        def __init__(self, inner: nn.Conv1D):
            self.inner = inner
            self.down, self.up = nn.Parameter((8, 2)), nn.Parameter((2, 24), kind="constant", scale=0.0)

        def forward(self, x: Any) -> Any:
            return self.inner(x) + x @ self.down @ self.up

    config = {"n_layer": 1, "n_head": 2, "n_embd": 8, "vocab_size": 16, "n_positions": 4}
    model, plain = nn.GPT2(config).initialize(0), nn.GPT2(config).initialize(0)
    model.h[0].attn.c_attn = Adapted(model.h[0].attn.c_attn)
    tokens = np.arange(4).reshape(1, 4)
    np.testing.assert_array_equal(model.initialize(1)(tokens), plain(tokens))
    before = nn.GPT2(config)
    before.h[0].attn.c_attn = Adapted(before.h[0].attn.c_attn)
    assert np.array_equal(before.initialize(0).wte.weight, plain.wte.weight)


def test_modules_of_ones_own_know_whether_they_train() -> None:
    class Noisy(nn.Module):
        def forward(self, x: Any) -> Any:
            return x + 1 if self.training else x

    model = nn.Sequential(Noisy(), nn.Linear(1, 1), nn.Dropout(0.0))
    assert [model[1].training, model.eval()[1].training, model.train()[1].training] == [True, False, True]
    model[1] = blu.positive
    step = blu.jit(lambda model, x: model(x))
    assert float(step(model, 1.0)) == 2
    assert float(step(model.eval(), 1.0)) == 1 == float(model(1.0))
    assert float(step(model.train(), 1.0)) == 2
