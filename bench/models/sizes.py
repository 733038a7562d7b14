"""The models of bench/models/models_gpu.py and their sizes, and what is compiled of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from bench.models import resnet
from examples import convnet, diffusion, llama, lstm, vit

UNCLIPPED = ("convnet", "resnet")


@dataclass(frozen=True)
class Model:
    """`module` has a model as those of examples/ have; `large` fills a GPU, gradients are of `few` examples."""

    name: str
    module: Any
    large: Any
    few: int

    def size(self, name: str, part: str = "step") -> Any:
        """The size by its name, for steps or gradients."""
        size = self.large if name == "large" else self.module.SIZES[name]
        return replace(size, batch=min(size.batch, self.few)) if part == "gradients" else size

    def batch(self, name: str, part: str = "step") -> tuple[np.ndarray, ...]:
        """One batch, always the same."""
        return self.module.draw(np.random.default_rng(0), self.size(name, part))

    def twin(self, name: str, part: str = "step") -> Any:
        """PyTorch's model, with random numbers: a loss of batches."""
        from tests.support.training.torch_models import MODELS as EXAMPLES

        maker = EXAMPLES.get(self.name) or import_module("bench.models.torch_resnet").ResNet
        return maker(self.size(name, part))


WORDS = 32000
_MODELS = (
    Model("llama", llama, llama.Size(768, 12, heads=12, groups=4, length=1024, batch=16, rate=3e-4, words=WORDS), 2),
    Model("vit", vit, vit.Size(pixels=224, patch=16, width=768, layers=12, heads=12, batch=128, rate=3e-4), 16),
    Model("resnet", resnet, resnet.SIZES["large"], 16),
    Model("convnet", convnet, convnet.Size(32, (64, 128, 256, 512), blocks=2, batch=512, rate=2e-3), 64),
    Model("lstm", lstm, lstm.Size(width=256, layers=2, length=128, batch=64, rate=3e-3), 64),
    Model("diffusion", diffusion, diffusion.Size(width=2048, layers=4, batch=16384, rate=1e-3), 4096),
)
MODELS = {model.name: model for model in _MODELS}


def program_of(subject: Model, size: str, part: str, policy: str) -> Any:
    """What is to be compiled: a "step" or the "gradients" in a precision."""
    import blu
    from blu import optim

    module, batch = subject.module, subject.batch(size, part)

    def gradients(model: Any, batch: Any) -> tuple[Any, Any]:
        with blu.autocast(policy):
            return blu.value_and_grad(module.loss)(model, *batch)

    def train(model: Any, state: Any, batch: Any, rate: Any) -> dict[str, Any]:
        value, found = gradients(model, batch)
        if subject.name not in UNCLIPPED:
            found, _ = optim.clip_by_global_norm(found, 1.0)
        model, state = module.optimizer.update(model, found, state, rate)
        return {"loss": value, "model": model, "state": state}

    model = module.build(subject.size(size))
    if part == "gradients":
        return blu.jit(gradients).trace(model, batch)
    step = blu.jit(train, donate=("model", "state"))
    return step.trace(model, module.optimizer.init(model), batch, blu.spec((), "f32"))
