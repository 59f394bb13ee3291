"""The gRPC service over real sockets."""

from __future__ import annotations

import asyncio
import datetime
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from grpc_health.v1 import health_pb2, health_pb2_grpc

from extproc.addresses import Address, Tcp, Unix
from extproc.codec.wire_pb2 import ProcessingResponse
from extproc.exchange.messages import Forward
from extproc.server.driver import PROFILE_KEY
from extproc.server.service import SERVICE, Service, TlsError
from extproc.server.sockets import AddressInUse
from extproc.settings import Server, Settings
from extproc.telemetry import Metrics
from tests.server.stand_ins import Decider, body, driver, head, kinds, sample

ANY = Tcp("127.0.0.1", 0)


@asynccontextmanager
async def serving(
    decider: Decider, metrics: Metrics, settings: Server | None = None, address: Address = ANY
) -> AsyncIterator[tuple[Service, str]]:
    service = Service(driver(decider, metrics, profiles={"team": Settings()}), settings or Server())
    bound = await service.start(address)
    try:
        yield service, str(bound)
    finally:
        await service.stop(0)


@asynccontextmanager
async def channel_to(
    decider: Decider, metrics: Metrics, settings: Server | None = None, address: Address = ANY
) -> AsyncIterator[grpc.aio.Channel]:
    async with (
        serving(decider, metrics, settings, address) as (_, target),
        grpc.aio.insecure_channel(target, options=[("grpc.max_receive_message_length", -1)]) as channel,
    ):
        yield channel


def process(channel: grpc.aio.Channel, profile: str = "") -> grpc.aio.StreamStreamCall[bytes, bytes]:
    metadata = ((PROFILE_KEY, profile),) if profile else ()
    return channel.stream_stream(f"/{SERVICE}/Process")(metadata=metadata)


async def ask(call: grpc.aio.StreamStreamCall[bytes, bytes], message: bytes) -> ProcessingResponse:
    await call.write(message)
    answer = await call.read()
    assert isinstance(answer, bytes)
    return ProcessingResponse.FromString(answer)


async def test_an_exchange_over_the_service_that_gateways_call() -> None:
    metrics = Metrics()
    async with channel_to(Decider(Forward(b"new")), metrics) as channel:
        call = process(channel)
        answers = [await ask(call, head()), await ask(call, body())]
        assert kinds(answers) == ["request_headers", "request_body"]
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK
    assert sample(metrics, "exchanges_total", dialect="envoy", outcome="forwarded") == 1


async def test_the_profile_comes_from_the_metadata() -> None:
    decider = Decider()
    async with channel_to(decider, Metrics()) as channel:
        call = process(channel, "team")
        await ask(call, head())
        await ask(call, body())
        await call.done_writing()
        assert await call.code() is grpc.StatusCode.OK
    assert decider.asked[0].opening.profile == "team"  # type: ignore[union-attr]


async def test_a_malformed_message_is_an_invalid_argument() -> None:
    async with channel_to(Decider(), Metrics()) as channel:
        call = process(channel)
        await call.write(b"")
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "neither headers" in (await call.details() or "")


async def test_a_gateway_that_goes_away_cancels_the_decision() -> None:
    decider = Decider(None)
    metrics = Metrics()
    async with channel_to(decider, metrics) as channel:
        call = process(channel)
        await ask(call, head())
        await call.write(body())
        await decider.asked_for(1)
        call.cancel()
        async with asyncio.timeout(20):
            await decider.dropped.wait()
    assert decider.cancelled == 1
    assert sample(metrics, "exchanges_total", dialect="envoy", outcome="cancelled") == 1
    assert sample(metrics, "exchanges_in_flight") == 0


async def test_messages_of_many_megabytes_pass() -> None:
    async with channel_to(Decider(Forward(b"y" * 9_000_000)), Metrics()) as channel:
        call = process(channel)
        await ask(call, head())
        answer = await ask(call, body(b"x" * 8_000_000))
        assert len(answer.request_body.response.body_mutation.body) == 9_000_000


