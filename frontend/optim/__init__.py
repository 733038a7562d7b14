"""Training: optimizers, the learning rate, gradients as a whole, micro-batches, and the scale of the loss."""

from blu.frontend.optim.accumulate import Accumulation
from blu.frontend.optim.gradients import clip_by_global_norm, global_norm, is_finite
from blu.frontend.optim.loss_scale import LossScale
from blu.frontend.optim.optimizers import SGD, AdamW
from blu.frontend.optim.schedules import cosine_schedule, linear_schedule
from blu.frontend.optim.trees import choose

__all__ = [
    "SGD",
    "Accumulation",
    "AdamW",
    "LossScale",
    "choose",
    "clip_by_global_norm",
    "cosine_schedule",
    "global_norm",
    "is_finite",
    "linear_schedule",
]
