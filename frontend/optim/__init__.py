"""Training: optimizers, the learning rate, gradients as a whole, micro-batches, and the scale of the loss."""

from blu.frontend.optim.accumulate import Accumulation
from blu.frontend.optim.gradients import clip_by_global_norm, global_norm, is_finite
from blu.frontend.optim.loss_scale import LossScale
from blu.frontend.optim.optimizers import SGD, AdamW
from blu.frontend.optim.trees import choose
from blu.frontend.schedules import constant_schedule, cosine_schedule, linear_schedule, stable_schedule

__all__ = [
    "SGD",
    "Accumulation",
    "AdamW",
    "LossScale",
    "choose",
    "clip_by_global_norm",
    "constant_schedule",
    "cosine_schedule",
    "global_norm",
    "is_finite",
    "linear_schedule",
    "stable_schedule",
]
