"""PTX for GPU kernels: LLVM dialect -> LLVM IR text -> llvmlite's NVPTX backend.

MLIR and LLVM end the process on some mistakes, so this runs in a worker process (see worker.py). Neither a GPU nor a
CUDA toolkit is needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

from blu.compiler.codegen import llvm_skew
from blu.compiler.codegen.native import split_kernels
from blu.compiler.codegen.ptx_stores import check_stores, narrow_stores

_FLOAT8 = ("e4m3x2", "e5m2x2")
_VERSION_OF_FLOAT8 = 81
_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"


class PtxCodegen:
    """LLVM set up for one GPU. `target` holds the fields name and ptx of GpuTarget.

    `announce` is told the name of each kernel before it is worked on. PTX is of the target's version, but that of
    kernels that convert fp8, which older drivers would refuse, is of a version that has this.
    """

    def __init__(self, target: dict[str, Any], announce: Callable[[str], None] = lambda kernel: None):
        self.announce = announce
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        self.triple = target["triple"]
        machine = llvm.Target.from_triple(self.triple)
        self.version = target["ptx"]
        self.machine = machine.create_target_machine(cpu=target["name"], features=f"+ptx{self.version}", opt=3)

    def ptx_of_kernels(self, text: str | bytes) -> bytes:
        """JSON: the PTX of each kernel of a module at level "llvm", by name."""
        return json.dumps({name: self._emit(name, module) for name, module in self._optimised(text).items()}).encode()

    def llvm_ir(self, text: str | bytes) -> str:
        """LLVM IR of the kernels as PTX is made from it, for people to read."""
        return "\n".join(map(str, self._optimised(text).values()))

    def _emit(self, name: str, module: llvm.ModuleRef) -> str:
        ptx = narrow_stores(self.machine.emit_assembly(module))
        check_stores(ptx, name)
        return self._versioned(ptx)

    def _versioned(self, ptx: str) -> str:
        """LLVM does not look into the instructions that kernels write themselves: they need the version said."""
        if self.version >= _VERSION_OF_FLOAT8 or not any(format_ in ptx for format_ in _FLOAT8):
            return ptx
        said, needed = (f".version {version // 10}.{version % 10}" for version in (self.version, _VERSION_OF_FLOAT8))
        return ptx.replace(said, needed, 1)

    def _optimised(self, text: str | bytes) -> dict[str, llvm.ModuleRef]:
        return {name: self._kernel(name, ir) for name, ir, _ in split_kernels(text, self.announce, ("llvm", "nvvm"))}

    def _kernel(self, name: str, text: str) -> llvm.ModuleRef:
        self.announce(name)
        module = llvm.parse_assembly(llvm_skew.rewrite(text))
        module.triple = self.triple
        module.data_layout = _LAYOUT
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        builder = llvm.create_pass_builder(self.machine, options)
        builder.getModulePassManager().run(module, builder)
        return module
