"""From a traced module to the LLVM dialect, for GPUs of compute capability 9.0 (Hopper)."""

from __future__ import annotations

from blu.compiler.pipelines import Pipeline, Stage
from blu.passes.framework.base import MlirPass
from blu.passes.gpu.attention.decompose_attention import DecomposeAttention
from blu.passes.gpu.attention.few_queries.insert_in_attention import InsertInAttention
from blu.passes.gpu.attention.keep_logarithms import KeepLogarithms
from blu.passes.gpu.attention.narrow_attention import NarrowAttention
from blu.passes.gpu.gemm.boxes.split_row_sums import SplitRowSums
from blu.passes.gpu.gemm.boxes.sum_rows_in_products import SumRowsInProducts
from blu.passes.gpu.gemm.few_rows.normalize_in_products import NormalizeInProducts
from blu.passes.gpu.lower.check_early_launches import CheckEarlyLaunches
from blu.passes.gpu.lower.choose_schedules import ChooseSchedules
from blu.passes.gpu.lower.emit_kernels import EmitGpuKernels
from blu.passes.gpu.lower.factors.copy_factors import CopyFactors
from blu.passes.gpu.lower.fit_schedules import FitSchedules
from blu.passes.gpu.lower.fold_counters import FoldCounters
from blu.passes.gpu.lower.lower_to_nvvm import LowerToNvvm
from blu.passes.gpu.lower.overlap_launches import OverlapLaunches
from blu.passes.gpu.lower.place_float8 import PlaceFloat8
from blu.passes.gpu.lower.scratch import ReserveGpuScratch
from blu.passes.gpu.lower.split_products import SplitProducts
from blu.passes.gpu.rows.chunk_rows import ChunkRows
from blu.passes.gpu.rows.pack_searches import PackSearches
from blu.passes.gpu.rows.split_column_sums import SplitColumnSums
from blu.passes.graph.autocast import Autocast
from blu.passes.graph.bucket_collectives import BucketCollectives
from blu.passes.graph.decompose import Decompose
from blu.passes.graph.differentiate import Differentiate
from blu.passes.graph.exponentials_in_products import ExponentialsInProducts
from blu.passes.graph.fold_scales import FoldScales
from blu.passes.graph.hoist_results import HoistResults
from blu.passes.graph.hoist_sums import HoistSums
from blu.passes.graph.inline import Inline
from blu.passes.graph.narrow_sums import NarrowSums
from blu.passes.graph.reassociate import Reassociate
from blu.passes.graph.remat import KeepRounded, Remat
from blu.passes.graph.shard import Shard
from blu.passes.graph.simplify import Simplify
from blu.passes.graph.trim_loops import TrimLoops
from blu.passes.host.batch_calls import BatchCalls
from blu.passes.host.bufferize import Bufferize, PlanMemory
from blu.passes.host.export_plan import ExportPlan
from blu.passes.host.launch_batches import LaunchBatches
from blu.passes.host.overlap_collectives import OverlapCollectives
from blu.passes.host.pair_donations import PairDonations
from blu.passes.host.share_kernels import ShareKernels
from blu.passes.loops.align_loops import AlignLoops
from blu.passes.loops.expand_loops import ExpandLoops
from blu.passes.loops.fuse import Fuse
from blu.passes.loops.lift_checks import LiftChecks
from blu.passes.loops.lower_to_linalg import LowerToLinalg
from blu.passes.loops.merge_duplicates import MergeDuplicates
from blu.passes.loops.merge_kernels import MergeKernels
from blu.passes.loops.outline_loops import OutlineLoops
from blu.passes.loops.share_numbers import ShareNumbers
from blu.passes.loops.sink_widening import SinkWidening
from blu.passes.loops.split_rounded import SplitRounded

PIPELINE = Pipeline(
    "sm90",
    (
        Stage(
            "blu",
            (
                Autocast(),  # first: gradients are products of the same precision, and attention is whole
                FoldScales(),  # products say what they round, and gradients follow
                Differentiate(),
                KeepRounded(),
                Remat(isolate=True, cheap=True),  # where the backward begins is known now
                Inline(),
                Simplify(),  # what was written, before decompositions multiply it
                Shard(),  # while layers are ops, and gradients are there
                NarrowSums(),  # before sums are put together, and conversions simplified
                DecomposeAttention(),  # what no kernel takes whole
                ExponentialsInProducts(),  # once losses have gradients, and before their products are cut
                ChunkRows(),  # while products and losses are ops
                Decompose(keep="attention+attention_piece+attention_gradient+max_pool+settle_rows"),
                HoistSums(),  # after layers are products, before these are looked at
                Simplify(),  # decompositions convert and reshape without looking at what they are given
                Reassociate(longest=1 << 30),  # rows that have numbers of 31 bits are cut where their kernel is written
                MlirPass("cse"),
                KeepLogarithms(),  # once equal operands are one, but for barriers
                TrimLoops(),  # equal loops are one
                HoistResults(),  # products stay where they are
                BucketCollectives(),  # what is added up is what it stays
            ),
        ),
        Stage(
            "linalg",
            (
                OutlineLoops(),  # further down, memory and kernels are a function's
                LowerToLinalg(keeps_subnormals=False, moves_in_loops=True),  # passes/gpu/lower/exponentials.py
                PlaceFloat8(),  # before widening is looked at
                LiftChecks(),
                MlirPass("canonicalize"),  # cancels the reshapes between ops of one canonical form, so that they fuse
                NarrowAttention(),  # what reads its gradients still says in which bits
                SinkWidening(),  # after the reshapes are gone, before loops are compared
                MlirPass("canonicalize"),  # views that it has moved meet others
                ExpandLoops(),  # views of arguments are canonical
                AlignLoops(),
                MergeDuplicates(),
                FoldCounters(),
                PackSearches(),
                SplitColumnSums(),  # ranges of rows are grouped like other reductions
                SplitRowSums(),  # ranges of columns are grouped with what makes them
                Fuse(scalars_apart=True),
                ShareNumbers(),  # before anything is done for each kernel
                MergeKernels(),  # those that differed in numbers only are one already
                SplitRounded(),  # once for equal kernels
                NormalizeInProducts(),  # once for equal kernels
                SumRowsInProducts(),  # the same
                InsertInAttention(),  # once for equal kernels
            ),
        ),
        Stage(
            "memref",
            (
                ChooseSchedules(),  # kernels are what they stay, and none has memory yet
                CopyFactors(),  # parts and batches are those of the products that are left
                SplitProducts(),
                PairDonations(),  # batches keep what reads an argument before what is written over it
                BatchCalls(),
                ReserveGpuScratch(),
                Bufferize(over_operands=True),
                OverlapCollectives(),  # a buffer lives as long as a collective has it
                PlanMemory(),
            ),
        ),
        Stage(
            "kernel",
            (
                FitSchedules(),  # strides are known
                EmitGpuKernels(),
                LaunchBatches(),
                OverlapLaunches(),  # launches are what they stay
                CheckEarlyLaunches(),
            ),
        ),
        Stage(
            "llvm",
            (
                LowerToNvvm(),
                ShareKernels(),
                MlirPass("ensure-debug-info-scope-on-llvm-func{emission-kind=DebugDirectivesOnly}"),  # the user's lines
            ),
        ),
        Stage("plan", (ExportPlan(),)),
    ),
)
