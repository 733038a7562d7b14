"""What ranks run under mpiexec for `test_ranks.py`: they train, and a weight of one of them changes its bits."""

from __future__ import annotations

import json
import sys

import numpy as np

from blu.compiler.training.engine import Engine
from blu.compiler.training.place import Place
from blu.compiler.training.recipe import Cadence, Recipe
from blu.compiler.training.trainer import Trainer
from blu.errors import RankError
from blu.frontend.io.data.training_data import open_training_data
from blu.frontend.io.gpt2 import complete_config, random_state_dict
from blu.frontend.io.tokenizer import ByteTokenizer
from blu.runtime.ranks.team import join_team

SIZES = {"n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": 257, "n_positions": 8}


def main(texts: str) -> None:
    """Train until somebody notices."""
    config, recipe = complete_config({"model_type": "gpt2", **SIZES}), Recipe(batch_size=2, length=8, steps=9)
    said = ""
    with join_team() as team:
        place = Place.in_team(team)
        data = open_training_data([texts], vocab_size=257, tokenizer=ByteTokenizer(257))
        engine = Engine.of(config, recipe, mesh=place.mesh, rank=place.rank)
        engine.set_parameters(random_state_dict(config, 0))
        cadence = Cadence(validate_every=0, checkpoint_every=0, compare_every=2)
        trainer = Trainer(engine, config, recipe, data, cadence, place=place)
        trainer.prepare()
        bias = np.asarray(engine.parameters["h.0.mlp.c_fc.bias"])
        if place.rank == 1:
            bias[3] = 1e-3
        try:
            trainer.run()
        except RankError as error:
            said = str(error)
    sys.stdout.write(f"RANK {json.dumps({'rank': place.rank, 'said': said, 'step': trainer.step})}\n")


if __name__ == "__main__":
    main(sys.argv[1])
