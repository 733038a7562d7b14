"""The text of a module for people; it reads back as the same module, as MLIR's own text does.

MLIR numbers values, maps and locations through the file, so that one op more changes most lines after it. Here all are
called after what they are (`value_names.py`), so that the difference between two texts is what has changed:

    %h.0.mlp.c_fc.addf = call @gemm_2(%h.0.ln_2.addf, %model.h.0.mlp.c_fc.weight, ...) loc(#loc_h_0_mlp_c_fc_37)

Arguments have a line each, and so have inputs and outputs of loops, and the module's attributes; locations stand at the
end; kernels stand in the order of the calls; comments say where `main` comes to another block of the model. Text that
is not as expected here, such as that of IR which does not verify, is given as MLIR prints it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import PurePath

from blu.compiler.driver.value_names import Definition, ValueNames
from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import attribute_names
from blu.passes.framework.families import ATTRIBUTE
from blu.passes.framework.launches import HOLDERS

WIDTH = 120
# Dimensions in the names of maps.
_LETTERS = "ijklmnpqrstuvwxyz"
_STRING = r'"(?:[^"\\]|\\.)*"'
_VALUE = re.compile(rf"{_STRING}|(?P<name>%[\w$.-]+)(?P<count>:\d+(?=,? ))?(?P<part>#\d+)?")
_DEFINES = re.compile(r": |(?:, %[\w.-]+(?::\d+)?)* = ")
_PLACE = re.compile(rf"(?<!= )loc\(({_STRING}(?:\(#loc\d*\)|:\d+:\d+)|fused<{_STRING}>\[#loc\d*\])\)")
_ALIAS = re.compile(rf"{_STRING}|#(?:loc|map)\d*(?![\w.])")
_ALIAS_LINE = re.compile(r"(#(?:loc|map)\d*) = (.*)")
_BLOCK = re.compile(r"(?:[^.]+\.)*?\d+(?=\.|$)")
# Which of an op's operands or results there are, of those that there may be: a number for each.
_SLOTS = re.compile(rf"{_STRING}|(?<=SegmentSizes = )array<i32: ([01](?:, [01])+)>")
_FEW_SLOTS = 8
# Ops that are broken into lines.
_LOOP = re.compile(r'( *)(%\S+ = linalg\.[^"]*(?:"(?:parallel|reduction|highest)"[^"]*)*?) (ins\(.*\)) (outs\(.*)')
_CALL = re.compile(r"( *)((?:%\S+ = |%\S+ )*call @\w+\(.*?\)) (: \(.*)")
_LAUNCH = re.compile(r"( *)(gpu\.launch_func .*?) (args\(.*)")


class _UnexpectedTextError(Exception):
    """Text that does not follow the module as it should."""


def readable_text(module: ir.Module, printed: str) -> str:
    """The text of a module, which MLIR has `printed` under its own names of values, as above."""
    (text,) = _readable_texts(module, [printed])
    return text if isinstance(text, str) else text.joined()


def dumped_text(module: ir.Module, *, locations: bool = True) -> str:
    """All of a module, constants in full, as people read it."""
    return readable_text(module, module.operation.get_asm(enable_debug_info=locations))


@dataclass(frozen=True)
class DumpedText:
    """All of a module, constants in full, as people read it: with locations, and without (`plain`)."""

    text: str
    plain: str
    _parts: _Parts | None

    @classmethod
    def of(cls, module: ir.Module) -> DumpedText:
        """The text of a module as it is now."""
        printed = [module.operation.get_asm(enable_debug_info=locations) for locations in (True, False)]
        whole, plain = _readable_texts(module, printed)
        if isinstance(whole, str) or isinstance(plain, str):
            return cls(str(whole), str(plain), None)
        return cls(whole.joined(), plain.joined(), whole)

    def with_attributes_of(self, module: ir.Module) -> str:
        """The text with locations, of the module when only its attributes are other ones by now."""
        return self._parts.with_attributes_of(module).joined() if self._parts else dumped_text(module)


def _readable_texts(module: ir.Module, texts: list[str]) -> Sequence[_Parts | str]:
    """The parts of each text, or all of them as MLIR has printed them."""
    texts = [text.rstrip("\n") for text in texts]
    try:
        names = ValueNames(module)
        return [_Text.of(text.split("\n")).renamed(module, names) for text in texts]
    except (_UnexpectedTextError, LookupError, ValueError):
        return [f"{text}\n" for text in texts]


@dataclass(frozen=True)
class _Parts:
    """A module's text, from the top: aliases, those of long attributes, the first line, the functions, locations."""

    above: list[str]
    long: list[str]
    head: str
    body: str
    below: list[str]

    def joined(self) -> str:
        return "\n".join([*self.above, *self.long, self.head, self.body, *self.below, ""])

    def with_attributes_of(self, module: ir.Module) -> _Parts:
        long, head = _head(_attributes_of(module))
        return replace(self, long=long, head=head)


