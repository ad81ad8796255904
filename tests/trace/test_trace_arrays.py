"""Torch, pickle, safetensors and npy files: what data they hold is read, what they ask to run is refused by name."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import struct
import subprocess
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cosim.trace import ReadLimits, TraceError
from cosim.trace.arraytree import describe, open_tree
from cosim.trace.pickles import UnsafePickle, read_pickle
from cosim.trace.tensors import ArrayRef

FILES = Path(__file__).parents[1] / "reference" / "traces"
LIMITS = ReadLimits()
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


def squares(count: int) -> Any:
    return np.arange(count) ** 2 % 97


def read_all(tree: Any) -> Any:
    if isinstance(tree, ArrayRef):
        values = tree.read()
        assert values.shape == tree.shape
        assert values.dtype == tree.dtype
        return values
    if isinstance(tree, dict):
        return {key: read_all(value) for key, value in tree.items()}
    return [read_all(value) for value in tree] if isinstance(tree, list) else tree


def test_every_kind_of_tensor() -> None:
    tree = open_tree(FILES / "torch_kinds.pt", LIMITS)
    values = read_all(tree)
    base = squares(24)
    table = base.reshape(4, 6)
    expected = {
        "whole": base,
        "table": table,
        "transposed": table.T,
        "part": table[1:3, 2:5],
        "expanded": np.broadcast_to(base[:3], (2, 3)),
        "empty": np.empty((0, 4)),
        "scalar": np.array(7),
        "bfloat16": squares(5),
        "parameter": squares(4),
        "uint16": squares(5),
    }
    for name, array in expected.items():
        assert np.array_equal(values[name], array), name
    assert [str(array.dtype) for array in values["dtypes"]] == [
        "float64",
        "float32",
        "float16",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "bool",
    ]
    for array in values["dtypes"]:
        assert np.array_equal(array, squares(5).astype(array.dtype))
    assert values["bfloat16"].dtype == np.float32
    assert values["size"] == (4, 6)
    assert values["ordered"] == {"b": 1, "a": 2}
    assert values["counter"] == {3: 4}
    assert values["default"] == {"x": [1]}
    assert values["plain"] == [None, True, 1.5, "text", (1, 2), -(2**40)]


def test_safetensors() -> None:
    values = read_all(open_tree(FILES / "kinds.safetensors", LIMITS))
    assert np.array_equal(values["ids"], squares(12).reshape(2, 3, 2))
    for name in ("half", "brain", "flags"):
        assert np.array_equal(values[name], squares(5).astype(values[name].dtype))
    assert str(values["brain"].dtype) == "float32"
    assert np.array_equal(values["bytes"], squares(3))


@pytest.mark.parametrize("protocol", range(6))
def test_pickles_of_every_protocol(tmp_path: Path, protocol: int) -> None:
    table = squares(12).reshape(3, 4)
    held = {
        "c": table,
        "fortran": np.asfortranarray(table * 0.5),
        "big": table.astype(">i4"),
        "names": np.array(["a", "bcd"]),
        "number": np.float32(2.5),
        "counter": Counter({1: 2}),
        "default": defaultdict(int, {"x": 3}),
        "mixed": [None, True, False, -5, 1 << 40, 1.5, "é\n", b"x\xff", (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), {7}],
        "shared": [[1]] * 2,
    }
    data = pickle.dumps(held, protocol=protocol)
    found = read_all(read_pickle(memoryview(data), LIMITS, 1 << 20))
    for name in ("c", "fortran", "big", "names"):
        assert np.array_equal(found.pop(name), held.pop(name)), name
    assert found == held


class Runs:
    """What a hostile file does: calls `subprocess.getoutput` when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return subprocess.getoutput, ("touch ran",)


@pytest.mark.parametrize("protocol", range(6))
def test_what_would_run_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int) -> None:
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps({"logical_count": Runs()}, protocol=protocol)
    with pytest.raises(UnsafePickle, match=r"it names \w+\.getoutput, which is no data type read here"):
        read_pickle(memoryview(data), LIMITS, 1 << 20)
    if protocol >= 2:
        (tmp_path / "t.pkl").write_bytes(data)
        with pytest.raises(TraceError, match=r"\w+\.getoutput"):
            open_tree(tmp_path / "t.pkl", LIMITS)
    with zipfile.ZipFile(tmp_path / "t.pt", "w") as archive:
        archive.writestr("a/data.pkl", data)
    with pytest.raises(TraceError, match=r"\w+\.getoutput"):
        open_tree(tmp_path / "t.pt", LIMITS)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "name", ["builtins eval", "os system", "builtins getattr", "torch load", "numpy load", "builtins.str x", "torch nn"]
)
def test_no_name_outside_the_list(name: str) -> None:
    module, attribute = name.split()
    with pytest.raises(UnsafePickle, match="which is no data type read here: never executed"):
        read_pickle(memoryview(f"c{module}\n{attribute}\n.".encode()), LIMITS, 1 << 20)


