"""Launches without a graph, on a fake GPU: those made again while a bool holds, and one that is all there is."""

from __future__ import annotations

import numpy as np

from blu.plan.repeating import AGAIN, BEGIN
from blu.runtime.cuda import CudaProgram
from tests.support.programs import cuda_programs as programs
from tests.support.programs.fake_cuda import view

X = np.arange(programs.COUNT, dtype=np.float32)


def test_the_host_reads_whether_launches_are_made_again(gpu):
    """Without a graph: x + 1 while its first element is less than 3."""

    def is_small(threads: int, source: int, target: int) -> None:
        view(target, 1, np.bool_)[0] = view(source, threads, np.float32)[0] < 3

    gpu.kernels["is_small"] = is_small
    flag = ["arena", 0]
    choices = [
        {"kernel": f"host.{name}", "operands": [["bool", []]], "results": [], "args": [flag], "location": ""}
        for name in (BEGIN, AGAIN)
    ]
    look = programs.launch("is_small", ["input", 0, 0], flag, blocks=1)
    add = programs.launch("shift", ["input", 0, 0], ["input", 0, 0])
    state = programs.tensor("x", programs.COUNT, donated=True)
    result = programs.tensor("", programs.COUNT, input=0)
    launches = [look, choices[0], add, look, choices[1]]
    program = CudaProgram.load(programs.members(launches, inputs=[state], outputs=[result]))
    for start, end in ((0, 3), (1.5, 3.5), (7, 7)):
        [found] = program.run([X + start])
        assert np.array_equal(found.numpy(), X + end)
    assert not gpu.count("replay")


def test_a_program_of_one_kernel_is_launched(gpu):
    gpu.kernels["shift"] = programs.shift
    launch = {**programs.launch("shift", ["input", 0, 0], ["output", 0, 0]), "early": True}
    sizes = [programs.tensor("x", len(X))], [programs.tensor("", len(X), input=None)]
    program, x = CudaProgram.load(programs.members([launch], inputs=sizes[0], outputs=sizes[1])), X
    for _ in range(5):
        [x] = program.run([x])
    assert np.array_equal(x.numpy(), X + 5) and [kernel.early for kernel in program._kernels] == [True]
    assert gpu.count("shift") == 5 and not gpu.count("capture") and not gpu.count("replay")
    assert program.time_launches([X])[0][2] == 1.5 and gpu.count("capture") == 1