@dataclass(frozen=True)
class _Text:
    """Lines of a module's text by what they are; `bodies` are those of each op of the module."""

    aliases: list[str]
    head: str
    bodies: list[list[str]]
    tail: str

    @classmethod
    def of(cls, lines: list[str]) -> _Text:
        aliases = [line for line in lines if line.startswith("#")]
        lines = [line for line in lines if line and not line.startswith("#")]
        if len(lines) < 2 or not lines[0].startswith("module") or not lines[-1].startswith("}"):
            raise _UnexpectedTextError
        return cls(aliases, lines[0], _bodies(lines[1:-1], "  "), lines[-1])

    def renamed(self, module: ir.Module, names: ValueNames) -> _Parts:
        """All of it, as people read it."""
        long, head = self._head(module)
        text = "\n".join([*_written(_operations(module.body), self.bodies, names), self.tail])
        return _with_aliases(self.aliases, long, head, text)

    def _head(self, module: ir.Module) -> tuple[list[str], str]:
        attributes = _attributes_of(module)
        written = ", ".join(name if text == "unit" else f"{name} = {text}" for name, text in attributes.items())
        return _head(attributes) if self.head == f"module attributes {{{written}}} {{" else ([], self.head)


def _bodies(lines: list[str], indent: str) -> list[list[str]]:
    """The lines of each op that begins behind an indent."""
    bodies: list[list[str]] = []
    inside = tuple(indent + character for character in " }^")  # how lines within an op begin
    for line in lines:
        if line.startswith(indent) and not line.startswith(inside):
            bodies.append([])
        if not bodies:
            raise _UnexpectedTextError
        bodies[-1].append(line)
    return bodies


def _operations(block: ir.Block) -> list[ir.Operation]:
    return [item.operation for item in block.operations]


def _written(operations: list[ir.Operation], bodies: list[list[str]], names: ValueNames) -> list[str]:
    """The text of each op of a module: functions in the order of the calls, then the rest."""
    symbols = [_symbol(item) for item in operations]
    if len(symbols) != len(bodies) or len(set(symbols)) != len(symbols):
        raise _UnexpectedTextError
    places = {symbol: place for place, symbol in enumerate(names.order)}
    texts = [_text_of(*each, names) for each in zip(operations, bodies, symbols, strict=True)]
    order = sorted(range(len(texts)), key=lambda number: places.get(symbols[number], len(places)))
    return [texts[number] for number in order]


def _text_of(operation: ir.Operation, lines: list[str], symbol: str, names: ValueNames) -> str:
    if operation.name in HOLDERS:
        first, *inner, last = lines
        held = _written(_operations(operation.regions[0].blocks[0]), _bodies(inner, "    "), names) if inner else []
        return "\n".join([first, *held, last])
    text = "\n".join(lines)
    if names.functions.get(symbol) == operation:  # and not declared here only
        text = _with_blocks(_renamed(text, names.definitions.get(symbol, [])), operation, names)
    return "\n".join(map(_broken, text.split("\n")))


def _symbol(operation: ir.Operation) -> str:
    attributes = operation.attributes
    return ir.StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else f"#{id(operation)}"


def _attributes_of(module: ir.Module) -> dict[str, str]:
    return {name: str(module.operation.attributes[name]) for name in attribute_names(module)}


