"""Training: optimizers, the learning rate, gradients as a whole, micro-batches, and the scale of the loss."""

from blu import errors
from blu.frontend.optim.accumulate import Accumulation
from blu.frontend.optim.adafactor import Adafactor
from blu.frontend.optim.adaptive import Adadelta, Adagrad, Adamax, NAdam, RAdam
from blu.frontend.optim.averages import EMA
from blu.frontend.optim.gradients import clip_by_global_norm, clip_by_value, global_norm, is_finite
from blu.frontend.optim.loss_scale import LossScale
from blu.frontend.optim.muon import Muon
from blu.frontend.optim.optimizers import SGD, Adam, AdamW, Lion, RMSprop
from blu.frontend.optim.trees import choose
from blu.frontend.schedules import constant_schedule, cosine_schedule, linear_schedule, stable_schedule

__all__ = [
    "EMA",
    "SGD",
    "Accumulation",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lion",
    "LossScale",
    "Muon",
    "NAdam",
    "RAdam",
    "RMSprop",
    "choose",
    "clip_by_global_norm",
    "clip_by_value",
    "constant_schedule",
    "cosine_schedule",
    "global_norm",
    "is_finite",
    "linear_schedule",
    "stable_schedule",
]

__getattr__ = errors.guessing(globals())
