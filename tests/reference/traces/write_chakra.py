"""Writes chakra.0.et with the protobuf library and MLCommons Chakra's own schema.

python -m grpc_tools.protoc -I<chakra>/schema/protobuf --python_out=. et_def.proto, then with et_def_pb2 on PYTHONPATH:
python write_chakra.py. Chakra 21585d8f, grpcio-tools 1.85.1, protobuf 7.36.2.
"""

from __future__ import annotations

from pathlib import Path

import et_def_pb2 as et
from google.protobuf.internal.encoder import _VarintBytes

HERE = Path(__file__).parent


def attribute(node: et.Node, name: str, kind: str, value: int) -> None:
    held = node.attr.add()
    held.name = name
    setattr(held, f"{kind}_val", value)


def main() -> None:
    send = et.Node(id=0, name="dispatch_send_7", type=et.COMM_SEND_NODE)
    attribute(send, "is_cpu_op", "bool", False)
    for name, value in (("comm_src", 0), ("comm_dst", 3), ("comm_tag", 7)):
        attribute(send, name, "int32", value)
    attribute(send, "comm_size", "int64", 3 << 33)
    work = et.Node(id=1, name="expert_5", type=et.COMP_NODE, data_deps=[0, 200])
    attribute(work, "is_cpu_op", "bool", False)
    attribute(work, "num_ops", "int64", 123_456_789_012)
    attribute(work, "tensor_size", "int64", 4096)
    receive = et.Node(id=200, name="gather_recv_9", type=et.COMM_RECV_NODE, data_deps=[1])
    attribute(receive, "is_cpu_op", "bool", False)
    for name, value in (("comm_src", 3), ("comm_dst", 0), ("comm_tag", 9)):
        attribute(receive, name, "int32", value)
    attribute(receive, "comm_size", "int64", 1)
    with (HERE / "chakra.0.et").open("wb") as stream:
        for message in (et.GlobalMetadata(version="0.0.4"), send, work, receive):
            data = message.SerializeToString()
            stream.write(_VarintBytes(len(data)) + data)


if __name__ == "__main__":
    main()
