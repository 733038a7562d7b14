"""The programs that training a GPT-2 runs as.

Their inputs say by name what they need: "model.*" are parameters, "state.*" the optimizer's state, "sums.*" gradients
of micro-batches, "scale.*" the loss scale, then "tokens", "targets" and "learning_rate".
"""

from __future__ import annotations

from typing import Any

from blu.compiler.requests import ProgramRequest
from blu.compiler.training.parallel import DATA_AXIS, TENSOR_AXIS, RunLayout
from blu.dataclass import dataclass
from blu.plan.mesh import Mesh


@dataclass(frozen=True)
class TrainingRequest(ProgramRequest):
    """One program of a training run: `entry` is "step", "micro", "update" or "evaluate", for tokens [batch, length].

    The numbers of the optimizer are part of the program; the learning rate is not. `mesh` says how ranks share the
    work (as "dp=4", or nothing), `sharded` what those with different sequences share besides (see `RunLayout`).
    """

    kind = "training"
    entries = ("step", "micro", "update", "evaluate")

    clip: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.1
    guarded: bool = False
    remat_budget: int = 0
    mesh: str = ""
    sharded: str = ""
    reduce_dtype: str = "f32"
    sequence_parallel: bool = False

    def trace(self) -> Any:
        """Trace the program."""
        from blu.compiler.jit import jit
        from blu.frontend.nn.gpt2 import GPT2
        from blu.frontend.optim import AdamW, LossScale
        from blu.frontend.tracing.spec import spec
        from blu.frontend.training_steps import TrainingSteps

        optimizer = AdamW(self.beta1, self.beta2, self.epsilon, self.weight_decay)
        scaling = LossScale() if self.dtype == "f16" else None
        steps = TrainingSteps(optimizer, self.clip, self.dtype, self.guarded or scaling is not None, scaling)
        model = GPT2(dict(self.config))
        tokens = spec((self.batch, self.length), "i32")
        rate, state, scale = spec((), "f32"), optimizer.init(model), steps.init_scale()
        sums = steps.accumulation.init(model)
        donated, arguments = {
            "step": (("model", "state", "scale"), (model, state, scale, tokens, tokens, rate)),
            "micro": (("sums",), (model, sums, scale, tokens, tokens)),
            "update": (("model", "state", "sums", "scale"), (model, state, sums, scale, rate)),
            "evaluate": ((), (model, tokens, tokens)),
        }[self.entry]
        name = f"gpt2_training_{self.entry}"
        mesh = Mesh.of_text(self.mesh)
        layout = RunLayout(dict(self.config), mesh, self.sharded, sequence_parallel=self.sequence_parallel)
        options = {"target": self.target, "remat_budget": self.remat_budget, "mesh": mesh}
        options |= {"shard": layout.shardings_of(self.entry), "between": layout.between_of(self.entry)}
        options["reduce"] = {DATA_AXIS: self.reduce_dtype, TENSOR_AXIS: "bf16" if self.dtype == "bf16" else "f32"}
        return jit(getattr(steps, self.entry), donate=donated, name=name, **options).trace(*arguments)
