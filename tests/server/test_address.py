from __future__ import annotations

from pathlib import Path

import pytest

from extproc.addresses import Address, BadAddress, Tcp, Unix, parse_address, parse_tcp


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:50051", Tcp("127.0.0.1", 50051)),
        ("localhost:0", Tcp("localhost", 0)),
        ("[::1]:9090", Tcp("::1", 9090)),
        ("unix:/run/toolsearch.sock", Unix(Path("/run/toolsearch.sock"))),
    ],
)
def test_addresses_are_read_and_written(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "50051",
        ":50051",
        "host:",
        "host:port",
        "host:65536",
        "host:-1",
        "::1:9090",
        "[]:1",
        "unix:s",
        "unix:",
    ],
)
def test_what_is_no_address_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(BadAddress, match=r"allowed|absolute|number from"):
        parse_address(text)


def test_only_the_grpc_side_has_sockets() -> None:
    with pytest.raises(BadAddress):
        parse_tcp("unix:/run/x")
