"""The keys of requests: whatever a request says is part of its key, so that no program answers another request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest

from blu.compiler.generation.gpt2_programs import Gpt2Request
from blu.compiler.requests import CONFIG_KEYS
from blu.compiler.training.engine import PROGRAM_FIELDS, Engine
from blu.compiler.training.programs import TrainingRequest
from blu.compiler.training.recipe import Recipe
from blu.frontend.io.gpt2 import DEFAULTS

Request = Gpt2Request | TrainingRequest
REQUESTS = [
    Gpt2Request.of("decode", DEFAULTS, "x86-64-v3"),
    TrainingRequest.of("step", DEFAULTS, "x86-64-v3", batch=2, length=16),
]
# Another value of each field of a recipe that a training request has too.
OTHER_DTYPE = {"dtype": "bf16", "reduce_dtype": "bf16"}


def changed(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, str | type(None)):
        return f"{value or ''}x"
    return not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else value / 2 + 0.25


def variants(request: Request) -> Iterator[tuple[str, Request]]:
    """The request with one thing changed, for every thing that it says."""
    for field in fields(request):
        if field.name != "config":
            yield field.name, replace(request, **{field.name: changed(getattr(request, field.name))})
    for place, (key, value) in enumerate(request.config):
        config = list(request.config)
        config[place] = (key, changed(value))
        yield key, replace(request, config=tuple(config))


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_every_field_of_a_request_changes_its_key(request_: Request) -> None:
    keys = {"as it was": request_.key(), **{name: other.key() for name, other in variants(request_)}}
    assert len(keys) == 1 + len(fields(request_)) - 1 + len(CONFIG_KEYS), "a field is not looked at"
    same = {name: key for name, key in keys.items() if list(keys.values()).count(key) > 1}
    assert not same, f"these have the same key: {', '.join(same)}"
    assert replace(request_).key() == keys["as it was"]


def test_every_field_of_a_recipe_that_programs_depend_on_reaches_the_request() -> None:
    def requested(recipe: Recipe, **options: Any) -> TrainingRequest:
        return Engine.of(DEFAULTS, recipe, target="x86-64-v3", **options).request("step")

    base = Recipe()
    shared = {field.name for field in fields(TrainingRequest)} & {field.name for field in fields(Recipe)}
    assert shared == set(PROGRAM_FIELDS), "a field of recipes that programs depend on is not handed on"
    for name in PROGRAM_FIELDS:
        other = OTHER_DTYPE.get(name) or changed(getattr(base, name))
        assert getattr(requested(base.changed(**{name: other})), name) == other
    assert requested(base.changed(batch_size=3)).batch == 3
    assert requested(base.changed(on_nonfinite="skip")).guarded and requested(base, guarded=True).guarded
    assert not requested(base).guarded
