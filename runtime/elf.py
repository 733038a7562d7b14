"""Loads an x86-64 ELF relocatable object into memory, with nothing but the standard library.

The loadable sections are laid out in three page-aligned groups of one mapping (code, constants, data), followed by a
table of addresses (GOT) and a gate for each external function: `jmp *[rip]` and the address, so that a 32-bit call
reaches libm wherever it lies. Every offset, index and size that the file names is checked before it is used.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from blu.errors import CacheError, UnsupportedError

PAGE = 4096
_MAP_32BIT = 0x40
_MAX_IMAGE = 1 << 30
_MAX_ALIGNMENT = PAGE
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_GATE = struct.Struct("<6sQ")
_JUMP = b"\xff\x25\x00\x00\x00\x00"

_ALLOCATED, _WRITABLE, _EXECUTABLE, _THREAD_LOCAL = 2, 1, 4, 0x400
_SYMTAB, _RELA_SECTION, _NOBITS, _REL_SECTION = 2, 4, 8, 9
_CONSTRUCTORS = (14, 15, 16)
_UNDEFINED, _ABSOLUTE, _RESERVED = 0, 0xFFF1, 0xFF00
_LIBRARIES = ("libm.so.6", None, "libgcc_s.so.1")


class Section(NamedTuple):
    """One section header, by the names of the ELF standard."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class Symbol(NamedTuple):
    """One symbol: `section` is its section's index, or 0 where it is external."""

    name: str
    binding: int
    section: int
    value: int


class Relocation(NamedTuple):
    """Where to write (`section`, `offset`), what (`type`, of `symbol` and `addend`)."""

    section: int
    offset: int
    type: int
    symbol: int
    addend: int


class Place(NamedTuple):
    """The quantities of the ABI's relocation formulas."""

    S: int
    A: int
    P: int
    L: int
    G: int
    GOT: int


# type: (name, bytes, signed, value). 64-bit values wrap, 32-bit ones must fit.
_FORMULAS: dict[int, tuple[str, int, bool, Callable[[Place], int]]] = {
    1: ("64", 8, False, lambda p: p.S + p.A),
    2: ("PC32", 4, True, lambda p: p.L + p.A - p.P),
    4: ("PLT32", 4, True, lambda p: p.L + p.A - p.P),
    9: ("GOTPCREL", 4, True, lambda p: p.G + p.A - p.P),
    10: ("32", 4, False, lambda p: p.L + p.A),
    11: ("32S", 4, True, lambda p: p.L + p.A),
    24: ("PC64", 8, True, lambda p: p.S + p.A - p.P),
    25: ("GOTOFF64", 8, True, lambda p: p.S + p.A - p.GOT),
    26: ("GOTPC32", 4, True, lambda p: p.GOT + p.A - p.P),
    27: ("GOT64", 8, True, lambda p: p.G - p.GOT + p.A),
    29: ("GOTPC64", 8, True, lambda p: p.GOT + p.A - p.P),
    31: ("PLTOFF64", 8, True, lambda p: p.L + p.A - p.GOT),
    41: ("GOTPCRELX", 4, True, lambda p: p.G + p.A - p.P),
    42: ("REX_GOTPCRELX", 4, True, lambda p: p.G + p.A - p.P),
}
_NONE = 0
_ABSOLUTE_32 = (10, 11)


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise CacheError(f"damaged object file: {message}", advice="compile the program again")


