"""Reads an x86-64 ELF relocatable object: every offset, index and size that the file names is checked here."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from blu.dataclass import dataclass, field
from blu.errors import CacheError

PAGE = 4096
MAX_IMAGE = 1 << 30
_MAX_ALIGNMENT = PAGE
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
ALLOCATED, WRITABLE, EXECUTABLE, _THREAD_LOCAL = 2, 1, 4, 0x400
_SYMTAB, _RELA_SECTION, _NOBITS, _REL_SECTION = 2, 4, 8, 9
_CONSTRUCTORS = (b".ctors", b".dtors", b".init_array", b".fini_array", b".preinit_array")
UNDEFINED, ABSOLUTE, _RESERVED = 0, 0xFFF1, 0xFF00


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


class PatchedPlace(NamedTuple):
    """The quantities of the ABI's relocation formulas."""

    S: int
    A: int
    P: int
    L: int
    G: int
    GOT: int


class Formula(NamedTuple):
    """How a relocation's value is computed and stored; 64-bit values wrap, 32-bit ones must fit."""

    name: str
    size: int
    signed: bool
    value: Callable[[PatchedPlace], int]


# By the numbers of the x86-64 ABI.
FORMULAS = {
    1: Formula("64", 8, False, lambda p: p.S + p.A),
    2: Formula("PC32", 4, True, lambda p: p.L + p.A - p.P),
    4: Formula("PLT32", 4, True, lambda p: p.L + p.A - p.P),
    9: Formula("GOTPCREL", 4, True, lambda p: p.G + p.A - p.P),
    10: Formula("32", 4, False, lambda p: p.L + p.A),
    11: Formula("32S", 4, True, lambda p: p.L + p.A),
    24: Formula("PC64", 8, True, lambda p: p.S + p.A - p.P),
    25: Formula("GOTOFF64", 8, True, lambda p: p.S + p.A - p.GOT),
    26: Formula("GOTPC32", 4, True, lambda p: p.GOT + p.A - p.P),
    27: Formula("GOT64", 8, True, lambda p: p.G - p.GOT + p.A),
    29: Formula("GOTPC64", 8, True, lambda p: p.GOT + p.A - p.P),
    31: Formula("PLTOFF64", 8, True, lambda p: p.L + p.A - p.GOT),
    41: Formula("GOTPCRELX", 4, True, lambda p: p.G + p.A - p.P),
    42: Formula("REX_GOTPCRELX", 4, True, lambda p: p.G + p.A - p.P),
}
NONE = 0
ABSOLUTE_32 = (10, 11)


def check(condition: bool, message: str) -> None:
    """CacheError unless `condition` holds."""
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
        return [(index, section) for index, section in enumerate(self.sections) if section.flags & ALLOCATED]

    def _read_sections(self) -> None:
        check(len(self.data) >= _HEADER.size, "shorter than an ELF header")
        ident, kind, machine, _, _, _, offset, _, _, _, _, size, count, names = _HEADER.unpack_from(self.data)
        check(ident[:7] == b"\x7fELF\x02\x01\x01", "not a 64-bit little-endian ELF file")
        check(kind == 1 and machine == 62, "not an x86-64 relocatable object")
        check(size == _SECTION.size and 0 < count < _RESERVED, "section headers of an unknown size or number")
        check(offset <= len(self.data) - count * size, "section headers beyond the end of the file")
        self.sections = [Section(*_SECTION.unpack_from(self.data, offset + i * size)) for i in range(count)]
        for index, section in enumerate(self.sections):
            self._check_section(index, section)
        check(names < count, "the section names lie in a section that does not exist")
        text = self.contents(self.sections[names])
        for index, section in self.loaded():
            check(not text.startswith(_CONSTRUCTORS, section.name), f"section {index} holds constructors")

    def _check_section(self, index: int, section: Section) -> None:
        check(section.size <= MAX_IMAGE, f"section {index} of {section.size} bytes")
        inside = section.offset <= len(self.data) and section.size <= len(self.data) - section.offset
        check(section.type == _NOBITS or inside, f"section {index} lies beyond the end of the file")
        check(section.link < len(self.sections), f"section {index} links to a section that does not exist")
        if not section.flags & ALLOCATED:
            return
        alignment = max(section.alignment, 1)
        power = alignment & (alignment - 1) == 0
        check(power and alignment <= _MAX_ALIGNMENT, f"section {index} aligned to {alignment}")
        check(not section.flags & _THREAD_LOCAL, f"section {index} is thread-local")

    def _read_symbols(self) -> None:
        tables = [section for section in self.sections if section.type == _SYMTAB]
        check(len(tables) <= 1, "several symbol tables")
        if not tables:
            return
        names = self.contents(self.sections[tables[0].link])
        table = self.contents(tables[0])
        check(len(table) % _SYMBOL.size == 0, "a symbol table of a broken length")
        self.symbols = [self._symbol(entry, names) for entry in _SYMBOL.iter_unpack(table)]

    def _symbol(self, entry: tuple[int, ...], names: bytes) -> Symbol:
        name_at, info, _, section, value, _ = entry
        end = names.find(b"\0", name_at)
        check(name_at == 0 or end >= 0, "a symbol's name lies beyond the string table")
        name = names[name_at:end].decode("utf-8", "replace") if name_at else ""
        exists = section < len(self.sections) or section == ABSOLUTE
        check(exists, f"symbol {name!r} in a section that does not exist")
        if section not in (UNDEFINED, ABSOLUTE):
            check(value <= self.sections[section].size, f"symbol {name!r} lies beyond its section")
        return Symbol(name, info >> 4, section, value)

    def _read_relocations(self) -> None:
        for section in self.sections:
            if section.type not in (_RELA_SECTION, _REL_SECTION) or not section.size:
                continue
            check(section.info < len(self.sections), "relocations of a section that does not exist")
            if not self.sections[section.info].flags & ALLOCATED:
                continue
            table = self.contents(section)
            whole = section.type == _RELA_SECTION and len(table) % _RELA.size == 0
            check(whole, "a relocation table of a broken kind")
            self.relocations += [self._relocation(section.info, *entry) for entry in _RELA.iter_unpack(table)]

    def _relocation(self, target: int, offset: int, info: int, addend: int) -> Relocation:
        symbol, kind = info >> 32, info & 0xFFFFFFFF
        check(symbol < len(self.symbols), "a relocation against a symbol that does not exist")
        check(kind == NONE or kind in FORMULAS, f"relocation type {kind}, which is not known")
        size = FORMULAS[kind].size if kind else 0
        section = self.sections[target]
        check(section.type != _NOBITS and offset + size <= section.size, "a relocation beyond its section")
        return Relocation(target, offset, kind, symbol, addend)