async def test_a_message_over_the_limit_is_refused() -> None:
    async with channel_to(Decider(), Metrics(), Server(max_message=1000)) as channel:
        call = process(channel)
        await ask(call, head())
        await call.write(body(b"x" * 2000))
        assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_health_follows_readiness() -> None:
    async with (
        serving(Decider(), Metrics()) as (service, target),
        grpc.aio.insecure_channel(target) as channel,
    ):
        check = health_pb2_grpc.HealthStub(channel).Check

        async def status(name: str) -> int:
            answer = await check(health_pb2.HealthCheckRequest(service=name))
            return int(answer.status)

        assert await status("") == health_pb2.HealthCheckResponse.NOT_SERVING
        await service.ready()
        assert await status("") == await status(SERVICE) == health_pb2.HealthCheckResponse.SERVING
        await service.not_ready()
        assert await status(SERVICE) == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_a_port_is_never_shared() -> None:
    async with serving(Decider(), Metrics()) as (_, target):
        second = Service(driver(Decider(), Metrics()), Server())
        with pytest.raises(AddressInUse, match=target):
            await second.start(Tcp("127.0.0.1", int(target.rpartition(":")[2])))
        await second.stop(0)


async def test_a_unix_socket_has_its_mode_and_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    before = os.umask(0o022)
    try:
        async with serving(Decider(), Metrics(), Server(socket_mode="0600"), Unix(path)) as (_, target):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            async with grpc.aio.insecure_channel(target) as channel:
                assert kinds([await ask(process(channel), head())]) == ["request_headers"]
            with pytest.raises(AddressInUse, match="another process"):
                await Service(driver(Decider(), Metrics()), Server()).start(Unix(path))
    finally:
        assert os.umask(before) == 0o022
    assert not path.exists()


async def test_the_socket_of_a_dead_process_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with channel_to(Decider(), Metrics(), address=Unix(path)) as channel:
        assert kinds([await ask(process(channel), head())]) == ["request_headers"]


async def test_a_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    with pytest.raises(AddressInUse, match="not a socket"):
        await Service(driver(Decider(), Metrics()), Server()).start(Unix(path))
    assert path.read_text() == "precious"


# TLS ------------------------------------------------------------------------------------------------------


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    cert_file, key_file = folder / f"{name}.crt", folder / f"{name}.key"
    cert_file.write_bytes(signed.public_bytes(encoding))
    key_file.write_bytes(
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert_file, key_file


async def test_only_a_client_with_the_right_certificate_gets_in(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "server")
    client_cert, client_key = certificate(tmp_path, "client")
    settings = Server(tls_cert=str(cert), tls_key=str(key), tls_client_ca=str(client_cert))
    async with serving(Decider(), Metrics(), settings) as (_, target):
        named = "localhost:" + target.rpartition(":")[2]
        pair = (client_key.read_bytes(), client_cert.read_bytes())
        known = grpc.ssl_channel_credentials(cert.read_bytes(), *pair)
        async with grpc.aio.secure_channel(named, known) as channel:
            assert kinds([await ask(process(channel), head())]) == ["request_headers"]
        stranger = grpc.ssl_channel_credentials(cert.read_bytes())
        async with grpc.aio.secure_channel(named, stranger) as channel:
            assert await process(channel).code() is grpc.StatusCode.UNAVAILABLE


async def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    settings = Server(tls_cert=str(tmp_path / "no.crt"), tls_key=str(tmp_path / "no.key"))
    with pytest.raises(TlsError, match=r"no\.key"):
        await Service(driver(Decider(), Metrics()), settings).start(ANY)


async def test_a_certificate_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "c.pem"
    file.write_text("no certificate")
    settings = Server(tls_cert=str(file), tls_key=str(file))
    with pytest.raises(TlsError, match=r"server\.tls_cert"):
        await Service(driver(Decider(), Metrics()), settings).start(ANY)
