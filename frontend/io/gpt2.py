"""GPT-2 as Hugging Face describes it: its configuration, the shapes of its tensors, and fresh weights."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from blu.errors import WeightsError

Config = dict[str, Any]

GELU_FORMS = {"gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "gelu": "erf"}
HEAD = "lm_head.weight"
EMBEDDING = "wte.weight"

# The values that transformers assumes for keys a config.json leaves out.
DEFAULTS: Config = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_inner": None,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "initializer_range": 0.02,
    "tie_word_embeddings": True,
    "bos_token_id": 50256,
    "eos_token_id": 50256,
}
PRESETS: dict[str, Config] = {
    "gpt2": DEFAULTS,
    "gpt2-medium": DEFAULTS | {"n_layer": 24, "n_head": 16, "n_embd": 1024},
    "gpt2-large": DEFAULTS | {"n_layer": 36, "n_head": 20, "n_embd": 1280},
    "gpt2-xl": DEFAULTS | {"n_layer": 48, "n_head": 25, "n_embd": 1600},
}

# Bounds that no model comes near; beyond them a file is damaged or hostile.
SIZE_LIMITS = {"n_layer": 1 << 12, "n_head": 1 << 12, "n_embd": 1 << 20, "vocab_size": 1 << 28, "n_positions": 1 << 28}
# Variants of the computation that Blu's GPT-2 does not have.
FIXED = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False}


def complete_config(config: Mapping[str, Any], source: str = "config") -> Config:
    """`config` with transformers' defaults for what it leaves out, checked.

    Raises one WeightsError that lists every problem; `source` names the file in it.
    """
    merged = DEFAULTS | dict(config)
    problems = list(_problems(config, merged))
    if problems:
        advice = "only models of GPT-2's architecture can be loaded"
        raise WeightsError(f"{source}: not a GPT-2 that Blu can run:\n    " + "\n    ".join(problems), advice=advice)
    return merged


def gelu_form(config: Mapping[str, Any]) -> str:
    """Which GELU the model uses: "tanh" or "erf"."""
    return GELU_FORMS[config["activation_function"]]


def inner_width(config: Mapping[str, Any]) -> int:
    """The width of the MLP's hidden layer."""
    return config.get("n_inner") or 4 * config["n_embd"]


def expected_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter by its name without `transformer.`; linear weights are [inputs, outputs]."""
    width = config["n_embd"]
    shapes = {EMBEDDING: (config["vocab_size"], width), "wpe.weight": (config["n_positions"], width)}
    for layer in range(config["n_layer"]):
        shapes |= {f"h.{layer}.{name}": shape for name, shape in _block_shapes(width, inner_width(config)).items()}
    shapes |= {"ln_f.weight": (width,), "ln_f.bias": (width,)}
    if not config.get("tie_word_embeddings", True):
        shapes[HEAD] = (config["vocab_size"], width)
    return shapes


# How ranks that share each layer (tensor parallel, axis tp) split its parameters: what leads into a layer by columns,
# what leads out by rows, so that activations are added up once behind each of its halves; heads and words with them.
SHARDINGS = {
    EMBEDDING: "tp, *",
    HEAD: "tp, *",
    "h.*.attn.c_attn.weight": "*, tp/3",
    "h.*.attn.c_attn.bias": "tp/3",
    "h.*.attn.c_proj.weight": "tp, *",
    "h.*.mlp.c_fc.weight": "*, tp",
    "h.*.mlp.c_fc.bias": "tp",
    "h.*.mlp.c_proj.weight": "tp, *",
}


def random_state_dict(config: Mapping[str, Any], seed: int) -> dict[str, np.ndarray]:
    """Fresh float32 weights as GPT-2 initialises them; the same for the same `seed` (0 <= seed < 2**128).

    Weights are normal with `initializer_range` (0.02), projections into the residual stream scaled by 1 / sqrt(2
    n_layer); biases are zero, layer norms one and zero. WeightsError for another seed, or a configuration that is no
    GPT-2's.
    """
    if not 0 <= seed < 1 << 128:
        raise WeightsError(f"random weights: the seed {seed} is not in [0, 2**128)")
    config = complete_config(config)
    shapes = expected_shapes(config)
    # Every tensor has a generator of its own, so that neither threads nor the order of tensors change the values.
    with ThreadPoolExecutor() as pool:
        arrays = pool.map(lambda item: _random_tensor(config, seed, *item), shapes.items())
        return dict(zip(shapes, arrays, strict=True))


def _problems(given: Mapping[str, Any], config: Config) -> Iterator[str]:
    if given.get("model_type") != "gpt2":
        yield f"model_type is {given.get('model_type')!r}, expected 'gpt2'"
    for name, limit in SIZE_LIMITS.items():
        if not _is_size(config[name], limit):
            yield f"{name} is {config[name]!r}, expected an integer from 1 to {limit}"
    if _is_size(config["n_embd"]) and _is_size(config["n_head"]) and config["n_embd"] % config["n_head"]:
        yield f"n_embd {config['n_embd']} is not a multiple of n_head {config['n_head']}"
    if config["n_inner"] is not None and not _is_size(config["n_inner"], SIZE_LIMITS["n_embd"]):
        yield f"n_inner is {config['n_inner']!r}, expected null or an integer from 1 to {SIZE_LIMITS['n_embd']}"
    yield from _variant_problems(config)


def _variant_problems(config: Config) -> Iterator[str]:
    activation = config["activation_function"]
    if not isinstance(activation, str) or activation not in GELU_FORMS:
        yield f"activation_function is {activation!r}, expected one of {', '.join(GELU_FORMS)}"
    for name in ("layer_norm_epsilon", "initializer_range"):
        if type(config[name]) not in (int, float) or not 0 < config[name] < 1:
            yield f"{name} is {config[name]!r}, expected a number between 0 and 1"
    if not isinstance(config["tie_word_embeddings"], bool):
        yield f"tie_word_embeddings is {config['tie_word_embeddings']!r}, expected true or false"
    for name, value in FIXED.items():
        if config.get(name, value) is not value:
            yield f"{name} is {config[name]!r}, which is not supported (expected {value!r})"


def _is_size(value: Any, limit: int = 1 << 62) -> bool:
    return type(value) is int and 1 <= value <= limit


def _block_shapes(width: int, inner: int) -> dict[str, tuple[int, ...]]:
    return {
        "ln_1.weight": (width,),
        "ln_1.bias": (width,),
        "attn.c_attn.weight": (width, 3 * width),
        "attn.c_attn.bias": (3 * width,),
        "attn.c_proj.weight": (width, width),
        "attn.c_proj.bias": (width,),
        "ln_2.weight": (width,),
        "ln_2.bias": (width,),
        "mlp.c_fc.weight": (width, inner),
        "mlp.c_fc.bias": (inner,),
        "mlp.c_proj.weight": (inner, width),
        "mlp.c_proj.bias": (width,),
    }


def _random_tensor(config: Config, seed: int, name: str, shape: tuple[int, ...]) -> np.ndarray:
    if len(shape) == 1:
        is_scale = name.endswith(".weight")
        return np.ones(shape, np.float32) if is_scale else np.zeros(shape, np.float32)
    deviation = config["initializer_range"]
    if name.endswith("c_proj.weight"):
        deviation /= math.sqrt(2 * config["n_layer"])
    generator = np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))
    array = generator.standard_normal(shape, np.float32)
    array *= np.float32(deviation)
    return array
