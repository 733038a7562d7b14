"""Several ELF objects as one: what `ld -r` does, for objects as LLVM writes them for kernels.

Kernels are compiled one by one, so that their code can be kept one by one, and a program is one object. Sections of the
same name, type and flags follow each other; symbols, and the relocations that refer to them, move along. Objects are
64-bit and little-endian, for any processor: relocations have their addends beside them (RELA), and are not looked into.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from blu.dataclass import dataclass, field
from blu.runtime.elf import Section

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_PROGBITS, _SYMTAB, _STRTAB, _RELA_TYPE, _NOBITS, _REL, _GROUP, _ADDRSIG = 1, 2, 3, 4, 8, 9, 17, 0x6FFF4C03
_LINK_INFO = 0x40
_LOCAL, _OF_SECTION, _OF_FILE = 0, 3, 4
_RESERVED = 0xFF00


class _Symbol(NamedTuple):
    """A symbol; `info` is its binding (above) and type (the lower four bits)."""

    name: bytes
    info: int
    other: int
    section: int
    value: int
    size: int


class _Kind(NamedTuple):
    """What sections have in common that become one."""

    name: bytes
    type: int
    flags: int
    entry_size: int


@dataclass
class _Part:
    """A section of the result. `index` is its number there, `relocations` (offset, type, symbol, addend)."""

    index: int
    data: bytearray = field(default_factory=bytearray)
    size: int = 0
    alignment: int = 1
    relocations: list[tuple[int, int, int, int]] = field(default_factory=list)

    def append(self, header: Section, data: bytes) -> int:
        """Add a section's bytes; the offset at which they begin."""
        self.alignment = max(self.alignment, header.alignment)
        padding = -self.size % max(1, header.alignment)
        start = self.size + padding
        if header.type != _NOBITS:
            self.data += bytes(padding) + data
        self.size = start + header.size
        return start


class _Object:
    """An object to be read."""

    def __init__(self, data: bytes):
        self.data = data
        self.header = _HEADER.unpack_from(data)
        assert self.header[0][:6] == b"\x7fELF\x02\x01" and self.header[1] == 1, "no relocatable ELF64 object"
        at, count, names = self.header[6], self.header[12], self.header[13]
        self.sections = [Section(*_SECTION.unpack_from(data, at + index * _SECTION.size)) for index in range(count)]
        self.names = [self._text(self.sections[names], section.name) for section in self.sections]
        assert not any(section.type in (_REL, _GROUP) for section in self.sections), "sections of an unknown kind"

    def contents(self, section: Section) -> bytes:
        return b"" if section.type == _NOBITS else self.data[section.offset : section.offset + section.size]

    def symbols(self) -> list[_Symbol]:
        table = next((section for section in self.sections if section.type == _SYMTAB), None)
        if table is None:
            return []
        entries = _SYMBOL.iter_unpack(self.contents(table))
        return [_Symbol(self._text(self.sections[table.link], name), *rest) for name, *rest in entries]

    def _text(self, table: Section, offset: int) -> bytes:
        start = table.offset + offset
        return self.data[start : self.data.index(b"\0", start)]


class _Linker:
    """The result, as far as objects have been added to it."""

    def __init__(self) -> None:
        self.parts: dict[_Kind, _Part] = {}
        self.symbols: list[_Symbol] = []
        self.by_name: dict[bytes, int] = {}

    def add(self, item: _Object) -> None:
        """Append the sections, symbols and relocations of an object."""
        places: dict[int, tuple[_Part, int]] = {}
        for index, section in enumerate(item.sections):
            if section.type not in (0, _SYMTAB, _STRTAB, _RELA_TYPE, _ADDRSIG):
                kind = _Kind(item.names[index], section.type, section.flags, section.entry_size)
                part = self.parts.setdefault(kind, _Part(len(self.parts) + 1))
                places[index] = part, part.append(section, item.contents(section))
        numbers = [self._symbol(symbol, places) for symbol in item.symbols()]
        for section in item.sections:
            if section.type == _RELA_TYPE and section.info in places:
                part, start = places[section.info]
                for offset, info, addend in _RELA.iter_unpack(item.contents(section)):
                    number, moved = numbers[info >> 32]
                    part.relocations.append((start + offset, info & 0xFFFFFFFF, number, addend + moved))

    def _symbol(self, symbol: _Symbol, places: dict[int, tuple[_Part, int]]) -> tuple[int, int]:
        """The number of a symbol among all, and by how much what refers to it moves."""
        part, start = places.get(symbol.section, (None, 0))
        section = part.index if part is not None else symbol.section
        if symbol.info & 15 == _OF_SECTION:
            return self._number(_Symbol(b"", _OF_SECTION, 0, section, 0, 0), f"section {section}".encode()), start
        if symbol.info >> 4 == _LOCAL:
            is_kept = part is not None and symbol.info & 15 != _OF_FILE
            self.symbols.append(symbol._replace(section=section, value=symbol.value + start) if is_kept else _NOTHING)
            return len(self.symbols) - 1, 0
        moved = symbol._replace(section=section, value=symbol.value + start)
        return self._number(moved, b"=" + symbol.name), 0

    def _number(self, symbol: _Symbol, name: bytes) -> int:
        """The number of a symbol that is one in all objects; where it is defined, that counts."""
        known = self.by_name.get(name)
        if known is None:
            self.by_name[name] = known = len(self.symbols)
            self.symbols.append(symbol)
        elif self.symbols[known].section == 0:
            self.symbols[known] = symbol
        else:
            is_same = symbol.section == 0 or symbol.info & 15 == _OF_SECTION
            assert is_same, f"two objects define {symbol.name.decode()}"
        return known


