"""The only importer of protobuf: bytes of the gateway to events, commands to bytes."""

from extproc.codec.decode import ATTRIBUTES_NAMESPACE, Decoded, First, Malformed, decode, decode_first
from extproc.codec.encode import Sendable, encode

__all__ = [
    "ATTRIBUTES_NAMESPACE",
    "Decoded",
    "First",
    "Malformed",
    "Sendable",
    "decode",
    "decode_first",
    "encode",
]
