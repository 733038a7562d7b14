"""Both systems of the headline benchmark as one rank has them: they take the same steps on the same batches."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from bench.training.setup import Setup
from bench.training.torch_gpt2 import as_in_blu, decay_groups, gpt2, take_parameters
from blu.compiler.training.engine import Batch, Engine
from blu.frontend.io.gpt2 import random_state_dict
from blu.plan.mesh import Mesh
from blu.runtime.ranks.world import World


class BluTraining:
    """What `blu train` does in a step."""

    def __init__(self, setup: Setup, world: World):
        self.setup, self.ranks = setup, world.size
        mesh = Mesh(dp=world.size) if world.size > 1 else Mesh()
        recipe, config = setup.recipe(world.size), setup.full_config()
        self.engine = Engine.of(config, recipe, target=setup.target, mesh=mesh, rank=world.rank)
        self.engine.set_parameters(random_state_dict(config, setup.seed))

    def prepare(self) -> None:
        """Compile, or load what the cache has."""
        self.engine.prepare(*(("micro", "update") if self.setup.accumulate > 1 else ("step",)))

    def step(self, batches: Sequence[Batch], rate: float) -> tuple[float, float]:
        """The loss and the norm of gradients, which are read when all is done."""
        return self.engine.step(batches, rate)

    def gradients(self, batches: Sequence[Batch]) -> dict[str, np.ndarray]:
        """Those of all ranks' batches, by name."""
        return sum_of_ranks(self.engine.gradients(batches), self.setup.device, self.ranks)

    def digest(self) -> str:
        """SHA-256 of all parameters."""
        return digest_of({name: np.asarray(value) for name, value in self.engine.parameters.items()})

    @property
    def own_peak(self) -> int:
        """Bytes, by Blu's own account."""
        return self.engine.peak_bytes


class TorchTraining:
    """PyTorch: torch.compile, DistributedDataParallel, fused AdamW. `precision` "f64" is the reference."""

    def __init__(self, setup: Setup, world: World):
        import torch

        self.torch, self.setup, self.ranks = torch, setup, world.size
        torch.set_float32_matmul_precision("high" if setup.precision == "tf32" else "highest")
        torch.backends.cudnn.allow_tf32 = setup.precision == "tf32"
        torch.manual_seed(setup.seed)
        self.model = gpt2(torch, setup.full_config()).to(setup.device)
        take_parameters(torch, self.model, random_state_dict(setup.full_config(), setup.seed))
        if setup.precision == "f64":
            self.model.double()
        recipe = setup.changed(precision="f32").recipe(world.size)
        betas, groups = (recipe.beta1, recipe.beta2), decay_groups(self.model, recipe.weight_decay)
        self.optimizer = torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=betas, eps=recipe.epsilon, fused=True)
        self.clip = recipe.clip
        self.wrapped = self._wrapped() if world.size > 1 else self.model
        self.loss = torch.compile(self.wrapped) if setup.compiled_peer else self.wrapped

    def _wrapped(self) -> Any:
        from torch.nn.parallel import DistributedDataParallel

        ids = [self.torch.cuda.current_device()] if self.setup.device == "cuda" else None
        options = {"bucket_cap_mb": self.setup.bucket_megabytes, "gradient_as_bucket_view": True}
        return DistributedDataParallel(self.model, device_ids=ids, **options)

    def prepare(self) -> None:
        """It compiles in the first step."""

    def step(self, batches: Sequence[Batch], rate: float) -> tuple[float, float]:
        """The loss and the norm of gradients, which are read when all is done."""
        loss = self._backward(batches)
        norm = self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.ranks > 1:
            self.torch.distributed.all_reduce(loss)
        return float(loss) / self.ranks, float(norm)

    def _backward(self, batches: Sequence[Batch]) -> Any:
        """This rank's mean loss; gradients are exchanged in the last micro-batch."""
        torch, device, total = self.torch, self.setup.device, 0
        for number, batch in enumerate(batches):
            tokens, targets = (torch.from_numpy(item).to(device, torch.int64) for item in batch)
            is_last = number == len(batches) - 1
            with self.wrapped.no_sync() if self.ranks > 1 and not is_last else nullcontext():
                with torch.autocast(device, dtype=torch.bfloat16, enabled=self.setup.precision == "bf16"):
                    loss = self.loss(tokens, targets) / len(batches)
                loss.backward()
            total = total + loss.detach()
        return total

    def gradients(self, batches: Sequence[Batch]) -> dict[str, np.ndarray]:
        """Those of all ranks' batches, by name; nothing is updated."""
        self._backward(batches)
        found = {name: as_in_blu(name, item.grad).cpu().numpy() for name, item in self.model.named_parameters()}
        self.optimizer.zero_grad(set_to_none=True)
        return {name: np.array(value) for name, value in found.items()}

    def digest(self) -> str:
        """SHA-256 of all parameters."""
        return digest_of({name: item.detach().cpu().numpy() for name, item in self.model.named_parameters()})

    @property
    def own_peak(self) -> int:
        """Bytes, by PyTorch's own account; 0 on processors."""
        return self.torch.cuda.max_memory_allocated() if self.setup.device == "cuda" else 0


def sum_of_ranks(arrays: dict[str, np.ndarray], device: str, ranks: int) -> dict[str, np.ndarray]:
    """Each rank has a term of them: the sums, by PyTorch."""
    if ranks == 1:
        return arrays
    import torch

    found = {}
    for name, array in arrays.items():
        tensor = torch.from_numpy(np.array(array)).to(device)
        torch.distributed.all_reduce(tensor)
        found[name] = tensor.cpu().numpy()
    return found


def digest_of(arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 of arrays by their names."""
    found = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
