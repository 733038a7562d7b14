"""Which of how many processes this is, as the environment says: whoever started them, and whatever is wrong with it."""

from __future__ import annotations

import socket

import pytest

from blu.errors import RankError
from blu.runtime.ranks.world import World

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
ADDRESS = {"MASTER_ADDR": "node0", "MASTER_PORT": "29500"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}
HYDRA = {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"}
SRUN = {
    "SLURM_PROCID": "5",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
}
# A script of sbatch, which is one process, whatever the tasks of its steps.
SBATCH = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0", "SLURM_TASKS_PER_NODE": "4(x2)"}


def test_a_process_that_nothing_started_is_alone():
    world = World.of_environment({"PATH": "/bin"})
    assert world == World(0, 1, 0, 1) == World()
    assert (world.host, world.address, world.starter) == (socket.gethostname(), None, "")


@pytest.mark.parametrize("environment", [TORCHRUN, OPEN_MPI, HYDRA, SRUN], ids=["torchrun", "openmpi", "mpich", "srun"])
def test_the_environment_says_which_rank_this_is(environment: dict[str, str]):
    world = World.of_environment(environment)
    assert (world.rank, world.size, world.local_rank, world.local_size, world.address) == (5, 8, 1, 4, None)
    assert world.starter
    assert World.of_environment(environment | ADDRESS).address == ("node0", 29500)


def test_ranks_meet_beside_the_port_that_torchrun_listens_at() -> None:
    for agent, port, expected in [("True", "29500", 29501), ("False", "29500", 29500), ("True", "65535", 1)]:
        environment = TORCHRUN | ADDRESS | {"MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": agent}
        assert World.of_environment(environment).address == ("node0", expected)


@pytest.mark.parametrize("outer", [HYDRA, OPEN_MPI], ids=["mpich", "openmpi"])
def test_ranks_of_torchrun_heed_nothing_that_started_torchrun(outer: dict[str, str]):
    inner = {"RANK": "7", "WORLD_SIZE": "16", "LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "x"}
    assert World.of_environment(outer | inner).rank == 7


def test_ranks_of_mpiexec_heed_nothing_of_the_allocation():
    assert World.of_environment(SBATCH | HYDRA).rank == 5
    assert World.of_environment(SRUN | {"SLURM_PROCID": "0"} | OPEN_MPI).rank == 5


def test_ranks_of_a_host_may_be_numbered_in_another_order():
    """As Open MPI does it where there are more ranks than cores."""
    world = World.of_environment(OPEN_MPI | {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "2"})
    assert (world.rank, world.local_rank) == (1, 2)


def test_a_host_has_the_name_by_which_others_know_it():
    assert World.of_environment(HYDRA | {"PMI_HOSTNAME": "node7"}).host == "node7"
    assert World.of_environment(SRUN | {"SLURMD_NODENAME": "node8"}).host == "node8"
    assert World.of_environment(HYDRA | {"PMI_HOSTNAME": ""}).host == socket.gethostname()


def test_a_batch_script_is_one_process():
    assert World.of_environment(SBATCH) == World()


@pytest.mark.parametrize(
    "rank, node, tasks, local_size", [(0, 0, "3,1", 3), (3, 1, "3,1", 1), (4, 2, "1(x2),2", 2), (0, 0, "", 4)]
)
def test_nodes_may_have_different_numbers_of_tasks(rank: int, node: int, tasks: str, local_size: int):
    environment = SRUN | {"SLURM_STEP_NUM_TASKS": "4" if rank < 4 else "5", "SLURM_NODEID": str(node)}
    environment |= {"SLURM_PROCID": str(rank), "SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": tasks}
    assert World.of_environment(environment).local_size == local_size


BROKEN = [
    (TORCHRUN | {"RANK": "8"}, "RANK=8 is not from 0 to 7, as WORLD_SIZE=8"),
    (TORCHRUN | {"RANK": "-1"}, "RANK=-1 is not from 0"),
    (TORCHRUN | {"RANK": "five"}, "RANK='five' is no integer"),
    (TORCHRUN | {"RANK": ""}, "RANK='' is no integer"),
    (TORCHRUN | {"RANK": "9" * 5000}, "is no integer"),
    (TORCHRUN | {"WORLD_SIZE": "0"}, "WORLD_SIZE=0 is not from 1"),
    (TORCHRUN | {"LOCAL_RANK": "4"}, "LOCAL_RANK=4 is not from 0 to 3, as LOCAL_WORLD_SIZE=4"),
    (TORCHRUN | {"LOCAL_WORLD_SIZE": "9"}, "LOCAL_WORLD_SIZE=9 is not from 1 to 8, as WORLD_SIZE=8"),
    ({"RANK": "0", "WORLD_SIZE": "2"}, "RANK=0 is set as torchrun does it, and LOCAL_RANK is not"),
    ({"WORLD_SIZE": "2"}, "WORLD_SIZE=2 is set as torchrun does it, and RANK is not"),
    ({"PMI_SIZE": "2", "MPI_LOCALRANKID": "0"}, "PMI_SIZE=2 is set as MPICH's mpiexec does it, and PMI_RANK is not"),
    (SRUN | {"SLURM_STEP_TASKS_PER_NODE": "four"}, "SLURM_TASKS_PER_NODE=four is not a list"),
    (TORCHRUN | {"MASTER_ADDR": "node0"}, "MASTER_ADDR=node0 is set, and MASTER_PORT is not"),
    (ADDRESS | {"MASTER_PORT": "70000"}, "MASTER_PORT=70000 is not from 1 to 65535"),
    (TORCHRUN | HYDRA | {"PMI_RANK": "3"}, "RANK=5 contradicts PMI_RANK=3"),
    (TORCHRUN | OPEN_MPI | {"WORLD_SIZE": "9"}, "WORLD_SIZE=9 contradicts OMPI_COMM_WORLD_SIZE=8"),
    (OPEN_MPI | HYDRA | {"MPI_LOCALRANKID": "2"}, "OMPI_COMM_WORLD_LOCAL_RANK=1 contradicts MPI_LOCALRANKID=2"),
]


@pytest.mark.parametrize("environment, message", BROKEN, ids=[message for _, message in BROKEN])
def test_what_is_broken_or_contradicts_itself_is_named(environment: dict[str, str], message: str):
    with pytest.raises(RankError) as caught:
        World.of_environment(environment)
    assert message in str(caught.value)