def _head(attributes: dict[str, str]) -> tuple[list[str], str]:
    """Definitions of the module's long attributes, and its first line with an attribute on each."""
    if not attributes:
        return [], "module {"
    aliases = {name: f"#{re.sub(r'[^A-Za-z0-9]', '_', name)}" for name, text in attributes.items() if len(text) > WIDTH}
    items = [f"  {name}" + f" = {aliases.get(name, text)}" * (text != "unit") for name, text in attributes.items()]
    long = [f"{alias} = {attributes[name]}" for name, alias in aliases.items()]
    return long, "module attributes {\n" + ",\n".join(items) + "\n} {"


def _renamed(text: str, definitions: list[Definition]) -> str:
    """The text of a function with our names for its values."""
    header, apart = text.find("\n"), "\n" + " " * (len(text) - len(text.lstrip(" ")) + 4)
    known: dict[str, Definition] = {}
    later = {item.printed: item for item in reversed(definitions)}
    position = 0

    def named(match: re.Match[str]) -> str:
        nonlocal position
        name = match["name"]
        if name is None:
            return match[0]
        is_next = position < len(definitions) and definitions[position].printed == name
        defines = is_next and (bool(match["count"]) or _DEFINES.match(text, match.end()) is not None)
        if defines or (is_next and name not in known):
            known[name] = definitions[position]
            position += 1
        definition = known.get(name) or later.get(name)
        if definition is None:
            raise _UnexpectedTextError
        if not defines:
            return _use(definition, match["part"])
        on_its_own_line = definition.parameter and match.start() < header and header > WIDTH
        return (apart if on_its_own_line else "") + _definition(definition, match["count"])

    changed = _VALUE.sub(named, text)
    if position != len(definitions):
        raise _UnexpectedTextError
    return changed.replace(f", {apart}%", f",{apart}%")


def _definition(definition: Definition, count: str | None) -> str:
    first, *others = definition.names
    if others:
        return ", ".join(f"%{name}" for name in definition.names)
    return f"%{first}{count or ''}"


def _use(definition: Definition, part: str | None) -> str:
    first, *others = definition.names
    if others and part is not None:
        return f"%{definition.names[int(part[1:])]}"
    return f"%{first}{part or ''}"


def _broken(line: str) -> str:
    """A long line in parts that change independently: inputs and outputs of loops, arguments and types of calls."""
    found = None
    if len(line) > WIDTH:
        found = _LOOP.fullmatch(line) or _CALL.fullmatch(line) or _LAUNCH.fullmatch(line)
    if found is None:
        return line
    indent, *parts = found.groups()
    return f"\n{indent}    ".join([indent + parts[0], *parts[1:]])


def _with_blocks(text: str, function: ir.Operation, names: ValueNames) -> str:
    """With a comment where a function comes to another block of the model, `// h.3`."""
    blocks = [block for region in function.regions for block in region]
    operations = [item.operation for block in blocks[:1] for item in block.operations]
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if re.match(r"    [^ }^)]", line)]
    is_kernel = ATTRIBUTE in function.attributes
    if is_kernel or len(blocks) != 1 or len(starts) != len(operations):
        return text
    comments, current = {}, ""
    for start, operation in zip(starts, operations, strict=True):
        found = _block(names.path(operation.location))
        if found and found != current:
            comments[start] = f"    // {found}"
            current = found
    return "\n".join(f"{comments[n]}\n{line}" if n in comments else line for n, line in enumerate(lines))


def _block(path: str) -> str:
    """The block of a model that a module path leads into: `h.3` of `h.3.mlp.c_fc`."""
    found = _BLOCK.match(path)
    return found[0] if found else ""


