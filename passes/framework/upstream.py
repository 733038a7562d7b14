"""Names of MLIR's own passes, for suggestions and for `--list-passes`: the bindings cannot list them.

A pass that is missing here still runs; only its name is not suggested.
"""

_NAMES = """
    affine-data-copy-generate affine-expand-index-ops affine-expand-index-ops-as-affine affine-fold-memref-alias-ops
    affine-loop-coalescing affine-loop-fusion affine-loop-invariant-code-motion affine-loop-normalize
    affine-loop-tile affine-loop-unroll affine-loop-unroll-jam affine-parallelize affine-pipeline-data-transfer
    affine-raise-from-memref affine-scalrep affine-simplify-min-max affine-simplify-structures
    affine-simplify-with-bounds affine-super-vectorize arith-emulate-unsupported-floats arith-emulate-wide-int
    arith-expand arith-int-range-narrowing arith-unsigned-when-equivalent bubble-down-memory-space-casts
    buffer-deallocation-pipeline buffer-deallocation-simplification buffer-hoisting buffer-loop-hoisting
    buffer-results-to-out-params bufferization-lower-deallocations canonicalize composite-fixed-point-pass
    control-flow-sink convert-affine-for-to-gpu convert-arith-to-apfloat convert-arith-to-llvm
    convert-bufferization-to-memref convert-cf-to-llvm convert-complex-to-libm convert-complex-to-llvm
    convert-complex-to-standard convert-elementwise-to-linalg convert-func-to-llvm convert-gpu-to-llvm-spv
    convert-gpu-to-nvvm convert-index-to-llvm convert-linalg-to-affine-loops convert-linalg-to-loops
    convert-linalg-to-parallel-loops convert-linalg-to-std convert-math-to-apfloat convert-math-to-funcs
    convert-math-to-libm convert-math-to-llvm convert-math-to-nvvm convert-nvgpu-to-nvvm convert-nvvm-to-llvm
    convert-parallel-loops-to-gpu convert-pdl-to-pdl-interp convert-scf-to-cf convert-shape-constraints
    convert-shape-to-std convert-tensor-to-linalg convert-to-llvm convert-ub-to-llvm convert-vector-to-gpu
    convert-vector-to-llvm convert-vector-to-scf cse drop-equivalent-buffer-results duplicate-function-elimination
    eliminate-empty-tensors empty-tensor-to-alloc-tensor ensure-debug-info-scope-on-llvm-func expand-realloc
    expand-strided-metadata finalize-memref-to-llvm flatten-memref fold-tensor-subset-ops form-expressions
    generate-runtime-verification gpu-decompose-memrefs gpu-eliminate-barriers gpu-kernel-outlining
    gpu-launch-sink-index-computations gpu-lower-to-nvvm-pipeline gpu-map-parallel-loops gpu-module-to-binary
    gpu-to-llvm inline int-range-optimizations lift-cf-to-scf linalg-block-pack-matmul linalg-fold-into-elementwise
    linalg-fold-unit-extent-dims linalg-fuse-elementwise-ops linalg-generalize-named-ops
    linalg-inline-scalar-operands linalg-morph-ops linalg-specialize-generic-ops llvm-add-comdats
    llvm-legalize-for-export llvm-optimize-for-nvvm-target llvm-request-c-wrappers llvm-target-to-data-layout
    llvm-target-to-target-features llvm-use-default-visibility loop-invariant-code-motion
    loop-invariant-subset-hoisting lower-affine lower-host-to-llvm lower-vector-mask lower-vector-multi-reduction
    lower-vector-to-from-elements-to-shuffle-tree math-expand-ops math-extend-to-supported-types math-sincos-fusion
    math-uplift-to-fma mem2reg memref-elide-reinterpret-cast memref-emulate-wide-int memref-expand
    mlprogram-pipeline-globals normalize-memrefs nvgpu-optimize-shared-memory nvvm-attach-target one-shot-bufferize
    optimize-allocation-liveness outline-shape-computation ownership-based-buffer-deallocation print-ir
    print-op-stats promote-buffers-to-stack raise-scf-to-affine reconcile-unrealized-casts reify-result-shapes
    remove-dead-values remove-shape-constraints resolve-ranked-shaped-type-result-dims
    resolve-shaped-type-result-dims scalarize-single-element-tensor-return sccp scf-for-loop-canonicalization
    scf-for-loop-peeling scf-for-loop-range-folding scf-for-loop-specialization scf-for-to-while scf-forall-to-for
    scf-forall-to-parallel scf-parallel-for-to-nested-fors scf-parallel-loop-fusion scf-parallel-loop-specialization
    scf-parallel-loop-tiling set-llvm-module-datalayout shape-to-shape-lowering simplify-depthwise-conv
    snapshot-op-locations sroa static-memory-planner-analysis strip-debuginfo symbol-dce symbol-privatize
    topological-sort transform-dialect-check-uses transform-infer-effects transform-interpreter
    transform-preload-library trivial-dce view-op-graph
"""

UPSTREAM_PASSES = dict.fromkeys(_NAMES.split())
