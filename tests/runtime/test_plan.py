"""Plans of programs: damaged ones and those for other machines are refused with a reason."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blu.errors import CacheError, UnsupportedError
from blu.plan.schema import Plan
from blu.runtime import Program
from tests.support.kernels import native_code as native
from tests.support.programs.runtime_programs import KERNELS, launch, load, tensor


def test_programs_for_other_machines_are_refused():
    other = {"name": "aarch64", "triple": "aarch64-unknown-linux-gnu"}
    from blu.runtime.artifact import MANIFEST, make_manifest

    members = native.members(KERNELS, {})
    members[MANIFEST] = json.dumps(make_manifest(members, {"target": other})).encode()
    with pytest.raises(UnsupportedError, match="compiled for aarch64"):
        Program.load(members)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"arena_bytes": -1}, "the size of the arena is -1"),
        ({"arena_bytes": True}, "the size of the arena is True"),
        ({"arena_bytes": "8"}, "the size of the arena is '8'"),
        ({"inputs": 3}, "inputs is no list"),
        ({"inputs": [tensor("x", (2, -1))]}, "a dimension of argument 0 is -1"),
        ({"inputs": [tensor("x", (1 << 40, 1 << 40))]}, "argument 0 has the shape"),
        ({"inputs": [tensor("x", (2,), "f7")]}, "dtype 'f7'"),
        ({"outputs": [tensor("", (2,), input=0)]}, "argument 0, which does not exist"),
        ({"inputs": [tensor("x", (2,))], "outputs": [tensor("", (2,), input=0)]}, "not donated"),
        ({"launches": [launch("multiply", 1 << 31)]}, "number of blocks"),
        ({"launches": [launch("multiply", 1, chunk=0)]}, "chunk of multiply is 0"),
        ({"launches": [launch("multiply", 1, ["input", 0, 0])]}, "input 0, of which there is none"),
        ({"launches": [launch("multiply", 1, ["arena", 64])]}, "beyond arena 0"),
        ({"launches": [launch("multiply", 1, ["heap", 0])]}, "a kernel argument is"),
        ({"launches": [launch("multiply", 1, ["arena", 0, 0])]}, "a kernel argument is"),
        ({"launches": [launch("missing", 1)]}, "does not define 'missing.entry'"),
        ({"constants": [{"offset": 64, "bytes": 4}]}, "beyond constants.bin"),
        ({"constants": [{"offset": 3, "bytes": 4}]}, "no multiple of 64"),
        ({"checks": [{"kind": "odd"}]}, "kind 'odd'"),
        ({"checks": [{"kind": "index"}]}, "fewer status slots"),
        ({"launches": [launch("gather", 1, ["status", 8])]}, "beyond status 0"),
    ],
)
def test_damaged_plans_are_refused(plan, message):
    with pytest.raises(CacheError, match=message):
        load(**plan)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
WHOLE = {
    "arena_bytes": 64,
    "inputs": [tensor("x", (2,), donated=True)],
    "outputs": [tensor("", (2,), input=0)],
    "constants": [{"offset": 0, "bytes": 0}],
    "launches": [launch("multiply", 2, ["input", 0, 0], ["arena", 0, [0, 32, 1, 2]], ["status", 0])],
    "loops": [{"first": 0, "last": 1, "count": 3}],
    "status_slots": 1,
    "checks": [{"kind": "index", "op": "take", "size": 3, "location": "a.py:1"}],
}


@settings(max_examples=200, deadline=None)
@given(st.data(), JSON)
def test_any_value_in_a_plan_is_judged(data, value):
    plan = json.loads(json.dumps(WHOLE))
    place = plan
    while True:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = value
    try:
        Plan.parse(json.dumps(plan).encode())
    except CacheError as error:
        assert "damaged plan" in str(error)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"[" * 100_000, b"\xff", b"null"])
def test_plans_that_are_no_json_objects(text):
    with pytest.raises(CacheError, match="damaged plan"):
        Plan.parse(text)


def test_loops_are_written_out():
    plan = json.loads(json.dumps(WHOLE))
    found = Plan.parse(json.dumps(plan).encode())
    assert [item.args[1].offset for item in found.launches] == [32, 0, 32]
    assert not found.loops


@pytest.mark.parametrize(
    ("loops", "message"),
    [
        ([{"first": 0, "last": 2, "count": 3}], "a loop of launches that there are not"),
        ([{"first": 0, "last": 1, "count": 1 << 21}], "loops of too many launches"),
        ([{"first": 0, "last": 1, "count": 2}, {"first": 0, "last": 1, "count": 1 << 20}], "too many launches"),
        ([{"first": 1, "last": 0, "count": 3}], "a loop is of the launches 1 to 0"),
        ([{"first": 0, "last": 0, "count": 1 << 60}], "an argument steps with a loop that it is not in"),
        ([{"first": 0, "last": 1, "count": 1}] * 513, "too many loops"),
    ],
)
def test_loops_that_cannot_be_are_refused(loops, message):
    with pytest.raises(CacheError, match=message):
        Plan.parse(json.dumps({**WHOLE, "loops": loops}).encode())
