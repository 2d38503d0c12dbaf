#!/usr/bin/python3
"""protoc plugin: NAME.zlink.h with the packet name of each message in NAME.proto.

A packet's name on the wire is the message's full protobuf name. The C struct of nanopb does not know it, so the
build writes it down once, as TYPE_packet, where ZLINK_MESSAGE_TYPE and its relatives find it:

    #define AddReq_packet "samples.counter.AddReq"

With the parameter strip_package the C names are nanopb's M_STRIP_PACKAGE ones, else they begin with the package. nanopb
then writes initialisers of messages from another package under their long names, which it does not define; they are
defined here.
"""
import os
import re
import sys

# The C++ implementation breaks when protoc and the Python library differ by a version; speed does not matter here.
os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")

from google.protobuf.compiler import plugin_pb2  # noqa: E402

PACKET_NAME_BYTES_MAX = 255


def messages_of(container, c_path, full_path):
    """Every message below `container` as (C name, full name), outer ones first; map entries are no messages."""
    for message in container:
        if message.options.map_entry:
            continue
        c_name = c_path + [message.name]
        full_name = full_path + [message.name]
        yield "_".join(c_name), ".".join(full_name)
        yield from messages_of(message.nested_type, c_name, full_name)


def header_of(proto, strip_package):
    package = proto.package.split(".") if proto.package else []
    stem = os.path.splitext(proto.name)[0]
    guard = "ZLINK_PACKETS_" + re.sub(r"[^A-Za-z0-9]", "_", stem).upper() + "_H"
    lines = [
        f"/* Packet names of {os.path.basename(proto.name)}. Made by the build: do not edit. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        f'#include "{stem}.pb.h"',
    ]
    for imported in proto.dependency:  # the well-known ones have none
        header = os.path.splitext(imported)[0] + ".zlink.h"
        lines += [f'#if __has_include("{header}")', f'#include "{header}"', "#endif"]
    lines.append("")
    for c_name, full_name in messages_of(proto.message_type, [] if strip_package else package, package):
        if len(full_name.encode()) > PACKET_NAME_BYTES_MAX:
            raise ValueError(f"{full_name}: a packet name is at most {PACKET_NAME_BYTES_MAX} bytes long")
        lines.append(f'#define {c_name}_packet "{full_name}"')
        long_name = full_name.replace(".", "_")
        if long_name != c_name:
            lines += [f"#define {long_name}_{init} {c_name}_{init}" for init in ("init_default", "init_zero")]
    lines += ["", "#endif", ""]
    return stem + ".zlink.h", "\n".join(lines)


def main():
    request = plugin_pb2.CodeGeneratorRequest.FromString(sys.stdin.buffer.read())
    response = plugin_pb2.CodeGeneratorResponse()
    response.supported_features = plugin_pb2.CodeGeneratorResponse.FEATURE_PROTO3_OPTIONAL
    strip_package = request.parameter == "strip_package"
    try:
        for proto in request.proto_file:
            if proto.name in request.file_to_generate:
                name, content = header_of(proto, strip_package)
                response.file.add(name=name, content=content)
    except ValueError as error:
        response.error = str(error)
    sys.stdout.buffer.write(response.SerializeToString())


if __name__ == "__main__":
    main()
