"""Training a GPT-2: the recipe, the programs, the loop with validation, samples and checkpoints. `blu train` is on top.

Importing this brings in no MLIR; neither does a run whose programs are in the compile cache.
"""

from blu.compiler.train.engine import Engine
from blu.compiler.train.events import Note, Sampled, Saved, StepDone, Validated
from blu.compiler.train.presets import TRAINING_PRESETS, training_config
from blu.compiler.train.recipe import Cadence, Recipe
from blu.compiler.train.trainer import NonFiniteError, Trainer, TrainingResult

__all__ = [
    "TRAINING_PRESETS",
    "Cadence",
    "Engine",
    "NonFiniteError",
    "Note",
    "Recipe",
    "Sampled",
    "Saved",
    "StepDone",
    "Trainer",
    "TrainingResult",
    "Validated",
    "training_config",
]
