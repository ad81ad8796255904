"""Chakra execution traces, which ASTRA-sim runs: one file a chiplet, `<name>.<npu>.et`.

The protobuf layout is that of MLCommons Chakra (github.com/mlcommons/chakra, schema/protobuf/et_def.proto): messages
one after another, each after its length as a varint: GlobalMetadata {version = 1}, then Node {id = 1, name = 2,
type = 3, ctrl_deps = 4, data_deps = 5, attr = 10}; AttributeProto {name = 1, int32_val = 7, int64_val = 9,
uint64_val = 13, bool_val = 27}. It is written and read here byte by byte: no protobuf library is needed.

A MoE layer becomes, on every chiplet: COMM_SEND of each token group to its expert, COMM_RECV of what arrives, one COMP
node per expert that waits for what it needs, and the same back. Sends and receives of a pair share a tag.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from cosim.config.errors import ConfigErrors

__all__ = ["Node", "layer_nodes", "message_nodes", "read_nodes", "write_nodes"]

VERSION = "0.0.4"
COMP, COMM_SEND, COMM_RECV = 4, 5, 6
_INT32, _INT64, _UINT64, _BOOL = 7, 9, 13, 27


@dataclass(frozen=True)
class Node:
    """One node of a chiplet's graph.

    Attributes:
        id: unique on the chiplet.
        name: free text.
        type: `COMP`, `COMM_SEND` or `COMM_RECV`.
        data_deps: ids of the nodes it waits for.
        attributes: name → value; bool, or an integer (`comm_src`, `comm_dst`, `comm_tag` are int32, others int64).
    """

    id: int
    name: str
    type: int
    data_deps: tuple[int, ...] = ()
    attributes: dict[str, int | bool] = field(default_factory=dict)


def message_nodes(messages: pd.DataFrame, *, npus: int) -> list[list[Node]]:
    """The graphs of messages alone, a list of nodes per chiplet: a COMM_SEND at its source, a COMM_RECV at its end.

    Args:
        messages: src, dst (different chiplets), bytes. The position of a row is its message's tag, and a source's nodes
            follow the rows, which is the order in which ASTRA-sim sends.
        npus: number of chiplets.

    Raises:
        ConfigErrors: missing columns, a chiplet outside, a message to its own source or without bytes.
    """
    table = _columns(messages, ("src", "dst", "bytes"))
    _check_rows(table, npus, "byte")
    if (table[:, 0] == table[:, 1]).any():
        raise ConfigErrors.single("messages from one chiplet to another", "one to itself", path="messages")
    graphs: list[list[Node]] = [[] for _ in range(npus)]
    for tag, (src, dst, size) in enumerate(table.tolist()):
        ends = {"comm_src": src, "comm_dst": dst, "comm_tag": tag, "comm_size": size}
        for npu, kind, name in ((src, COMM_SEND, "send"), (dst, COMM_RECV, "recv")):
            graphs[npu].append(Node(len(graphs[npu]), f"{name}_{tag}", kind, (), {"is_cpu_op": False, **ends}))
    return graphs


def _columns(messages: pd.DataFrame, names: Sequence[str], optional: Sequence[str] = ()) -> npt.NDArray[np.int64]:
    missing = [name for name in names if name not in messages.columns]
    if missing:
        raise ConfigErrors.single(f"columns {', '.join(names)}", f"no {', '.join(missing)}", path="messages")
    table: npt.NDArray[np.int64] = messages.reindex(columns=[*names, *optional], fill_value=0).to_numpy(dtype=np.int64)
    return table


def _check_rows(table: npt.NDArray[np.int64], npus: int, unit: str) -> None:
    if table.size and (table[:, :2].min() < 0 or table[:, :2].max() >= npus or table[:, 2].min() < 1):
        raise ConfigErrors.single(f"chiplets 0 to {npus - 1} and at least 1 {unit}", "others", path="messages")


def layer_nodes(
    messages: pd.DataFrame, *, npus: int, operations_per_token: int, bytes_per_token: int, returns: bool = True
) -> list[list[Node]]:
    """The graphs of one MoE layer, a list of nodes per chiplet.

    Args:
        messages: src, dst (chiplets), tokens; optional expert. A row is a token group sent from its chiplet to its
            expert's; src = dst stays on the chiplet and only computes.
        npus: number of chiplets.
        operations_per_token: operations of an expert per token.
        bytes_per_token: bytes of a token's activations.
        returns: whether results travel back.

    Raises:
        ConfigErrors: missing columns, or a chiplet outside.
    """
    table = _columns(messages, ("src", "dst", "tokens"), ("expert",))
    _check_rows(table, npus, "token")
    graphs: list[list[Node]] = [[] for _ in range(npus)]

    def add(npu: int, name: str, kind: int, deps: Sequence[int], **attributes: int | bool) -> int:
        number = len(graphs[npu])
        graphs[npu].append(Node(number, name, kind, tuple(deps), {"is_cpu_op": False, **attributes}))
        return number

    def send(src: int, dst: int, size: int, tag: int, deps: Sequence[int], name: str) -> int:
        ends = {"comm_src": src, "comm_dst": dst, "comm_tag": tag, "comm_size": size}
        add(src, f"{name}_send_{tag}", COMM_SEND, deps, **ends)
        return add(dst, f"{name}_recv_{tag}", COMM_RECV, (), **ends)

    arrived: dict[tuple[int, int], list[int]] = {}
    tokens: dict[tuple[int, int], int] = {}
    for tag, (src, dst, count, expert) in enumerate(table.tolist()):
        key = (dst, expert)
        waits = arrived.setdefault(key, [])
        if src != dst:
            waits.append(send(src, dst, count * bytes_per_token, tag, (), "dispatch"))
        tokens[key] = tokens.get(key, 0) + count
    computed = {
        (npu, expert): add(
            npu,
            f"expert_{expert}",
            COMP,
            arrived[npu, expert],
            num_ops=tokens[npu, expert] * operations_per_token,
            tensor_size=tokens[npu, expert] * bytes_per_token,
        )
        for npu, expert in arrived
    }
    for tag, (src, dst, count, expert) in enumerate(table.tolist() if returns else []):
        if src != dst:
            send(dst, src, count * bytes_per_token, len(table) + tag, (computed[dst, expert],), "gather")
    return graphs


def write_nodes(graphs: Sequence[Sequence[Node]], folder: Path, name: str) -> list[Path]:
    """Writes `<name>.<npu>.et` for every chiplet."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for npu, nodes in enumerate(graphs):
        path = folder / f"{name}.{npu}.et"
        with path.open("wb") as stream:
            for message in (_text(1, VERSION), *map(_node, nodes)):
                stream.write(_varint(len(message)) + message)
        paths.append(path)
    return paths


