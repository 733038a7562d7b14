"""From a traced module to the LLVM dialect, for processors."""

from __future__ import annotations

from blu.compiler.pipelines import Pipeline, Stage
from blu.passes.cpu.lower.choose_schedules import ChooseCpuSchedules
from blu.passes.cpu.lower.emit_kernels import EmitKernels
from blu.passes.cpu.lower.finish import LowerToLlvm
from blu.passes.cpu.lower.fit_schedules import FitCpuSchedules
from blu.passes.cpu.lower.scratch import ReserveScratch
from blu.passes.framework.base import MlirPass
from blu.passes.graph.autocast import Autocast
from blu.passes.graph.bucket_collectives import BucketCollectives
from blu.passes.graph.decompose import Decompose
from blu.passes.graph.differentiate import Differentiate
from blu.passes.graph.hoist_results import HoistResults
from blu.passes.graph.hoist_sums import HoistSums
from blu.passes.graph.inline import Inline
from blu.passes.graph.narrow_sums import NarrowSums
from blu.passes.graph.reassociate import Reassociate
from blu.passes.graph.remat import Remat
from blu.passes.graph.shard import Shard
from blu.passes.graph.simplify import Simplify
from blu.passes.graph.skip_rows import SkipRows
from blu.passes.graph.trim_loops import TrimLoops
from blu.passes.graph.winograd import Winograd
from blu.passes.host.bufferize import Bufferize, PlanMemory
from blu.passes.host.export_plan import ExportPlan
from blu.passes.host.overlap_collectives import OverlapCollectives
from blu.passes.host.pair_donations import PairDonations
from blu.passes.loops.fuse import Fuse
from blu.passes.loops.lift_checks import LiftChecks
from blu.passes.loops.lower_to_linalg import LowerToLinalg
from blu.passes.loops.merge_duplicates import MergeDuplicates
from blu.passes.loops.merge_kernels import MergeKernels
from blu.passes.loops.outline_loops import OutlineLoops
from blu.passes.loops.share_numbers import ShareNumbers
from blu.passes.loops.sink_widening import SinkWidening
from blu.passes.loops.widen_factors import WidenFactors

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
                Shard(),  # while layers are ops, and gradients are there
                NarrowSums(),  # before sums are put together, and conversions simplified
                Decompose(),
                HoistSums(),  # after layers are products, before these are looked at
                Simplify(),  # decompositions convert and reshape without looking at what they are given
                SkipRows(),  # after conversions are where they stay
                Winograd(),  # windows are those of results alone now
                Reassociate(),
                MlirPass("cse"),
                TrimLoops(),  # equal loops are one
                HoistResults(),  # products stay where they are
                BucketCollectives(),  # what is added up is what it stays
            ),
        ),
        Stage(
            "linalg",
            (
                OutlineLoops(),  # further down, memory and kernels are a function's
                LowerToLinalg(),
                WidenFactors(),  # before widening is looked at
                LiftChecks(),
                MlirPass("canonicalize"),  # cancels the reshapes between ops of one canonical form, so that they fuse
                SinkWidening(),  # after the reshapes are gone, before loops are compared
                MlirPass("canonicalize"),  # views that it has moved meet others
                MergeDuplicates(),
                Fuse(),
                ShareNumbers(),  # before anything is done for each kernel
                MergeKernels(),  # those that differed in numbers only are one already
            ),
        ),
        Stage(
            "memref",
            (
                ChooseCpuSchedules(),  # kernels have the names that others know
                PairDonations(),
                ReserveScratch(),
                Bufferize(),
                OverlapCollectives(),  # a buffer lives as long as a collective has it
                PlanMemory(),
            ),
        ),
        Stage(
            "kernel",
            (
                FitCpuSchedules(),  # strides are known
                EmitKernels(),
            ),
        ),
        Stage(
            "llvm",
            (
                LowerToLlvm(),
                MlirPass("ensure-debug-info-scope-on-llvm-func"),  # lets translation write the user's lines
            ),
        ),
        Stage("plan", (ExportPlan(),)),
    ),
)
