"""Ranks that meet at the store without exchanging arrays, and then end in the way that the command line says."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

from blu.runtime.ranks.server import StoreServer, listen
from blu.runtime.ranks.store import Store
from blu.runtime.ranks.world import World


def main() -> int:
    """Run by each rank."""
    how, *numbers = sys.argv[1:]
    world = World.of_environment()
    token = os.environ.get("BLU_RANK_TOKEN", "").encode()
    assert world.address is not None
    server = StoreServer(listen(world.address), world.size, token, 30.0) if world.rank == 0 else None
    if how == "ignores":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with Store(world.address, world, token, 20.0) as store:
        who = f"{world.rank}/{world.size} {world.local_rank}/{world.local_size} {os.environ['BLU_NUM_THREADS']} threads"
        gathered = store.gather("who", who.encode())
        store.leave()
    if server is not None:
        server.close()
    print(b", ".join(gathered).decode(), flush=True)
    print(f"rank {world.rank} is well", file=sys.stderr, flush=True)
    if how == "exits" and world.rank == int(numbers[0]):
        return int(numbers[1])
    if how != "meets":
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(1000)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
