"""Fixtures of all tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def unload_plugins() -> Iterator[None]:
    """Passes that a test loads from files do not reach the next test."""
    yield
    registry = sys.modules.get("blu.passes.registry")
    if registry is not None:
        registry.unload_pass_files()
