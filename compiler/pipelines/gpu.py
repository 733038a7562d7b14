"""From a traced module to the LLVM dialect, for GPUs."""

from __future__ import annotations

from blu.compiler.pipelines import Pipeline, Stage
from blu.compiler.pipelines.cpu import PIPELINE as CPU
from blu.passes.framework.base import MlirPass
from blu.passes.gpu.attention.decompose_attention import DecomposeAttention
from blu.passes.gpu.attention.narrow_attention import NarrowAttention
from blu.passes.gpu.gemm.split_products import SplitProducts
from blu.passes.gpu.lower.emit_kernels import EmitGpuKernels
from blu.passes.gpu.lower.fold_counters import FoldCounters
from blu.passes.gpu.lower.lower_to_nvvm import LowerToNvvm
from blu.passes.gpu.lower.scratch import ReserveGpuScratch
from blu.passes.gpu.rows.chunk_rows import ChunkRows
from blu.passes.gpu.rows.pack_searches import PackSearches
from blu.passes.gpu.rows.split_column_sums import SplitColumnSums
from blu.passes.graph.decompose import Decompose
from blu.passes.graph.reassociate import Reassociate
from blu.passes.graph.remat import Remat
from blu.passes.host.batch_calls import BatchCalls
from blu.passes.host.bufferize import Bufferize, PlanMemory
from blu.passes.host.export_plan import ExportPlan
from blu.passes.host.launch_batches import LaunchBatches
from blu.passes.host.share_kernels import ShareKernels
from blu.passes.loops.fuse import Fuse
from blu.passes.loops.lower_to_linalg import LowerToLinalg
from blu.passes.loops.sink_widening import SinkWidening

PIPELINE = Pipeline(
    "gpu",
    (
        # Mathematics and fusion are the same for all targets.
        # Rows that have numbers of 31 bits are cut where their kernel is written.
        *CPU.replacing(
            Remat(isolate=True, cheap=True),
            Reassociate(longest=1 << 30),
            LowerToLinalg(keeps_subnormals=False),  # passes/gpu/isa/exponentials.py
            Fuse(scalars_apart=True),
        )
        .inserting(DecomposeAttention(), before=Decompose)
        .inserting(ChunkRows(), before=Decompose)
        .inserting(FoldCounters(), before=Fuse)
        .inserting(PackSearches(), before=Fuse)
        .inserting(SplitColumnSums(), before=Fuse)
        .inserting(NarrowAttention(), before=SinkWidening)
        .stages[:2],
        Stage("memref", (SplitProducts(), BatchCalls(), ReserveGpuScratch(), Bufferize(over_rows=True), PlanMemory())),
        Stage("kernel", (EmitGpuKernels(), LaunchBatches())),
        Stage(
            "llvm",
            (
                ExportPlan(),  # first, since the LLVM dialect holds kernels only
                LowerToNvvm(),
                ShareKernels(),
                MlirPass("ensure-debug-info-scope-on-llvm-func{emission-kind=DebugDirectivesOnly}"),  # the user's lines
            ),
        ),
    ),
)
