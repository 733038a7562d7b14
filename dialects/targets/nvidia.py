"""The description of a GPU that code is generated for, as it travels in the IR (`blu.target` on the module)."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.targets import description
from blu.dialects.targets.cpu import CPU_TARGETS, CpuTarget
from blu.dialects.targets.description import ATTRIBUTE
from blu.errors import ParseError

TRIPLE = "nvptx64-nvidia-cuda"


@dataclass(frozen=True)
class GpuTarget:
    """An NVIDIA GPU architecture: what LLVM and ptxas are told, and what kernel emitters choose by.

    `name` is also the architecture's name for them, `ptx` the version of PTX to write (80: 8.0). A block may have
    `shared_bytes` of shared memory (more than 48 KB after asking the driver), a multiprocessor has `registers` of 32
    bits and `shared_bytes_per_processor`; `processors` is how many there are in the largest common model. All have
    `mma.sync` and `cp.async`; `tma` says whether there are bulk copies by tensor maps, `wgmma` whether warpgroups
    multiply, `clusters` whether blocks have clusters, `early_launches` whether a kernel
    may begin before the one before it is over (`griddepcontrol`).

    Sources: PTX ISA, "Instruction Set"; CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
    """

    name: str
    capability: int
    ptx: int
    shared_bytes: int
    shared_bytes_per_processor: int
    threads_per_processor: int
    processors: int
    registers: int = 65536
    tma: bool = False
    wgmma: bool = False
    clusters: bool = False
    early_launches: bool = False

    @property
    def triple(self) -> str:
        return TRIPLE

    def to_attribute(self) -> ir.DictAttr:
        """The dictionary attribute that `from_attribute` reads back."""
        return description.to_attribute(self, GPU_TARGETS)

    def clusters_at_once(self, blocks: int) -> int:
        """How many clusters of `blocks` blocks, each of which takes a whole processor, run at the same time.

        Processors come in groups, and a cluster stays in one. Source: cuOccupancyMaxActiveClusters on an H200.
        """
        return {1: self.processors, 2: self.processors // 2, 4: 30, 8: 15}[blocks]

    @classmethod
    def of(cls, module: ir.Module) -> GpuTarget:
        """The GPU that a module says it is compiled for. ParseError where it says none."""
        if ATTRIBUTE not in module.operation.attributes:
            raise ParseError(
                f"the module has no {ATTRIBUTE}, and this depends on the GPU",
                advice="blu-compile --target=sm_90a --emit=blu prints IR with the attribute.",
            )
        return cls.from_attribute(module.operation.attributes[ATTRIBUTE])

    @classmethod
    def from_attribute(cls, attribute: ir.DictAttr) -> GpuTarget:
        """Read a target back from a module's `blu.target`. ParseError for what is none of those that there are."""
        try:
            found = description.from_attribute(attribute, GPU_TARGETS, cls)
        except (KeyError, TypeError, AttributeError):
            found = None
        if found is None or GPU_TARGETS.get(found.name) != found:
            raise ParseError(
                f"{ATTRIBUTE} = {attribute} does not describe a GPU that Blu knows",
                advice="Leave the attribute out of hand-written IR: --target sets it.",
            )
        return found


SM_80 = GpuTarget("sm_80", 80, 71, 163 * 1024, 164 * 1024, 2048, 108)
SM_86 = GpuTarget("sm_86", 86, 71, 99 * 1024, 100 * 1024, 1536, 84)
SM_89 = GpuTarget("sm_89", 89, 78, 99 * 1024, 100 * 1024, 1536, 128)
SM_90A = GpuTarget(
    "sm_90a", 90, 81, 227 * 1024, 228 * 1024, 2048, 132, tma=True, wgmma=True, clusters=True, early_launches=True
)
GPU_TARGETS = {target.name: target for target in (SM_80, SM_86, SM_89, SM_90A)}

Target = CpuTarget | GpuTarget
TARGETS: dict[str, Target] = {**CPU_TARGETS, **GPU_TARGETS}


def target_of(module: ir.Module) -> Target:
    """The CPU or GPU that a module says it is compiled for. ParseError where it says none, or one there is not."""
    attributes = module.operation.attributes
    name = str(ir.DictAttr(attributes[ATTRIBUTE])["name"]) if _is_named(attributes) else ""
    return GpuTarget.of(module) if name.strip('"') in GPU_TARGETS else CpuTarget.of(module)


def _is_named(attributes: ir.OpAttributeMap) -> bool:
    described = attributes.get(ATTRIBUTE, None)
    return isinstance(described, ir.DictAttr) and "name" in described