def _with_aliases(aliases: list[str], long: list[str], head: str, text: str) -> _Parts:
    """The text under names for maps and locations that say what they are; maps stand above it, locations below."""
    known = {match[1]: match[2] for match in map(_ALIAS_LINE.fullmatch, aliases) if match}
    places = {body[4:-1]: alias for alias, body in known.items() if alias.startswith("#loc")}
    for match in _PLACE.finditer(f"{head}\n{text}"):
        # Some that arguments have are under no name, and what is in them could not be read before it is told below.
        if "#loc" in match[1] and match[1] not in places:
            alias = places[match[1]] = f"#loc{len(aliases) + len(known)}"
            known[alias] = f"loc({match[1]})"
    named = _alias_names(known)

    def shorten(match: re.Match[str]) -> str:
        return f"loc({places[match[1]]})" if match[1] in places else match[0]

    def rename(match: re.Match[str]) -> str:
        return named.get(match[0], match[0])

    others = [line for line in aliases if not _ALIAS_LINE.fullmatch(line)]
    lines = {alias: _ALIAS.sub(rename, f"{alias} = {body}") for alias, body in known.items()}
    maps = sorted(line for alias, line in lines.items() if alias.startswith("#map"))
    above = [*maps, *(_ALIAS.sub(rename, line) for line in others)]
    # A location stands behind those that it is made of.
    locations = [alias for alias in known if alias.startswith("#loc")]
    below = [lines[alias] for alias in sorted(locations, key=lambda alias: (_depth(alias, known), named[alias]))]
    head, text = (_ALIAS.sub(rename, _PLACE.sub(shorten, item)) for item in (head, text))
    slots, text = _with_slots(text)
    return _Parts([*above, *slots], long, head, text, below)


def _with_slots(text: str) -> tuple[list[str], str]:
    """Names for long lists of slots, `#slots_3_of_16` where the first three are taken; and the text with them."""
    found: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        slots = match[1].split(", ") if match[1] else []
        if len(slots) <= _FEW_SLOTS or slots != sorted(slots, reverse=True):
            return match[0]
        alias = f"#slots_{slots.count('1')}_of_{len(slots)}"
        found[alias] = match[0]
        return alias

    text = _SLOTS.sub(name, text) if "SegmentSizes" in text else text
    return [f"{alias} = {found[alias]}" for alias in sorted(found)], text


def _depth(alias: str, known: dict[str, str]) -> int:
    return max((1 + _depth(child, known) for child in re.findall(r"#loc\d*", known.get(alias, ""))), default=0)


def _alias_names(known: dict[str, str]) -> dict[str, str]:
    """A name for each alias, made of what it stands for."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for alias, body in known.items():
        describe: Callable[[str, dict[str, str]], str] = _map_name if alias.startswith("#map") else _location_name
        base = name = re.sub(r"\W", "_", describe(body, known), flags=re.ASCII)
        number = 1
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        taken.add(name)
        names[alias] = f"#{name}"
    return names


def _map_name(body: str, known: dict[str, str]) -> str:
    """`ij_to_j` for `affine_map<(d0, d1) -> (d1)>`."""
    found = re.fullmatch(r"affine_map<\(([d\d, ]*)\) -> \((.*)\)>", body)
    if found is None or not found[1]:
        return "map"
    words = {"*": "_times_", "+": "_plus_", "-": "_minus_", " ": "_"}
    dimensions, results = found.groups()
    results = re.sub(r"[*+ -]", lambda match: words[match[0]], re.sub(r" ([*+-]) ", r"\1", results.replace(", ", "")))
    name = f"{dimensions.replace(', ', '')}_to_{results or 'none'}"
    name = re.sub(r"d(\d+)", lambda match: _LETTERS[int(match[1])] if int(match[1]) < len(_LETTERS) else match[0], name)
    return name if len(name) < WIDTH // 3 else "map"


def _location_name(body: str, known: dict[str, str]) -> str:
    """`loc_layers_37` for a line, `loc_h_0_attn_52` for a line of a module; `_fused`, `_called` behind these."""
    place = re.fullmatch(r'loc\("(.*)":(\d+):(\d+)\)', body)
    if place:
        column = "" if place[3] == "1" else f"_{place[3]}"
        return f"loc_{PurePath(place[1]).stem}_{place[2]}{column}"
    child = re.search(r"#loc\d*(?!\w)", body)
    named = re.fullmatch(r'loc\("(.*)"\(#loc\d*\)\)', body)
    if named and child:
        line = re.fullmatch(r'loc\(".*":(\d+):\d+\)', known.get(child[0], ""))
        return f"loc_{named[1]}" + (f"_{line[1]}" if line else "")
    if child is None or child[0] not in known:
        return "loc_unknown"
    return _location_name(known[child[0]], known) + ("_called" if body.startswith("loc(callsite") else "_fused")
