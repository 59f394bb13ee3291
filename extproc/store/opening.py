"""Opening the shared store that the settings name."""

from __future__ import annotations

from urllib.parse import urlsplit

from extproc.settings import Settings
from extproc.store.remote import Remote

SHORTEST_KEY = 16
_SCHEMES = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss", "unix": "unix"}


class StoreSettingsError(ValueError):
    """The settings of the shared store cannot work; the text says what to change."""


def check_store(settings: Settings) -> None:
    """Raise :class:`StoreSettingsError` unless ``catalog.store`` is empty or usable as it is set."""
    catalog = settings.catalog
    if not catalog.store:
        return
    scheme = urlsplit(catalog.store).scheme
    if scheme not in _SCHEMES:
        raise StoreSettingsError(
            "catalog.store: expected an address such as redis://host:6379/0, rediss://…, valkey://… or unix:///path"
        )
    if len(catalog.store_key.get_secret_value()) < SHORTEST_KEY:
        raise StoreSettingsError(
            f"catalog.store_key: catalog.store needs a key of at least {SHORTEST_KEY} characters, the same "
            "for all replicas; catalogues are never stored in the clear"
        )
    if not settings.caller.key.get_secret_value():
        raise StoreSettingsError(
            "caller.key: catalog.store needs it set, the same for all replicas; without it each replica "
            "knows callers by other names and nothing is shared"
        )
    if catalog.store_timeout <= 0:
        raise StoreSettingsError("catalog.store_timeout: must be above 0 seconds")
    try:
        import cryptography  # noqa: F401
        import redis  # noqa: F401
    except ImportError as error:
        raise StoreSettingsError(
            f"catalog.store: the package {error.name} is missing; install mcp-toolsearch-extproc[redis]"
        ) from None


def open_store(settings: Settings) -> Remote | None:
    """The shared store, None when there is none.  Connects on first use.

    Raises :class:`StoreSettingsError`.
    """
    if not settings.catalog.store:
        return None
    check_store(settings)
    from extproc.store.redis_store import RedisStore
    from extproc.store.sealing import Sealer

    catalog = settings.catalog
    scheme, _, rest = catalog.store.partition(":")
    # Replicas that classify or hide tools differently, as during a rollout, do not read each other's lists.
    context = b"1 " + settings.tools.model_dump_json().encode()
    return RedisStore(
        f"{_SCHEMES[scheme]}:{rest}",
        Sealer(catalog.store_key.get_secret_value().encode(), context),
        timeout=catalog.store_timeout,
        keep=catalog.max_stale,
    )