@dataclass
class ObjectFile:
    """A parsed object: sections, symbols and relocations, all of them within bounds."""

    data: bytes
    sections: list[Section] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)
    relocations: list[Relocation] = field(default_factory=list)

    @classmethod
    def parse(cls, data: bytes) -> ObjectFile:
        """Read an ELF64 little-endian x86-64 relocatable file; CacheError where it is anything else."""
        parsed = cls(bytes(data))
        parsed._read_sections()
        parsed._read_symbols()
        parsed._read_relocations()
        return parsed

    def contents(self, section: Section) -> bytes:
        """The section's bytes in the file (none for .bss)."""
        return b"" if section.type == _NOBITS else self.data[section.offset : section.offset + section.size]

    def loaded(self) -> list[tuple[int, Section]]:
        """The sections that occupy memory, with their indices."""
        return [(index, section) for index, section in enumerate(self.sections) if section.flags & _ALLOCATED]

    def _read_sections(self) -> None:
        _check(len(self.data) >= _HEADER.size, "shorter than an ELF header")
        ident, kind, machine, _, _, _, offset, _, _, _, _, size, count, _ = _HEADER.unpack_from(self.data)
        _check(ident[:7] == b"\x7fELF\x02\x01\x01", "not a 64-bit little-endian ELF file")
        _check(kind == 1 and machine == 62, "not an x86-64 relocatable object")
        _check(size == _SECTION.size and 0 < count < _RESERVED, "section headers of an unknown size or number")
        _check(offset <= len(self.data) - count * size, "section headers beyond the end of the file")
        self.sections = [Section(*_SECTION.unpack_from(self.data, offset + i * size)) for i in range(count)]
        for index, section in enumerate(self.sections):
            self._check_section(index, section)

    def _check_section(self, index: int, section: Section) -> None:
        _check(section.size <= _MAX_IMAGE, f"section {index} of {section.size} bytes")
        inside = section.offset <= len(self.data) and section.size <= len(self.data) - section.offset
        _check(section.type == _NOBITS or inside, f"section {index} lies beyond the end of the file")
        _check(section.link < len(self.sections), f"section {index} links to a section that does not exist")
        if not section.flags & _ALLOCATED:
            return
        alignment = max(section.alignment, 1)
        power = alignment & (alignment - 1) == 0
        _check(power and alignment <= _MAX_ALIGNMENT, f"section {index} aligned to {alignment}")
        _check(not section.flags & _THREAD_LOCAL, f"section {index} is thread-local")
        _check(section.type not in _CONSTRUCTORS, f"section {index} holds constructors")

    def _read_symbols(self) -> None:
        tables = [section for section in self.sections if section.type == _SYMTAB]
        _check(len(tables) <= 1, "several symbol tables")
        if not tables:
            return
        names = self.contents(self.sections[tables[0].link])
        table = self.contents(tables[0])
        _check(len(table) % _SYMBOL.size == 0, "a symbol table of a broken length")
        self.symbols = [self._symbol(entry, names) for entry in _SYMBOL.iter_unpack(table)]

    def _symbol(self, entry: tuple[int, ...], names: bytes) -> Symbol:
        name_at, info, _, section, value, _ = entry
        end = names.find(b"\0", name_at)
        _check(name_at == 0 or end >= 0, "a symbol's name lies beyond the string table")
        name = names[name_at:end].decode("utf-8", "replace") if name_at else ""
        exists = section < len(self.sections) or section == _ABSOLUTE
        _check(exists, f"symbol {name!r} in a section that does not exist")
        if section not in (_UNDEFINED, _ABSOLUTE):
            _check(value <= self.sections[section].size, f"symbol {name!r} lies beyond its section")
        return Symbol(name, info >> 4, section, value)

    def _read_relocations(self) -> None:
        for section in self.sections:
            if section.type not in (_RELA_SECTION, _REL_SECTION) or not section.size:
                continue
            _check(section.info < len(self.sections), "relocations of a section that does not exist")
            if not self.sections[section.info].flags & _ALLOCATED:
                continue
            table = self.contents(section)
            whole = section.type == _RELA_SECTION and len(table) % _RELA.size == 0
            _check(whole, "a relocation table of a broken kind")
            self.relocations += [self._relocation(section.info, *entry) for entry in _RELA.iter_unpack(table)]

    def _relocation(self, target: int, offset: int, info: int, addend: int) -> Relocation:
        symbol, kind = info >> 32, info & 0xFFFFFFFF
        _check(symbol < len(self.symbols), "a relocation against a symbol that does not exist")
        _check(kind == _NONE or kind in _FORMULAS, f"relocation type {kind}, which is not known")
        size = _FORMULAS[kind][1] if kind else 0
        section = self.sections[target]
        _check(section.type != _NOBITS and offset + size <= section.size, "a relocation beyond its section")
        return Relocation(target, offset, kind, symbol, addend)


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
        end = self._place_table(self._place_sections(end, lambda flags: not flags & (_EXECUTABLE | _WRITABLE)))
        end = self._close_group(self._groups[-1][1], end, mmap.PROT_READ)
        start = end
        end = self._place_sections(end, lambda flags: flags & _WRITABLE and not flags & _EXECUTABLE)
        self._size = self._close_group(start, end, mmap.PROT_READ | mmap.PROT_WRITE)

    def _place_code(self) -> int:
        end = self._place_sections(0, lambda flags: flags & _EXECUTABLE)
        end += -end % 16
        for index in self._used:
            if self._object.symbols[index].section == _UNDEFINED and self._object.symbols[index].name:
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
            _check(end <= _MAX_IMAGE, f"sections of more than {_MAX_IMAGE} bytes")
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
        if any(relocation.type in _ABSOLUTE_32 for relocation in self._object.relocations):
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
        if symbol.section in (_UNDEFINED, _ABSOLUTE):
            return symbol.value if symbol.section else 0
        _check(symbol.section in self._offsets, f"symbol {symbol.name!r} of a section that is not loaded")
        return self.base + self._offsets[symbol.section] + symbol.value

    def _relocate(self) -> None:
        for relocation in self._object.relocations:
            if relocation.type != _NONE:
                self._apply(relocation)

    def _apply(self, relocation: Relocation) -> None:
        name, size, signed, formula = _FORMULAS[relocation.type]
        offset = self._offsets[relocation.section] + relocation.offset
        address = self._symbol_address(relocation.symbol)
        gate = self._gates.get(relocation.symbol)
        near = address if gate is None else self.base + gate
        slot, table = self.base + self._slots[relocation.symbol], self.base + self._table
        value = formula(Place(address, relocation.addend, self.base + offset, near, slot, table))
        bits = size * 8
        low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
        symbol = self._object.symbols[relocation.symbol].name
        _check(size == 8 or low <= value < high, f"{symbol!r} is out of reach of a relocation {name}")
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
