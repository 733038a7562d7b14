"""Which kernels for GPUs keep values in local memory, asked of ptxas once for each PTX.

    python -m pytest tests/kernels --update-kernels    # record in data/spills.json what does not

ptxas takes longer than all else in tests of GPU code, and to make PTX as long as what is left. A proof is a hash of
what PTX is made of and by, of the architecture and of the release of ptxas; where it is recorded, ptxas would say the
same again. One of PTX itself is recorded beside it, and holds where code generation was written otherwise.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from filelock import FileLock

from blu.compiler.codegen.cubins import Cubin, assemble
from tests.support.folders import DATA, ROOT
from tests.support.gpu_budgets import ptxas_release

RECORDED = DATA / "spills.json"
_DIGITS = 24
# Where a warpgroup.arrive was put, which costs nothing; setmaxnreg where nobody needs more registers than all have (if
# somebody did, there would be spills).
_HARMLESS = {"C7519", "C7508"}
_OF_OTHERS = ".extern .func"
"""In PTX: ptxas takes it, and what loads the kernel does not."""


def spills(ptx: Mapping[str, str], architecture: str, made_of: Mapping[str, str] | None = None) -> dict[str, str]:
    """ptxas' words on kernels with a stack or spills, or warpgroups it serializes, and which call functions of others.
    PassError if it refuses one.

    `made_of` says of each kernel that is asked about what its PTX is made of; PTX is then read only where that is new.
    """
    return _record.ask(ptx, architecture, ptx if made_of is None else made_of)


def recording() -> None:
    """From now on ask ptxas of everything, and write down what it says."""
    _record.is_written = True


@dataclass
class SpillRecord:
    """Proofs by test. `written` are the tests that this process has begun to record."""

    path: Path
    is_written: bool = False
    written: set[str] = field(default_factory=set)

    def ask(self, ptx: Mapping[str, str], architecture: str, made_of: Mapping[str, str]) -> dict[str, str]:
        """See `spills`."""
        test, proof = _current_test(), _proof_of(made_of, architecture)
        if self._knows(test, proof):
            return {}
        texts = {name: ptx[name] for name in made_of}
        if self._knows(test, of_ptx := _proof_of(texts, architecture)):
            return {}
        found = {name: cubin.log for name, cubin in assemble(texts, architecture).items() if not _is_clean(cubin)}
        found |= {name: "calls a function of others" for name, text in texts.items() if _OF_OTHERS in text}
        if self.is_written and not found:
            self._write(test, proof, of_ptx)
        return found

    def _knows(self, test: str, proof: str) -> bool:
        return not self.is_written and proof in proofs_in(self.path).get(test, ())

    def _write(self, test: str, *proofs: str) -> None:
        """Add proofs of a test, whose proofs of earlier runs go, as do those of files that are gone."""
        with FileLock(Path(tempfile.gettempdir()) / f"blu-{self.path.name}.lock"):
            proofs_in.cache_clear()
            known = {name: list(proofs) for name, proofs in proofs_in(self.path).items() if _file_of(name).exists()}
            mine = known.get(test, []) if test in self.written else []
            known[test] = sorted({*mine, *proofs})
            self.written.add(test)
            self.path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


_record = SpillRecord(RECORDED)


@cache
def proofs_in(path: Path) -> dict[str, list[str]]:
    """What a file has recorded."""
    return json.loads(path.read_text()) if path.exists() else {}


def _current_test() -> str:
    return os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]


def _file_of(test: str) -> Path:
    return ROOT / test.partition("::")[0]


def _proof_of(made_of: Mapping[str, str], architecture: str) -> str:
    said = json.dumps([_release(), architecture, sorted(made_of.items())])
    return hashlib.sha256(said.encode()).hexdigest()[:_DIGITS]


@cache
def _release() -> str:
    return ptxas_release()


def _is_clean(cubin: Cubin) -> bool:
    serialized = set(re.findall(r"C75\d\d", cubin.log)) - _HARMLESS
    return cubin.stack_bytes == cubin.spill_bytes == 0 and not serialized
