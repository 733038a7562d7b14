"""Loads an x86-64 object file into memory, with nothing but the standard library.

The loadable sections are laid out in three page-aligned groups of one mapping: code with a gate for each external
function (`jmp *[rip]` and the address, so that a 32-bit call reaches libm wherever it lies), constants with the table
of addresses (GOT), and data.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable
from functools import cache

from blu.errors import CacheError, UnsupportedError
from blu.runtime.elf import (
    ABSOLUTE,
    ABSOLUTE_32,
    EXECUTABLE,
    FORMULAS,
    MAX_IMAGE,
    NONE,
    PAGE,
    UNDEFINED,
    WRITABLE,
    ObjectFile,
    PatchedPlace,
    Relocation,
    check,
)

_MAP_32BIT = 0x40
_GATE = struct.Struct("<6sQ")
_JUMP = b"\xff\x25\x00\x00\x00\x00"
_TABLE_NAME = "_GLOBAL_OFFSET_TABLE_"
_LIBRARIES = ("libm.so.6", None, "libgcc_s.so.1")


@cache
def _libraries() -> list[ctypes.CDLL]:
    loaded = []
    for name in _LIBRARIES:
        try:
            loaded.append(ctypes.CDLL(name))
        except OSError:
            continue
    return loaded


@cache
def resolve_external(name: str) -> int:
    """The address of a function of libm, libc or libgcc."""
    for library in _libraries():
        try:
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        except (AttributeError, ValueError):
            continue
    raise CacheError(f"the object file calls {name!r}, which this machine's libm, libc and libgcc do not have")


class LoadedObject:
    """An object file in memory. It owns its mapping: addresses are valid as long as this object is alive."""

    def __init__(self, data: bytes):
        self._object = ObjectFile.parse(data)
        self._used = sorted({relocation.symbol for relocation in self._object.relocations})
        self._lay_out()
        self._map()
        self._copy()
        self._fill_tables()
        self._relocate()
        self._protect()
        self.symbols = self._defined()
        del self._object, self._used

    def address(self, name: str) -> int:
        """The address of a global symbol."""
        if name not in self.symbols:
            raise CacheError(f"the object file does not define {name!r}", advice="compile the program again")
        return self.symbols[name]

    def __repr__(self) -> str:
        return f"LoadedObject({len(self.symbols)} symbols, {self._size} bytes)"

    def _lay_out(self) -> None:
        """Offsets of sections, gates and table entries in the mapping, and the groups' (start, end, protection)."""
        self._offsets: dict[int, int] = {}
        self._slots: dict[int, int] = {}
        self._gates: dict[int, int] = {}
        self._groups: list[tuple[int, int, int]] = []
        end = self._place_code()
        end = self._place_table(self._place_sections(end, lambda flags: not flags & (EXECUTABLE | WRITABLE)))
        end = self._close_group(self._groups[-1][1], end, mmap.PROT_READ)
        start = end
        end = self._place_sections(end, lambda flags: flags & WRITABLE and not flags & EXECUTABLE)
        self._size = self._close_group(start, end, mmap.PROT_READ | mmap.PROT_WRITE)

    def _place_code(self) -> int:
        end = self._place_sections(0, lambda flags: flags & EXECUTABLE)
        end += -end % 16
        for index in self._used:
            symbol = self._object.symbols[index]
            if symbol.section == UNDEFINED and symbol.name not in ("", _TABLE_NAME):
                self._gates[index] = end
                end += 16
        return self._close_group(0, end, mmap.PROT_READ | mmap.PROT_EXEC)

    def _place_sections(self, end: int, belongs: Callable[[int], object]) -> int:
        for index, section in self._object.loaded():
            if not belongs(section.flags):
                continue
            end += -end % max(section.alignment, 1)
            self._offsets[index] = end
            end += section.size
            check(end <= MAX_IMAGE, f"sections of more than {MAX_IMAGE} bytes")
        return end

    def _place_table(self, end: int) -> int:
        end += -end % 8
        self._table = end
        for index in self._used:
            self._slots[index] = end
            end += 8
        return end

    def _close_group(self, start: int, end: int, protection: int) -> int:
        end += -end % PAGE
        self._groups.append((start, end, protection))
        return end

    def _map(self) -> None:
        """Map the image, below 2 GB where 32-bit absolute addresses are asked for."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        if any(relocation.type in ABSOLUTE_32 for relocation in self._object.relocations):
            flags |= _MAP_32BIT
        self._memory = mmap.mmap(-1, max(self._size, PAGE), flags=flags)
        self._view = (ctypes.c_char * max(self._size, PAGE)).from_buffer(self._memory)
        self.base = ctypes.addressof(self._view)

    def _copy(self) -> None:
        for index, offset in self._offsets.items():
            contents = self._object.contents(self._object.sections[index])
            self._memory[offset : offset + len(contents)] = contents

    def _fill_tables(self) -> None:
        for index, offset in self._gates.items():
            _GATE.pack_into(self._memory, offset, _JUMP, resolve_external(self._object.symbols[index].name))
        for index, offset in self._slots.items():
            struct.pack_into("<Q", self._memory, offset, self._symbol_address(index) % (1 << 64))

    def _symbol_address(self, index: int) -> int:
        symbol = self._object.symbols[index]
        if index in self._gates:
            return resolve_external(symbol.name)
        if symbol.name == _TABLE_NAME:
            return self.base + self._table
        if symbol.section in (UNDEFINED, ABSOLUTE):
            return symbol.value if symbol.section else 0
        check(symbol.section in self._offsets, f"symbol {symbol.name!r} of a section that is not loaded")
        return self.base + self._offsets[symbol.section] + symbol.value

    def _relocate(self) -> None:
        for relocation in self._object.relocations:
            if relocation.type != NONE:
                self._apply(relocation)

    def _apply(self, relocation: Relocation) -> None:
        name, size, signed, value_at = FORMULAS[relocation.type]
        offset = self._offsets[relocation.section] + relocation.offset
        address = self._symbol_address(relocation.symbol)
        gate = self._gates.get(relocation.symbol)
        near = address if gate is None else self.base + gate
        slot, table = self.base + self._slots[relocation.symbol], self.base + self._table
        value = value_at(PatchedPlace(address, relocation.addend, self.base + offset, near, slot, table))
        bits = size * 8
        low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
        symbol = self._object.symbols[relocation.symbol].name
        check(size == 8 or low <= value < high, f"{symbol!r} is out of reach of a relocation {name}")
        self._memory[offset : offset + size] = (value % (1 << bits)).to_bytes(size, "little")

    def _protect(self) -> None:
        protect = _libc().mprotect
        for start, end, protection in self._groups:
            if end > start and protect(self.base + start, end - start, protection):
                raise UnsupportedError(
                    f"this system does not let programs make code executable (mprotect: errno {ctypes.get_errno()})",
                    advice="allow it for Python (SELinux: execmem), or run elsewhere",
                )

    def _defined(self) -> dict[str, int]:
        return {
            symbol.name: self._symbol_address(index)
            for index, symbol in enumerate(self._object.symbols)
            if symbol.name and symbol.binding and symbol.section in self._offsets
        }


@cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return library