def test_modules_and_legacy_files_are_refused() -> None:
    with pytest.raises(TraceError, match=r"it names torch\.nn\.modules\.linear\.Linear"):
        open_tree(FILES / "torch_module.pt", LIMITS)
    with pytest.raises(TraceError, match=r"bytes after its end: a torch file of before 1\.6"):
        open_tree(FILES / "torch_legacy.pt", LIMITS)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x80\x05", "truncated: it ends before its STOP"),
        (b"\x80\x06N.", "pickle protocol 6"),
        (b"\x80\x02X\xff\xff\xff\x7fab.", "truncated: 2147483647 bytes asked for"),
        (b"\x80\x02\x8b\xff\xff\x00\x00" + bytes(65535) + b".", "an integer of 65535 bytes"),
        (b"\x80\x02r\xff\xff\xff\x7f.", "nothing on the stack"),
        (b"\x80\x02Nr\xff\xff\xff\x7f.", None),  # a far entry of the memo costs nothing
        (b"\x80\x02j\x05\x00\x00\x00.", "entry 5 of the memo was never written"),
        (b"]N)R.", "it calls something that is no data type"),
        (b"cnumpy\ndtype\n(S'O8'\ntR.", "is not for data"),
        (b"cnumpy\ndtype\n(X\x02\x00\x00\x00O8tR.", "an array of dtype 'O8'"),
        (b"(iposix\nsystem\n.", "operation 'i' at byte 1 is not for data"),
        (b"\x80\x02P1\n.", "operation 'P' at byte 2 is not for data"),
        (b"\x80\x02X\x01\x00\x00\x00xQ.", "an object that lies outside the file"),
    ],
)
def test_odd_pickles(data: bytes, expected: str | None) -> None:
    if expected is None:
        assert read_pickle(memoryview(data), LIMITS, 1 << 20) is None
        return
    with pytest.raises(UnsafePickle) as caught:
        read_pickle(memoryview(data), LIMITS, 1 << 20)
    assert expected in str(caught.value)


def test_work_is_bounded() -> None:
    few = ReadLimits(max_pickle_operations=1000)
    with pytest.raises(UnsafePickle, match="more than 1000 operations"):
        read_pickle(memoryview(b"\x80\x02]" + b"N0" * 600 + b"."), few, 1 << 20)
    copies = b"\x80\x02(" + b"N" * 400 + b"lq\x000" + b"cbuiltins\nlist\nh\x00\x85R0" * 3 + b"N."
    with pytest.raises(UnsafePickle, match="more than 1000 operations"):
        read_pickle(memoryview(copies), few, 1 << 20)


