"""`blu.dataclass` beside the standard library's decorator: the same classes by both, and what only ours does."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

from blu.dataclass import dataclass, field
from tests.support.folders import ROOT

BOTH = pytest.mark.parametrize("decorator", [dataclasses.dataclass, dataclass], ids=["standard", "blu"])
Decorator = Callable[..., Any]


@dataclass(frozen=True)
class Point:
    """At the top of a module, as what is pickled has to be."""

    x: int
    y: tuple[int, ...] = ()


def _declared(decorator: Decorator, **options: Any) -> Any:
    @decorator(**options)
    class Declared:
        """With a field of each kind."""

        first: int
        second: str = "two"
        listed: list[int] = field(default_factory=list)
        silent: int = field(default=3, repr=False, compare=False)
        inside: int = field(init=False, default=4)
        made: dict[str, int] = field(init=False, default_factory=dict)
        named: float = field(default=0.5, kw_only=True)

        def __post_init__(self) -> None:
            object.__setattr__(self, "seen", self.first + 1)

    return Declared


@BOTH
@pytest.mark.parametrize("frozen", [False, True])
def test_fields_are_set_compared_and_shown(decorator: Decorator, frozen: bool) -> None:
    cls = _declared(decorator, frozen=frozen)
    one, two = cls(1), cls(1, "two", [], 5, named=0.5)
    assert (one.first, one.second, one.listed, one.silent, one.inside, one.made) == (1, "two", [], 3, 4, {})
    assert (one.named, one.seen, two.silent) == (0.5, 2, 5)
    assert one.listed is not cls(1).listed and one.made is not cls(1).made
    assert one == two and one != cls(2) and one != (1, "two", [], 4, {}, 0.5)
    assert repr(one).endswith("Declared(first=1, second='two', listed=[], inside=4, made={}, named=0.5)")
    assert cls.__match_args__ == ("first", "second", "listed", "silent")
    assert dataclasses.replace(one, second="three") == cls(1, "three")
    assert dataclasses.asdict(one)["second"] == "two" and dataclasses.is_dataclass(cls)


def test_the_signature_is_that_of_the_standard_library() -> None:
    ours, theirs = (str(inspect.signature(_declared(item))) for item in (dataclass, dataclasses.dataclass))
    assert ours == theirs and "listed: 'list[int]' = <factory>" in ours


@BOTH
def test_wrong_arguments_are_refused(decorator: Decorator) -> None:
    cls = _declared(decorator)
    for arguments, keywords in (((), {}), ((1, "two", [], 3, 4), {}), ((1,), {"inside": 1}), ((1,), {"first": 1})):
        with pytest.raises(TypeError, match="__init__"):
            cls(*arguments, **keywords)


@BOTH
def test_what_is_frozen_is_hashed_and_does_not_change(decorator: Decorator) -> None:
    @decorator(frozen=True)
    class Frozen:
        """Of one field."""

        value: int

    class Derived(Frozen):
        """Without the decorator: it may have attributes of its own."""

    one = Frozen(1)
    assert hash(one) == hash(Frozen(1)) == hash((1,)) and {one: 2}[Frozen(1)] == 2
    for change in (lambda: setattr(one, "value", 2), lambda: delattr(one, "value"), lambda: setattr(one, "other", 2)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    derived = Derived(3)
    derived.other = 4  # type: ignore[attr-defined]
    del derived.other  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'value'"):
        derived.value = 5  # type: ignore[misc]
    assert derived != Frozen(3)


@BOTH
def test_what_is_not_frozen_changes_and_has_no_hash(decorator: Decorator) -> None:
    one = _declared(decorator)(1)
    one.first = 7
    assert one.first == 7
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    assert hash(_declared(decorator, eq=False)(1)) and _declared(decorator, eq=False)(1) != one


@BOTH
def test_a_class_keeps_what_it_defines(decorator: Decorator) -> None:
    @decorator(frozen=True)
    class Own:
        """With methods of its own."""

        value: int

        def __init__(self, value: int, more: int = 0) -> None:
            object.__setattr__(self, "value", value + more)

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 42

        def __repr__(self) -> str:
            return "own"

    one = Own(1, 2)
    assert (one.value, one == 5, hash(one), repr(one)) == (3, True, 42, "own")


@BOTH
def test_derived_classes_begin_with_the_fields_of_their_bases(decorator: Decorator) -> None:
    @decorator(frozen=True)
    class Base:
        """First fields."""

        first: int
        second: int = 2

    @decorator(frozen=True)
    class Derived(Base):
        """More."""

        third: int = 3

        def __post_init__(self) -> None:
            assert self.first

    one = Derived(1)
    assert (one.first, one.second, one.third) == (1, 2, 3) and one == Derived(1, 2, 3) != Base(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.second = 4  # type: ignore[misc]
    with pytest.raises(TypeError, match="frozen"):
        decorator(type("Thawed", (Base,), {"__annotations__": {}}))
    with pytest.raises(TypeError, match="frozen"):
        dataclasses.dataclass(type("Thawed", (Base,), {"__annotations__": {}}))


def test_instances_are_copied_pickled_and_matched() -> None:
    one = Point(1, (2,))
    assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    match one:
        case Point(x, y):
            assert (x, y) == (1, (2,))


def test_init_is_written_once_and_in_its_place() -> None:
    cls = _declared(dataclass)
    assert not inspect.isfunction(cls.__dict__["__init__"])
    cls(1)
    written = cls.__dict__["__init__"]
    assert inspect.isfunction(written) and cls.__init__ is written and written.__module__ == __name__


def test_threads_may_make_the_first_instance_at_once() -> None:
    for _ in range(20):
        cls, start, made = _declared(dataclass, frozen=True), threading.Barrier(4), []

        def make(cls: Any = cls, start: threading.Barrier = start, made: list[Any] = made) -> None:
            start.wait()
            made.append(cls(1))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [cls(1)] * 4


def test_no_class_of_the_package_has_the_standard_decorator() -> None:
    """By that, the classes which a first program imports take a tenth of its time (blu/dataclass.py)."""
    standard = re.compile(r"^from dataclasses import .*\bdataclass\b|\bdataclasses\.dataclass\b", re.MULTILINE)
    folders = ("blu", "frontend", "dialects", "passes", "compiler", "runtime")
    files = {path for folder in folders for path in (ROOT / folder).rglob("*.py")}
    assert {path.stem for path in files if standard.search(path.read_text())} == {"dataclass"}