_NOTHING = _Symbol(b"", 0, 0, 0, 0, 0)


def link_objects(objects: Sequence[bytes]) -> bytes:
    """One relocatable object with the code of all; at least one is needed. A name is defined in one of them only."""
    linker = _Linker()
    for data in objects:
        linker.add(_Object(data))
    return _written(_Object(objects[0]).header, linker)


def _written(header: tuple, linker: _Linker) -> bytes:
    """The file: header, sections, their relocations, symbols, names, section headers."""
    order, symbols = _local_first(linker.symbols)
    names, places = _strings(symbol.name for symbol in symbols)
    table = b"".join(
        _SYMBOL.pack(places[item.name], item.info, item.other, item.section, item.value, item.size) for item in symbols
    )
    first_global = next((at for at, item in enumerate(symbols) if item.info >> 4 != _LOCAL), len(symbols))
    related = [(kind, part) for kind, part in linker.parts.items() if part.relocations]
    table_at = len(linker.parts) + len(related) + 1
    rows: list[tuple[bytes, Section, bytes]] = [(b"", Section(0, 0, 0, 0, 0, 0, 0, 0, 0, 0), b"")]
    for kind, part in linker.parts.items():
        described = Section(0, kind.type, kind.flags, 0, 0, part.size, 0, 0, part.alignment, kind.entry_size)
        rows.append((kind.name, described, bytes(part.data)))
    for kind, part in related:
        data = b"".join(
            _RELA.pack(offset, order[number] << 32 | type_, addend)
            for offset, type_, number, addend in part.relocations
        )
        described = Section(0, _RELA_TYPE, _LINK_INFO, 0, 0, len(data), table_at, part.index, 8, _RELA.size)
        rows.append((b".rela" + kind.name, described, data))
    rows.append((b".symtab", Section(0, _SYMTAB, 0, 0, 0, len(table), table_at + 1, first_global, 8, 24), table))
    rows.append((b".strtab", Section(0, _STRTAB, 0, 0, 0, len(names), 0, 0, 1, 0), names))
    return _laid_out(header, rows)


def _laid_out(header: tuple, rows: list[tuple[bytes, Section, bytes]]) -> bytes:
    """Header, the contents of all sections, and their headers."""
    names, places = _strings([*(name for name, _, _ in rows), b".shstrtab"])
    rows = [*rows, (b".shstrtab", Section(0, _STRTAB, 0, 0, 0, len(names), 0, 0, 1, 0), names)]
    file, headers = bytearray(_HEADER.size), []
    for name, described, data in rows:
        file += bytes(-len(file) % max(1, described.alignment))
        headers.append(described._replace(name=places[name], offset=len(file) if name else 0))
        file += data
    file += bytes(-len(file) % 8)
    sizes = (_HEADER.size, 0, 0, _SECTION.size, len(rows), len(rows) - 1)
    _HEADER.pack_into(file, 0, *header[:4], 0, 0, len(file), header[7], *sizes)
    return bytes(file) + b"".join(_SECTION.pack(*described) for described in headers)


def _local_first(symbols: list[_Symbol]) -> tuple[dict[int, int], list[_Symbol]]:
    """Symbols as the standard orders them, without those that are nothing; and where each has come to."""
    kept = [at for at, item in enumerate(symbols) if item is not _NOTHING]
    placed = sorted(kept, key=lambda at: symbols[at].info >> 4 != _LOCAL)
    assert len(placed) < _RESERVED
    order = {old: number + 1 for number, old in enumerate(placed)}
    nothing = {at: 0 for at, item in enumerate(symbols) if item is _NOTHING}
    return order | nothing, [_NOTHING, *(symbols[at] for at in placed)]


def _strings(names: Iterator[bytes] | list[bytes]) -> tuple[bytes, dict[bytes, int]]:
    """A table of strings, and where each is in it."""
    table, places = bytearray(b"\0"), {b"": 0}
    for name in names:
        if name not in places:
            places[name] = len(table)
            table += name + b"\0"
    return bytes(table), places
