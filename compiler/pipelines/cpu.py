"""From a traced module to the LLVM dialect, for processors."""

from __future__ import annotations

from blu.compiler.pipelines import Pipeline, Stage
from blu.passes.autocast import Autocast
from blu.passes.base import MlirPass
from blu.passes.bufferize import Bufferize, PlanMemory
from blu.passes.cpu.emit_kernels import EmitKernels
from blu.passes.cpu.finish import LowerToLlvm
from blu.passes.cpu.scratch import ReserveScratch
from blu.passes.decompose import Decompose
from blu.passes.differentiate import Differentiate
from blu.passes.export_plan import ExportPlan
from blu.passes.fuse import Fuse
from blu.passes.inline import Inline
from blu.passes.lower_to_linalg import LowerToLinalg
from blu.passes.merge_duplicates import MergeDuplicates
from blu.passes.reassociate import Reassociate
from blu.passes.remat import Remat
from blu.passes.share_numbers import ShareNumbers
from blu.passes.simplify import Simplify
from blu.passes.sink_widening import SinkWidening

PIPELINE = Pipeline(
    "cpu",
    (
        Stage(
            "blu",
            (
                Autocast(),  # first: gradients are products of the same precision, and attention is whole
                Differentiate(),
                Remat(),  # where the backward begins is known now
                Inline(),
                Simplify(),  # what was written, before decompositions multiply it
                Decompose(),
                Simplify(),  # decompositions convert and reshape without looking at what they are given
                Reassociate(),
                MlirPass("cse"),
            ),
        ),
        Stage(
            "linalg",
            (
                LowerToLinalg(),
                MlirPass("canonicalize"),  # cancels the reshapes between ops of one canonical form, so that they fuse
                SinkWidening(),  # after the reshapes are gone, before loops are compared
                MlirPass("canonicalize"),  # views that it has moved meet others
                MergeDuplicates(),
                Fuse(),
                ShareNumbers(),  # before anything is done for each kernel
            ),
        ),
        Stage("memref", (ReserveScratch(), Bufferize(), PlanMemory())),
        Stage("kernel", (EmitKernels(),)),
        Stage(
            "llvm",
            (
                ExportPlan(),  # first, since the LLVM dialect holds kernels only
                LowerToLlvm(),
                MlirPass("ensure-debug-info-scope-on-llvm-func"),  # lets translation write the user's lines
            ),
        ),
    ),
)
