"""The description of the machine that code is generated for, as it travels in the IR (`blu.target` on the module)."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.targets import description
from blu.dialects.targets.description import ATTRIBUTE
from blu.errors import ParseError

MAX_GEMM_ROWS = 32


@dataclass(frozen=True)
class CpuTarget:
    """A CPU: what LLVM is told (`triple`, `cpu`, `features`) and what the kernel emitters choose by.

    `vector_bytes` is the width of one vector register, `registers` how many there are. A GEMM keeps
    `gemm_rows` x `gemm_vectors` accumulator registers, which must leave room for one panel row and one broadcast.
    """

    name: str
    triple: str
    cpu: str
    features: str
    vector_bytes: int
    registers: int
    gemm_rows: int
    gemm_vectors: int
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 1024 * 1024

    def lanes(self, element_bytes: int) -> int:
        """How many elements of `element_bytes` bytes one vector register holds."""
        return self.vector_bytes // element_bytes

    def to_attribute(self) -> ir.DictAttr:
        """The dictionary attribute that `from_attribute` reads back."""
        return description.to_attribute(self, CPU_TARGETS)

    @classmethod
    def of(cls, module: ir.Module) -> CpuTarget:
        """The target that a module says it is compiled for. ParseError where it says none."""
        if ATTRIBUTE not in module.operation.attributes:
            raise ParseError(
                f"the module has no {ATTRIBUTE}, and this depends on the machine",
                advice="blu-compile --target=NAME --emit=blu prints IR with the attribute.",
            )
        return cls.from_attribute(module.operation.attributes[ATTRIBUTE])

    @classmethod
    def from_attribute(cls, attribute: ir.DictAttr) -> CpuTarget:
        """Read a target back from a module's `blu.target`. ParseError for what is none."""
        try:
            found = description.from_attribute(attribute, CPU_TARGETS, cls)
            is_possible = found._is_possible()
        except (KeyError, TypeError, AttributeError):
            is_possible = False
        if not is_possible:
            raise ParseError(
                f"{ATTRIBUTE} = {attribute} does not describe a target",
                advice="Leave the attribute out of hand-written IR: --target sets it.",
            )
        return found

    def _is_possible(self) -> bool:
        """Whether there is such a processor: with others, emitters and LLVM take forever, or end the process."""
        are_texts = all(isinstance(text, str) for text in (self.name, self.triple, self.cpu, self.features))
        fits = 0 < self.gemm_rows * self.gemm_vectors < self.registers and 0 < self.gemm_rows <= MAX_GEMM_ROWS
        has_caches = all(0 < size < 1 << 40 for size in (self.l1_bytes, self.l2_bytes))
        return are_texts and self.vector_bytes in (16, 32, 64) and self.registers in (16, 32) and fits and has_caches


X86_64_V4 = CpuTarget("x86-64-v4", "x86_64-unknown-linux-gnu", "x86-64-v4", "-prefer-256-bit", 64, 32, 8, 3)
X86_64_V3 = CpuTarget("x86-64-v3", "x86_64-unknown-linux-gnu", "x86-64-v3", "", 32, 16, 4, 3)
X86_64_V2 = CpuTarget("x86-64-v2", "x86_64-unknown-linux-gnu", "x86-64-v2", "", 16, 16, 4, 3)
AARCH64 = CpuTarget("aarch64", "aarch64-unknown-linux-gnu", "generic", "+neon", 16, 32, 8, 3)
CPU_TARGETS = {target.name: target for target in (X86_64_V4, X86_64_V3, X86_64_V2, AARCH64)}
