"""Training and generating with arrays in a (fake) GPU's memory: the same numbers as on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from blu.compiler.cache import default_cache
from blu.compiler.generation.generate import Gpt2Runner
from blu.compiler.generation.gpt2_programs import Gpt2Request
from blu.compiler.generation.sampling import Sampling
from blu.compiler.requests import compile_request
from blu.compiler.target import resolve_target_name
from blu.compiler.training.engine import Engine, load_training
from blu.compiler.training.recipe import Recipe
from blu.compiler.training.resume import _in_host_memory
from blu.compiler.training.trainer import Trainer
from blu.errors import OutOfRangeError
from blu.frontend.io.gpt2 import random_state_dict
from blu.frontend.io.huggingface import complete_config
from blu.plan.schema import Check
from blu.runtime import Program
from blu.runtime.cuda import DeviceArray, to_device
from blu.runtime.cuda.driver import driver as drivers
from blu.runtime.cuda.findings import CheckedRun
from tests.support.programs.fake_cuda import FakeDriver, view

CONFIG = complete_config(
    {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 8, "vocab_size": 61, "n_positions": 24}
)
RECIPE = Recipe(batch_size=2, length=8)


class OnDevice:
    """A program of the CPU that takes and gives arrays in the GPU's memory, and updates donated ones there."""

    def __init__(self, program: Program):
        self.program = program
        self.inputs, self.outputs, self.plan = program.inputs, program.outputs, program.plan
        self.uploaded_bytes = 0

    def keep(self, arrays: Sequence[Any]) -> list[DeviceArray]:
        return [to_device(array) for array in arrays]

    def run(self, inputs: Sequence[Any], *, overwrite: bool = False) -> list[DeviceArray]:
        self.uploaded_bytes = sum(value.nbytes for value in inputs if not isinstance(value, DeviceArray))
        placed = [to_device(value) for value in inputs]
        results = self.program.run([array.numpy() for array in placed])
        return [
            to_device(result) if spec.input is None else _write(placed[spec.input], result)
            for spec, result in zip(self.outputs, results, strict=True)
        ]


def _write(array: DeviceArray, value: np.ndarray) -> DeviceArray:
    view(array.address, array.size, array.dtype)[...] = value.reshape(-1)
    return array


@pytest.fixture
def gpu() -> Iterator[FakeDriver]:
    """The process's GPU, a fake one."""
    driver = FakeDriver({}, total_bytes=1 << 28)
    drivers.use_driver(driver)
    yield driver
    drivers.use_driver(None)


def _batches(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    shape = (count, 2, RECIPE.batch_size, RECIPE.length)
    tokens = np.random.default_rng(0).integers(0, CONFIG["vocab_size"], shape, dtype=np.int32)
    return [(pair[0], pair[1]) for pair in tokens]


def _numbers(engine: Engine) -> list[Any]:
    """What a few steps of all kinds give."""
    first, second = _batches(2)
    engine.set_parameters(random_state_dict(CONFIG, 0))
    found: list[Any] = [engine.evaluate(first), engine.step([first], 1e-2), engine.evaluate(first)]
    found += [engine.step([first, second], 1e-2), engine.gradients([first, second]), engine.step([second], 1e-2)]
    saved = {name: np.array(array) for name, array in engine.parameters.items()}
    found.append(engine.step([second], 1e-2))
    engine.set_parameters(saved)
    return [*found, engine.step([first], 1e-2), _in_host_memory(engine.parameters), engine.peak_bytes]


def _flat(item: Any) -> list[np.ndarray]:
    return [np.asarray(value) for value in item.values()] if isinstance(item, dict) else [np.asarray(item)]


def test_training_with_arrays_on_the_gpu(gpu):
    programs = []

    def load(request):
        programs.append(OnDevice(load_training(request)))
        return programs[-1]

    expected = _numbers(Engine.of(CONFIG, RECIPE))
    engine = Engine.of(CONFIG, RECIPE, load=load)
    for one, other in zip(expected, _numbers(engine), strict=True):
        for a, b in zip(_flat(one), _flat(other), strict=True):
            assert a.dtype == b.dtype and np.array_equal(a, b)
    assert all(isinstance(array, DeviceArray) for array in engine.parameters.values())
    batch_bytes = 2 * 4 * RECIPE.batch_size * RECIPE.length
    assert all(program.uploaded_bytes <= batch_bytes + 4 for program in programs)


def test_nothing_is_saved_after_a_bad_index(gpu, tmp_path):
    (tmp_path / "text.txt").write_text("to be or not to be " * 50)
    recipe = Recipe(batch_size=2, length=8, steps=3)
    config = {**CONFIG, "vocab_size": 256}
    trainer = Trainer.of(config, [str(tmp_path / "text.txt")], recipe, directory=tmp_path / "out")
    trainer.engine.arrays = {name: to_device(array) for name, array in trainer.engine.arrays.items()}
    check = Check("index", "take", 256, "model.py:7")
    gpu.findings.add(CheckedRun("run 1 of step", [check], np.array([300]), gpu.event()))
    with pytest.raises(OutOfRangeError, match="index 300"):
        trainer.save()
    assert trainer.checkpoints is not None and trainer.checkpoints.latest() is None
    trainer.save(wait=True)
    assert trainer.checkpoints.latest() is not None


def test_generating_with_parameters_on_the_gpu(gpu):
    target = resolve_target_name("cpu")
    loaded = {}

    def load(request: Gpt2Request) -> Program:
        return Program.load(compile_request(request, default_cache()))

    def load_on_device(request: Gpt2Request) -> Any:
        loaded[request.entry] = OnDevice(load(request))
        return loaded[request.entry]

    state = {name: array * 8 for name, array in random_state_dict(CONFIG, 3).items()}
    here, there = (Gpt2Runner(CONFIG, state, target, way) for way in (load, load_on_device))
    sampling = Sampling(temperature=1.0, seed=5)
    assert here.generate([1, 2, 3], 8, sampling).tokens == there.generate([1, 2, 3], 8, sampling).tokens
    assert np.array_equal(here.logits([4, 5]), there.logits([4, 5]))
    assert loaded["decode"].uploaded_bytes == 8  # a token and its position; parameters and cache are there
    there.state = {name: array * 2 for name, array in state.items()}
    assert not np.array_equal(here.logits([4, 5]), there.logits([4, 5]))
