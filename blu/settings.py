"""What the environment asks of Blu: all variables `BLU_*`, with types, defaults and meanings. They are read only here.

Variables are read when they are needed, so that a program may set them after `import blu`; the meaning of one says so
where it is read once. A name that is not in the table, or a value that does not fit, is a SettingError at the first
use: when a command starts, when a function is traced, when a program is run. `import blu` reads none.

    from blu import settings

    if settings.current().cuda_sync: ...

`blu doctor --settings` prints the table; docs/settings.md holds it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from blu.dataclass import dataclass
from blu.errors import SettingError, suggestion

PREFIX = "BLU_"
MAX_THREADS = 1024
MAX_CTAS = 64
CACHE_BYTES = 4 << 30
_ADVICE = "`blu doctor --settings` lists all settings."


@dataclass(frozen=True)
class Kind:
    """What values of a setting are: `says` completes "is not ...", `read` raises ValueError for what does not fit.

    `words` are all values, where these can be listed. Where `takes_empty`, an empty text is a value, and not as if the
    variable were unset.
    """

    says: str
    read: Callable[[str], Any]
    words: tuple[str, ...] = ()
    takes_empty: bool = False


def _one_of(*words: str) -> Kind:
    return Kind(" or ".join(words), lambda text: words[words.index(text)], words)


def _whole(says: str, least: int, most: int | None = None) -> Kind:
    def read(text: str) -> int:
        value = int(text) if re.fullmatch("[0-9]+", text) else -1
        if value < least or (most is not None and value > most):
            raise ValueError(text)
        return value

    return Kind(says, read)


def _seconds(text: str) -> float:
    if not (value := float(text)) > 0:
        raise ValueError(text)
    return value


def _program(text: str) -> str:
    found = shutil.which(text) if text else ""
    if found is None:
        raise ValueError(text)
    return found


_SPELLINGS = {"1": True, "on": True, "true": True, "yes": True, "0": False, "off": False, "false": False, "no": False}


def _switch(text: str) -> bool:
    try:
        return _SPELLINGS[text.lower()]
    except KeyError:
        raise ValueError(text) from None


SWITCH = Kind("0 or 1", _switch, tuple(_SPELLINGS))
FOLDER = Kind("a folder", lambda text: Path(text).expanduser())
FILE = Kind("a file", lambda text: Path(text).expanduser())
TEXT = Kind("a text", str)
PROGRAM = Kind("a program (empty: none)", _program, takes_empty=True)


@dataclass(frozen=True)
class Setting:
    """One variable. `unset` says what the default is where that is not its value; `help` is one sentence."""

    name: str
    kind: Kind
    default: Any
    help: str
    unset: str = ""

    @property
    def field(self) -> str:
        """The name among `Settings`: cuda_sync for BLU_CUDA_SYNC."""
        return self.name.removeprefix(PREFIX).lower()

    @property
    def default_text(self) -> str:
        """The default as a user would write it, or what it is in words."""
        return self.unset or as_text(self.default)

    @property
    def given(self) -> str | None:
        """What the environment says, or None where it says nothing."""
        text = os.environ.get(self.name)
        if text is None or (not text.strip() and not self.kind.takes_empty):
            return None
        return text.strip()

    def value(self) -> Any:
        """The value that the environment gives, or the default. SettingError for one that does not fit."""
        text = self.given
        if text is None:
            return self.default
        try:
            return self.kind.read(text)
        except ValueError:
            guess = suggestion(text.lower(), self.kind.words)
            message = f"{self.name}={text!r} is not {self.kind.says}"
            raise SettingError(message, name=self.name, advice=guess or f"Mend or unset it. {_ADVICE}") from None


def as_text(value: Any) -> str:
    """A value as a user would write it into the environment."""
    return str(int(value)) if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All values of one moment. The fields are the table."""

    num_threads: Annotated[
        int | None,
        Setting(
            "BLU_NUM_THREADS",
            _whole(f"an integer from 1 to {MAX_THREADS}", 1, MAX_THREADS),
            None,
            "Threads that programs run on, read when the first one runs.",
            "one for each CPU",
        ),
    ]
    cache_dir: Annotated[
        Path | None,
        Setting("BLU_CACHE_DIR", FOLDER, None, "Where compiled programs and tokenized texts are kept.", "your cache"),
    ]
    cache_limit: Annotated[
        int,
        Setting(
            "BLU_CACHE_LIMIT",
            _whole("a number of bytes", 0),
            CACHE_BYTES,
            "Bytes that compiled programs may take in the cache; 0 turns it off.",
        ),
    ]
    codegen_timeout: Annotated[
        float,
        Setting(
            "BLU_CODEGEN_TIMEOUT",
            Kind("a number of seconds above 0", _seconds),
            300.0,
            "Seconds that generating machine code may take.",
        ),
    ]
    ptxas: Annotated[
        str | None,
        Setting(
            "BLU_PTXAS",
            PROGRAM,
            None,
            "The program that assembles GPU code; empty leaves it to the GPU's driver.",
            "the first that is found",
        ),
    ]
    tuned: Annotated[
        Path | None,
        Setting("BLU_TUNED", FILE, None, "The table of `blu tune` by whose schedules programs are compiled.", "none"),
    ]
    traceback: Annotated[
        str,
        Setting(
            "BLU_TRACEBACK",
            _one_of("short", "full"),
            "short",
            "Whether tracebacks of errors show your lines only, or Blu's as well.",
        ),
    ]
    cuda_driver: Annotated[
        str | None,
        Setting(
            "BLU_CUDA_DRIVER",
            _one_of("pycuda", "bindings"),
            None,
            "The library that reaches the GPU's driver, read when the first program is loaded.",
            "pycuda, else bindings",
        ),
    ]
    cuda_graph: Annotated[
        bool,
        Setting(
            "BLU_CUDA_GRAPH",
            SWITCH,
            True,
            "Whether a run is one CUDA graph (0: kernel by kernel), read when a program is loaded.",
        ),
    ]
    cuda_overlap: Annotated[
        bool,
        Setting(
            "BLU_CUDA_OVERLAP",
            SWITCH,
            True,
            "Whether a kernel may begin while the one before it ends (0: one after the other), read when a program is "
            "loaded.",
        ),
    ]
    cuda_pool: Annotated[
        bool,
        Setting(
            "BLU_CUDA_POOL",
            SWITCH,
            True,
            "Whether GPU memory is kept for later arrays (0: compute-sanitizer knows each array's bounds).",
        ),
    ]
    cuda_sync: Annotated[
        bool,
        Setting(
            "BLU_CUDA_SYNC",
            SWITCH,
            False,
            "Whether to wait after each kernel: an error names the one that failed, and checks are reported at once.",
        ),
    ]
    nccl_max_ctas: Annotated[
        int,
        Setting(
            "BLU_NCCL_MAX_CTAS",
            _whole("a number of thread blocks (0: NCCL's choice)", 0, MAX_CTAS),
            0,
            "Thread blocks that NCCL may take from kernels beside it (0: NCCL's choice), read when ranks meet.",
        ),
    ]
    nvtx: Annotated[
        bool,
        Setting(
            "BLU_NVTX",
            SWITCH,
            False,
            "Whether NVIDIA's profilers show each kernel's line (needs the package nvtx), read once.",
        ),
    ]
    rank_join: Annotated[
        float,
        Setting(
            "BLU_RANK_JOIN",
            Kind("a number of seconds above 0", _seconds),
            120.0,
            "Seconds that ranks which start together wait for each other to be there.",
        ),
    ]
    rank_timeout: Annotated[
        float,
        Setting(
            "BLU_RANK_TIMEOUT",
            Kind("a number of seconds above 0", _seconds),
            300.0,
            "Seconds that ranks wait for one that is silent, or does not come to an exchange, before all end.",
        ),
    ]
    rank_token: Annotated[
        str,
        Setting(
            "BLU_RANK_TOKEN",
            TEXT,
            "",
            "What ranks of one run know, and others do not, so that nobody else joins them.",
            "drawn where ranks are started",
        ),
    ]