def read_nodes(path: Path) -> list[Node]:
    """The nodes of one file.

    Raises:
        ConfigErrors: on bytes that are no Chakra trace.
    """
    data = path.read_bytes()
    try:
        messages = list(_messages(data))
        if not messages:
            raise ValueError("no messages")
        version = b"".join(value for number, value in _fields(messages[0]) if number == 1 and isinstance(value, bytes))
        if version.decode() != VERSION:
            raise ValueError(f"version {version.decode()!r}, expected {VERSION}")
        return [_read_node(message) for message in messages[1:]]
    except (ValueError, IndexError, struct.error, UnicodeDecodeError) as error:
        raise ConfigErrors.single("a Chakra execution trace", str(error)[:80], file=str(path)) from error


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers take ten bytes, as protobuf has it
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(tag: int, value: int) -> bytes:
    return _varint(tag << 3) + _varint(value)


def _bytes(tag: int, value: bytes) -> bytes:
    return _varint(tag << 3 | 2) + _varint(len(value)) + value


def _text(tag: int, value: str) -> bytes:
    return _bytes(tag, value.encode())


def _attribute(name: str, value: int | bool) -> bytes:
    if isinstance(value, bool):
        return _text(1, name) + _number(_BOOL, int(value))
    return _text(1, name) + _number(_INT32 if name in ("comm_src", "comm_dst", "comm_tag") else _INT64, value)


def _node(node: Node) -> bytes:
    # proto3 leaves out what is zero or empty
    out = _number(1, node.id) if node.id else b""
    out += (_text(2, node.name) if node.name else b"") + (_number(3, node.type) if node.type else b"")
    if node.data_deps:  # repeated numbers are packed in proto3
        out += _bytes(5, b"".join(_varint(number) for number in node.data_deps))
    return out + b"".join(_bytes(10, _attribute(name, value)) for name, value in node.attributes.items())


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if not byte & 0x80:
            return value, place
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _messages(data: bytes) -> Iterator[bytes]:
    place = 0
    while place < len(data):
        size, place = _read_varint(data, place)
        if place + size > len(data):
            raise ValueError("truncated")
        yield data[place : place + size]
        place += size


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    place = 0
    while place < len(data):
        key, place = _read_varint(data, place)
        if key & 7 == 0:
            value, place = _read_varint(data, place)
            yield key >> 3, value
        elif key & 7 == 2:
            size, place = _read_varint(data, place)
            if place + size > len(data):
                raise ValueError("truncated")
            yield key >> 3, data[place : place + size]
            place += size
        else:
            raise ValueError(f"wire type {key & 7}")


def _read_node(data: bytes) -> Node:
    number = kind = 0
    name = ""
    deps: list[int] = []
    attributes: dict[str, int | bool] = {}
    for tag, value in _fields(data):
        if isinstance(value, int):
            number, kind = (value, kind) if tag == 1 else (number, value) if tag == 3 else (number, kind)
            if tag == 5:
                deps.append(value)
        elif tag == 2:
            name = value.decode()
        elif tag == 5:
            place = 0
            while place < len(value):
                dep, place = _read_varint(value, place)
                deps.append(dep)
        elif tag == 10:
            key, held = _read_attribute(value)
            attributes[key] = held
    return Node(number, name, kind, tuple(deps), attributes)


def _read_attribute(data: bytes) -> tuple[str, int | bool]:
    name, found = "", None
    for tag, value in _fields(data):
        if tag == 1 and isinstance(value, bytes):
            name = value.decode()
        elif isinstance(value, int) and tag in (_INT32, _INT64, _UINT64):
            found = value - (1 << 64) if tag != _UINT64 and value >> 63 else value
        elif isinstance(value, int) and tag == _BOOL:
            found = bool(value)
    if found is None:
        raise ValueError(f"attribute {name!r} of no kind read here")
    return name, found
