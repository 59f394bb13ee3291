"""The gRPC side: external processing and health checking on one port or socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from extproc.addresses import Address, Tcp, Unix
from extproc.server.driver import PROFILE_KEY, Driver, MalformedMessage
from extproc.server.sockets import AddressInUse, clear_stale_socket, socket_mode
from extproc.settings import Server
from extproc.telemetry import logger, where

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"

_KEEPALIVE_MS = 60_000
# What a stream meets that is still open when the server has stopped; grpc exports no such class.
_STOPPED = "_ServerStoppedError"


class TlsError(ValueError):
    """The key, certificate or client CA cannot be used."""


class Service:
    """A gRPC server around one :class:`Driver`."""

    def __init__(self, driver: Driver, settings: Server) -> None:
        self._driver = driver
        self._settings = settings
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]
        self._server = grpc.aio.server(options=_options(settings))
        self._socket: Path | None = None
        handler = grpc.stream_stream_rpc_method_handler(self._process)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {"Process": handler}),)
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)

    async def start(self, address: Address) -> Address:
        """Listen and return the address with its real port.

        Raises :class:`AddressInUse` and :class:`TlsError`.  Health is NOT_SERVING until :meth:`ready`.
        """
        await self._set(health_pb2.HealthCheckResponse.NOT_SERVING)
        bound = self._bind(address)
        await self._server.start()
        return bound

    async def ready(self) -> None:
        await self._set(health_pb2.HealthCheckResponse.SERVING)

    async def not_ready(self) -> None:
        await self._set(health_pb2.HealthCheckResponse.NOT_SERVING)

    async def stop(self, grace: float) -> None:
        """Take no new exchange, give the open ones ``grace`` seconds, then end them."""
        await self._server.stop(grace)
        if self._socket is not None:
            self._socket.unlink(missing_ok=True)

    def _bind(self, address: Address) -> Address:
        credentials = _credentials(self._settings)
        match address:
            case Unix(path=path):
                clear_stale_socket(path)
                with socket_mode(int(self._settings.socket_mode, 8)):
                    self._listen(str(address), credentials)
                self._socket = path
                return address
            case Tcp(host=host):
                return Tcp(host, self._listen(str(address), credentials))

    def _listen(self, target: str, credentials: grpc.ServerCredentials | None) -> int:
        try:
            if credentials is None:
                return int(self._server.add_insecure_port(target))
            return int(self._server.add_secure_port(target, credentials))
        except RuntimeError:
            # grpc tells the reason to its own log only.
            if credentials is None:
                text = "in use, not permitted or not an address of this machine"
                raise AddressInUse(f"cannot listen on {target}: {text}") from None
            text = "the address is in use, or server.tls_cert and server.tls_key are no matching PEM files"
            raise TlsError(f"cannot listen on {target} with TLS: {text}") from None

    async def _set(self, status: Any) -> None:
        for name in ("", SERVICE):
            await self._health.set(name, status)

    async def _process(
        self, messages: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> None:
        try:
            await self._driver.run(messages, context.write, _profile(context))
        except MalformedMessage as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.reason)
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            if type(error).__name__ == _STOPPED:
                raise
            # Never grpc's own report: it would log the message of the error.
            logger.error("internal error in a stream", extra={"fields": {"error": where(error)}})
            await context.abort(grpc.StatusCode.INTERNAL, "internal error")


def _profile(context: grpc.aio.ServicerContext[bytes, bytes]) -> str:
    for name, value in context.invocation_metadata() or ():
        if name == PROFILE_KEY:
            return value if isinstance(value, str) else value.decode("latin-1")
    return ""


def _options(settings: Server) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", settings.max_message),
        ("grpc.max_send_message_length", settings.max_message),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # A gateway that pings often is no abuser; grpc's default would cut its connection.
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_ping_strikes", 0),
        # Without this a second process would share the port in silence and each would know half the callers.
        ("grpc.so_reuseport", 0),
    ]


def _credentials(settings: Server) -> grpc.ServerCredentials | None:
    if not settings.tls_cert:
        return None
    try:
        pair = (Path(settings.tls_key).read_bytes(), Path(settings.tls_cert).read_bytes())
        authority = Path(settings.tls_client_ca).read_bytes() if settings.tls_client_ca else None
    except OSError as error:
        raise TlsError(f"{error.filename}: {error.strerror}") from None
    return grpc.ssl_server_credentials(
        [pair], root_certificates=authority, require_client_auth=authority is not None
    )