def torch_file(path: Path, pickled: bytes, storages: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", pickled)
        for key, content in storages.items():
            archive.writestr(f"a/data/{key}", content)
    return path


def tensor_pickle(count: int, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> bytes:
    """`torch._utils._rebuild_tensor_v2(storage, offset, size, stride, False, OrderedDict())` as torch writes it."""

    def number(value: int) -> bytes:
        return b"\x8a\x09" + value.to_bytes(9, "little", signed=True)

    def numbers(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(map(number, values)) + b"t"

    storage = b"(X\x07\x00\x00\x00storagectorch\nLongStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu" + number(count)
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("
        + storage
        + b"tQ"
        + number(offset)
        + numbers(size)
        + numbers(stride)
        + b"\x89ccollections\nOrderedDict\n)RtR."
    )


@pytest.mark.parametrize(
    ("count", "offset", "size", "stride", "expected"),
    [
        (4, 0, (2, 2), (2, 1), None),
        (4, 1, (2, 2), (2, 1), "reaches beyond its storage of 4 elements"),
        (4, 0, (5,), (1,), "reaches beyond its storage of 4 elements"),
        (4, -1, (1,), (1,), "a tensor at offset -1"),
        (4, 0, (2,), (-1,), "sizes a tuple: expected up to 8 integers >= 0"),
        (4, 0, (1 << 40, 1 << 20), (0, 0), "its arrays take more than"),
        (4, 0, (2,), (1, 1), "a tensor of size [2] and stride [1, 1]"),
        (5, 0, (2,), (1,), "has 32 bytes, expected 5 x 8"),
    ],
)
def test_tensors_stay_inside_their_storage(
    tmp_path: Path, count: int, offset: int, size: tuple[int, ...], stride: tuple[int, ...], expected: str | None
) -> None:
    content = np.arange(4, dtype="<i8").tobytes()
    path = torch_file(tmp_path / "t.pt", tensor_pickle(count, offset, size, stride), {"0": content})
    if expected is None:
        assert open_tree(path, LIMITS).read().tolist() == [[0, 1], [2, 3]]
        return
    with pytest.raises(TraceError) as caught:
        open_tree(path, LIMITS)
    assert expected in str(caught.value)


def test_a_missing_storage_and_a_compressed_one(tmp_path: Path) -> None:
    pickled = tensor_pickle(4, 0, (4,), (1,))
    with pytest.raises(TraceError, match="storage '0' is not in the file"):
        open_tree(torch_file(tmp_path / "t.pt", pickled, {}), LIMITS)
    with zipfile.ZipFile(tmp_path / "z.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", pickled)
        archive.writestr("a/data/0", bytes(32))
    with pytest.raises(TraceError, match="compressed or encrypted members"):
        open_tree(tmp_path / "z.pt", LIMITS)


def test_members_that_share_their_bytes(tmp_path: Path) -> None:
    """A zip whose directory names one member a thousand times asks for a thousand times its bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a/data/0", bytes(1 << 17))
        info = archive.infolist()[0]
        for number in range(1, 1000):
            twin = zipfile.ZipInfo(f"a/data/{number}")
            twin.header_offset, twin.CRC = info.header_offset, info.CRC
            twin.file_size = twin.compress_size = info.file_size
            archive.filelist.append(twin)
    (tmp_path / "t.pt").write_bytes(buffer.getvalue())
    with pytest.raises(TraceError, match="bytes unpacked, the limit for a file of this size"):
        open_tree(tmp_path / "t.pt", LIMITS)


def test_a_directory_that_would_fill_the_memory(tmp_path: Path) -> None:
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 65534, 65534, 100, 0, 0)
    (tmp_path / "t.npz").write_bytes(b"PK\x03\x04" + bytes(200) + end)
    with pytest.raises(TraceError, match="a directory of 100 bytes for 65534 members"):
        open_tree(tmp_path / "t.npz", LIMITS)


def safetensors_file(path: Path, header: Any, data: bytes, length: int | None = None) -> Path:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(raw) if length is None else length).to_bytes(8, "little") + raw + data)
    return path


ENTRY = {"dtype": "I32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "data", "expected"),
    [
        ({"a": {**ENTRY, "dtype": "Q"}}, bytes(8), "dtype 'Q' is not one of"),
        ({"a": {**ENTRY, "shape": [3]}}, bytes(8), "I32 [3] at bytes 0 to 8 of 8"),
        ({"a": {**ENTRY, "shape": [1 << 40, 1 << 40]}}, bytes(8), "at bytes 0 to 8 of 8"),
        ({"a": {**ENTRY, "data_offsets": [0, 1 << 50]}}, bytes(8), "at bytes 0 to"),
        ({"a": ENTRY, "b": ENTRY}, bytes(8), "arrays that overlap or leave a hole"),
        ({"a": ENTRY}, bytes(9), "truncated: the header describes 8 bytes of arrays, the file has 9"),
        ({"a": 1}, bytes(8), "expected dtype, shape and data_offsets"),
        (b'{"a": 1, "a": 2}', b"", "a name that occurs twice"),
        (b'{"a": ' + b"[" * 100_000, b"", "the header: "),
        (b"{]", b"", "the header: "),
    ],
)
def test_headers_of_safetensors(tmp_path: Path, header: Any, data: bytes, expected: str) -> None:
    with pytest.raises(TraceError) as caught:
        open_tree(safetensors_file(tmp_path / "t.safetensors", header, data), LIMITS)
    assert expected in str(caught.value)


def test_an_oversized_header_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    with path.open("wb") as stream:
        stream.write((1 << 30).to_bytes(8, "little") + b"{")
        stream.truncate((1 << 30) + 100)  # a hole: no disk is used
    with pytest.raises(TraceError, match="a header of 1073741824 bytes, at most"):
        open_tree(path, LIMITS)


def test_npy_files(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.asfortranarray(squares(6).reshape(2, 3)))
    assert np.array_equal(open_tree(tmp_path / "t.npy", LIMITS).read(), squares(6).reshape(2, 3))
    content = (tmp_path / "t.npy").read_bytes()
    (tmp_path / "t.npy").write_bytes(content[:-1])
    with pytest.raises(TraceError, match="needs 48 bytes, 47 are there"):
        open_tree(tmp_path / "t.npy", LIMITS)
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(TraceError, match="pickled objects never"):
        open_tree(tmp_path / "o.npy", LIMITS)


def test_describe() -> None:
    tree = open_tree(FILES / "torch_kinds.pt", LIMITS)
    assert describe({"a": tree["table"], "b": [tree["whole"]] * 3}) == '{"a": int64[4, 6], "b": list of 3 x int64[24]}'
    loop: list[Any] = []
    loop.append(loop)
    assert describe(loop) == "list of 1 x list of 1 x list of 1 x …"


# ---- fuzzing: a file is read or refused, never anything else

EDITS = st.lists(
    st.tuples(st.sampled_from(["set", "delete", "insert"]), st.integers(0, 2**20), st.binary(min_size=1, max_size=12)),
    min_size=1,
    max_size=8,
)


def edited(content: bytes, edits: list[tuple[str, int, bytes]]) -> bytes:
    data = bytearray(content)
    for kind, where, piece in edits:
        at = where % (len(data) + 1)
        if kind == "set":
            data[at : at + len(piece)] = piece
        elif kind == "delete":
            del data[at : at + len(piece)]
        else:
            data[at:at] = piece
    return bytes(data)


def read_or_refuse(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(TraceError):
        path = Path(folder) / "t"
        path.write_bytes(content)
        tree = open_tree(path, LIMITS)
        describe(tree)
        read_all(tree if not isinstance(tree, (list, dict)) else [leaf for leaf in tree if isinstance(leaf, ArrayRef)])


@pytest.mark.parametrize("name", ["torch_kinds.pt", "kinds.safetensors"])
@given(edits=EDITS)
@settings(deadline=None, max_examples=60, phases=PHASES)
def test_edited_files(name: str, edits: list[tuple[str, int, bytes]]) -> None:
    read_or_refuse(edited((FILES / name).read_bytes(), edits))


@given(edits=EDITS)
@settings(deadline=None, max_examples=80, phases=PHASES)
def test_edited_pickle_of_a_sound_archive(edits: list[tuple[str, int, bytes]]) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(FILES / "torch_kinds.pt") as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, edited(content, edits) if name.endswith("data.pkl") else content)
    read_or_refuse(buffer.getvalue())


@given(edits=EDITS, header=st.booleans())
@settings(deadline=None, max_examples=40, phases=PHASES)
def test_edited_header_of_safetensors(edits: list[tuple[str, int, bytes]], header: bool) -> None:
    content = (FILES / "kinds.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    raw = edited(content[8 : 8 + length], edits)
    read_or_refuse((len(raw) if header else length).to_bytes(8, "little") + raw + content[8 + length :])


OPERATIONS = st.sampled_from(
    [
        bytes([code])
        for code in b"(.012NIJKMGXUTBC)t]le}dsuabcRQqrhjp\x80\x85\x86\x87\x88\x8a\x8c\x8e\x8f\x90\x93\x94\x95\x96"
    ]
)
NAMES = st.sampled_from(
    [b"ctorch._utils\n_rebuild_tensor_v2\n", b"ccollections\nOrderedDict\n", b"cnumpy\ndtype\n", b"cos\nsystem\n"]
)


@given(parts=st.lists(st.one_of(OPERATIONS, NAMES, st.binary(min_size=1, max_size=4)), max_size=60))
@settings(deadline=None, max_examples=150, phases=PHASES)
def test_any_operations(parts: list[bytes]) -> None:
    with contextlib.suppress(UnsafePickle):
        read_pickle(memoryview(b"".join(parts)), LIMITS, 1 << 20)


@pytest.mark.parametrize("make", [lambda: b"\x80\x02" + b"(" * 50_000, lambda: b"\x80\x02" + b"]" * 50_000])
def test_memory_of_a_pickle_follows_its_length(make: Callable[[], bytes]) -> None:
    import tracemalloc

    data = make()
    tracemalloc.start()
    try:
        with pytest.raises(UnsafePickle, match="truncated"):
            read_pickle(memoryview(data), LIMITS, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 100 * len(data)
    finally:
        tracemalloc.stop()
