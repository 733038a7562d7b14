"""A small GPT-2 at each level of IR, compared with golden files, and the golden files' own behaviour."""

from __future__ import annotations

import pytest

from blu.compiler.generation.gpt2_programs import Gpt2Request
from blu.compiler.jit import Traced
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import attribute_names, copy_module, module_text
from blu.frontend.io.gpt2 import complete_config
from tests.support.golden_text import Golden

CONFIG = {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": 61, "n_positions": 12}


@pytest.fixture(scope="module")
def traced() -> Traced:
    return Gpt2Request.of("forward", complete_config(CONFIG), "x86-64-v3", batch=1, length=8).trace()


def plain_text(module: ir.Module) -> str:
    """The module without locations, and without what its target is tuned to."""
    copy = copy_module(module)
    for name in attribute_names(copy):
        if name in ("blu.target", "blu.level", "blu.passes_done", "blu.version"):
            del copy.operation.attributes[name]
    return module_text(copy, locations=False)


@pytest.mark.parametrize("level", ["blu", "linalg", "memref"])
def test_gpt2_at_each_level(traced: Traced, golden: Golden, level: str):
    module = traced.lower(stop=level).module
    golden.check(f"gpt2_{level}.mlir", plain_text(module))


def test_what_was_traced(traced: Traced, golden: Golden):
    golden.check("gpt2_traced.mlir", plain_text(traced.traced.module))


def test_a_difference_is_shown(tmp_path):
    Golden(True, tmp_path).check("x.txt", "one\ntwo\n")
    Golden(False, tmp_path).check("x.txt", "one\ntwo\n")
    with pytest.raises(pytest.fail.Exception) as caught:
        Golden(False, tmp_path).check("x.txt", "one\n2\n")
    assert "-two" in str(caught.value) and "+2" in str(caught.value) and "--update-golden" in str(caught.value)
    with pytest.raises(pytest.fail.Exception, match=r"there is no golden file y\.txt"):
        Golden(False, tmp_path).check("y.txt", "")


def test_the_option_is_there(golden: Golden, request):
    assert golden.is_updating == request.config.getoption("--update-golden")
