"""The models that can be trained by name: GPT-2's four sizes, llm.c's depths (d12, d24, ...), and a small one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from blu.errors import WeightsError
from blu.frontend.io.gpt2 import DEFAULTS, PRESETS, Config, complete_config

# llm.c's table: channels and heads of each depth. Other depths get 64 channels a layer, in heads of 64.
DEPTHS = {
    6: (384, 6),
    12: (768, 12),
    24: (1024, 16),
    36: (1280, 20),
    48: (1600, 25),
    60: (1920, 30),
    72: (2880, 30),
    84: (3456, 36),
}
MAX_DEPTH = 96
# Small enough that its weights in f32 take less than 4 MB, and that a laptop trains it in minutes.
DEMO = {"vocab_size": 1024, "n_positions": 256, "n_embd": 128, "n_layer": 4, "n_head": 4}
TRAINING_PRESETS: dict[str, Config] = PRESETS | {"gpt2-demo-config": DEFAULTS | DEMO}


def training_config(name: str, changes: Mapping[str, Any] | None = None) -> Config:
    """The configuration of a preset or depth, with `changes`, checked.

    Raises WeightsError for a name that is none, with the nearest one, and for sizes that do not go together.
    """
    config = TRAINING_PRESETS[name] if name in TRAINING_PRESETS else _depth(name)
    changed = config | dict(changes or {})
    if changed["vocab_size"] != DEFAULTS["vocab_size"]:  # whose end of text is 50256
        changed |= {"bos_token_id": None, "eos_token_id": None}
    return complete_config(changed, name)


def _depth(name: str) -> Config:
    match = re.fullmatch(r"d(\d{1,3})", name)
    depth = int(match[1]) if match else 0
    if not 1 <= depth <= MAX_DEPTH:
        raise _unknown(name)
    channels, heads = DEPTHS.get(depth, (64 * depth, depth))
    return DEFAULTS | {"n_layer": depth, "n_embd": channels, "n_head": heads}


def _unknown(name: str) -> WeightsError:
    names = [*TRAINING_PRESETS, *(f"d{depth}" for depth in DEPTHS)]
    close = difflib.get_close_matches(name, names, 1)
    guess = f"did you mean '{close[0]}'? " if close else ""
    advice = f"{guess}known: {', '.join(TRAINING_PRESETS)}, and d1 to d{MAX_DEPTH} (layers, as in llm.c)"
    return WeightsError(f"there is no preset {name!r}", advice=advice)