def _setting_of(annotated: Any) -> Setting:
    return annotated.__metadata__[0]


TABLE: tuple[Setting, ...] = tuple(map(_setting_of, get_type_hints(Settings, include_extras=True).values()))


def current() -> Settings:
    """What the environment asks for now. SettingError for the first thing in it that nothing here fits."""
    for problem in unknown():
        raise problem
    return Settings(**{setting.field: setting.value() for setting in TABLE})


def problems() -> list[SettingError]:
    """Everything in the environment that is to be mended: unknown names, and values that do not fit."""
    found = unknown()
    for setting in TABLE:
        try:
            setting.value()
        except SettingError as error:
            found.append(error)
    return found


def unknown() -> list[SettingError]:
    """An error for each variable that is named as settings are, and is none."""
    names = [setting.name for setting in TABLE]
    found = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in names)
    guesses = [suggestion(name.upper(), names, most=1) for name in found]
    return [
        SettingError(f"there is no setting {name}", name=name, advice=f"{guess} {_ADVICE}".strip())
        for name, guess in zip(found, guesses, strict=True)
    ]


def as_environment(**values: Any) -> dict[str, str]:
    """Variables that give settings (by their names among `Settings`) these values, here or in another process."""
    names = {setting.field: setting.name for setting in TABLE}
    return {names[field]: as_text(value) for field, value in values.items()}
