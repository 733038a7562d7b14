"""What ranks run under mpiexec for `test_ranks.py`: they compare their parameters, of which one has other bits."""

from __future__ import annotations

import json
import sys

import numpy as np

from blu.compiler.training.place import Place
from blu.errors import RankError
from blu.runtime.ranks.team import join_team


def _difference(place: Place, arrays: dict[str, np.ndarray]) -> str:
    """What comparing says. The error ends nothing here: else the first to fail ends the others before they speak."""
    try:
        place.compare("parameters", arrays)
    except RankError as error:
        return str(error)
    return ""


def main() -> None:
    with join_team() as team:
        place = Place.in_team(team)
        arrays = {name: np.full(5, number, np.float32) for number, name in enumerate("abc")}
        place.compare("parameters", arrays)
        arrays["b"][3] += 1e-6 * place.rank
        said = _difference(place, arrays)
    sys.stdout.write(f"RANK {json.dumps({'rank': place.rank, 'said': said})}\n")


if __name__ == "__main__":
    main()
