"""Address maps: names, bit lists, and the C++ decoder against the Python one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim import _core, mem
from cosim.config.errors import ConfigErrors
from cosim.mem.address_map import FIELDS, SHORT

SIZES = {
    "channel": 4,
    "pseudo_channel": 2,
    "stack_id": 1,
    "bank_group": 4,
    "bank": 4,
    "row": 64,
    "column": 32,
}


def core(m: mem.AddressMap) -> _core.MemAddressMap:
    return _core.MemAddressMap(m.core_sizes(), m.access_bytes, m.core_bits())


@st.composite
def maps(draw: st.DrawFn) -> mem.AddressMap:
    sizes = {f: 1 << draw(st.integers(0, 4)) for f in FIELDS}
    short = {v: k for k, v in SHORT.items()}
    words = [f"{short[f]}{i}" for f in FIELDS for i in range(sizes[f].bit_length() - 1)]
    words = draw(st.permutations(words))
    # hashing a bit with the bits above it keeps the map a bijection
    hashed = []
    for i, word in enumerate(words):
        above = words[i + 1 :]
        hashed.append(
            "^".join([word, *draw(st.lists(st.sampled_from(above), max_size=2, unique=True))]) if above else word
        )
    return mem.AddressMap.make(hashed, sizes, 32)


@given(maps(), st.data())
@settings(max_examples=60)
def test_core_agrees_and_comes_back(m: mem.AddressMap, data: st.DataObject) -> None:
    address = data.draw(st.integers(0, m.capacity_bytes // m.access_bytes - 1)) * m.access_bytes
    coordinate = m.decode(address)
    decoder = core(m)
    assert decoder.capacity_bytes == m.capacity_bytes
    assert decoder.decode(address) == [coordinate[f] for f in FIELDS]
    assert decoder.encode([coordinate[f] for f in FIELDS]) == address
    assert all(0 <= coordinate[f] < m.sizes[f] for f in FIELDS)


def test_a_name_runs_from_most_to_least_significant() -> None:
    m = mem.AddressMap.make("RoBaCoBgPcCh", SIZES, 32)
    assert m.decode(32) == dict.fromkeys(FIELDS, 0) | {"channel": 1}
    assert m.decode(32 * 4) == dict.fromkeys(FIELDS, 0) | {"pseudo_channel": 1}
    assert m.decode(32 * 8) == dict.fromkeys(FIELDS, 0) | {"bank_group": 1}
    assert m.decode(m.capacity_bytes - 32) == {f: SIZES[f] - 1 for f in FIELDS}
    split = mem.AddressMap.make("RoCo3BaBgPcCoCh", SIZES, 32)
    assert split.decode(32 * 4)["column"] == 1
    assert split.decode(32 * 4 * 4 * 2 * 4 * 4)["column"] == 4


def test_every_address_has_its_own_coordinate() -> None:
    sizes = {**SIZES, "row": 4, "column": 4}
    m = mem.AddressMap.make(
        ["co0", "bg0^ro1", "bg1^ro0", "pc0^ba1", "ch0", "ch1", "ba0", "ba1", "co1", "ro0", "ro1"], sizes, 32
    )
    seen = {tuple(m.decode(a).values()) for a in range(0, m.capacity_bytes, 32)}
    assert len(seen) == m.capacity_bytes // 32


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("RoBaCoBgPc", "gives channel 0 bits; it has 2"),
        ("RoBaCoBgPcChXx", "unknown field 'Xx'"),
        ("RoRoBaCoBgPcCh", "names row twice"),
        ("Ro-Ba", "not a list of fields"),
        ("RoCo9BaCoBgPcCh", "gives column 9 bits; it has 5"),
        (["co0"], "names 1 address bits; this memory has 18"),
    ],
)
def test_bad_maps(spec: str | list[str], text: str) -> None:
    with pytest.raises(ConfigErrors, match=text):
        mem.AddressMap.make(spec, SIZES, 32)


def test_maps_that_are_no_bijection() -> None:
    sizes = dict.fromkeys(FIELDS, 1) | {"row": 2, "bank": 2}
    with pytest.raises(ConfigErrors, match="not a bijection"):
        mem.AddressMap.make(["ro0^ba0", "ba0^ro0"], sizes, 32)
    with pytest.raises(ConfigErrors, match="named twice"):
        mem.AddressMap.make(["ro0", "ro0"], sizes, 32)
    with pytest.raises(ValueError, match="not a bijection"):
        _core.MemAddressMap([1, 1, 1, 1, 2, 2, 1], 32, [(5, 0, 96), (4, 0, 96)])


@given(maps(), st.data())
@settings(max_examples=40, deadline=None)
def test_banks_of_a_region_are_those_of_its_bursts(m: mem.AddressMap, data: st.DataObject) -> None:
    bursts = m.capacity_bytes // m.access_bytes
    first = data.draw(st.integers(0, bursts - 1))
    count = data.draw(st.integers(1, min(300, bursts - first)))
    wanted = {tuple(m.decode((first + i) * m.access_bytes)[f] for f in FIELDS[:5]) for i in range(count)}
    assert m.banks_of(first * m.access_bytes, count * m.access_bytes) == wanted


@given(st.data())
@settings(max_examples=40)
def test_bursts_of_a_request_go_where_the_map_says(data: st.DataObject) -> None:
    """A long request is cut lazily, channel by channel: the same bursts as decoding each address."""
    name = data.draw(st.sampled_from(["RoBaSiCoBgPcCh", "ChRoBaSiPcCoBg", "RoCo2BaSiPcBgChCo"]))
    channels = data.draw(st.sampled_from([1, 2, 4]))
    memory = mem.Memory({"preset": "HBM2_2000", "channels": channels, "address_map": name})
    count = data.draw(st.integers(1, 300))
    first = data.draw(st.integers(0, memory.capacity_bytes // 32 - count)) * 32
    frame = pd.DataFrame({"arrive_cycle": [0], "op": ["R"], "address": [first], "size_bytes": [count * 32]})
    run = memory.run_requests(frame, commands=True)
    reads = run.commands[run.commands["command"] == "RD"]
    got = sorted(zip(*(reads[f] for f in FIELDS), strict=True))
    want = sorted(tuple(memory.options.address_map.decode(first + 32 * i).values()) for i in range(count))
    assert [tuple(int(v) for v in g) for g in got] == want
    assert run.banks["bytes"].sum() == count * 32
    assert np.isfinite(run.bandwidth_GBps)
