"""What ranks run under mpiexec for `test_ranks.py`: they compare their parameters, of which one has other bits."""

from __future__ import annotations

import json
import sys

import numpy as np

from blu.compiler.training.place import Place
from blu.errors import RankError
from blu.runtime.ranks.team import join_team


def main() -> None:
    said = ""
    try:
        with join_team() as team:
            place = Place.in_team(team)
            arrays = {name: np.full(5, number, np.float32) for number, name in enumerate("abc")}
            place.compare("the parameters", arrays)
            arrays["b"][3] += 1e-6 * place.rank
            place.compare("the parameters", arrays)
    except RankError as error:
        said = str(error)
    sys.stdout.write(f"RANK {json.dumps({'rank': place.rank, 'said': said})}\n")


if __name__ == "__main__":
    main()
