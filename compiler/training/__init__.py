"""Training a GPT-2: the recipe, the programs, the loop with validation, samples and checkpoints. `blu train` is on top.

Importing this brings in no MLIR; neither does a run whose programs are in the compile cache.
"""

from blu.compiler.training.engine import Engine
from blu.compiler.training.events import Note, Sampled, Saved, StepDone, Validated
from blu.compiler.training.presets import TRAINING_PRESETS, training_config
from blu.compiler.training.recipe import Cadence, Recipe
from blu.compiler.training.trainer import NonFiniteError, Trainer, TrainingResult

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
