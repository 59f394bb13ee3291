"""What leaves the process for a shared store: names that tell nothing and values only replicas can open."""

from __future__ import annotations

import os
from hashlib import blake2b

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE = 12


class SealError(ValueError):
    """A value was sealed with another key, for another address, or was damaged."""


class Sealer:
    """AES-256-GCM under a key derived from ``secret`` and ``context`` (HKDF, RFC 5869).

    Two processes open each other's values when both are equal.
    """

    def __init__(self, secret: bytes, context: bytes) -> None:
        self._cipher = AESGCM(_derive(secret, b"values", context))
        self._names = _derive(secret, b"names", context)

    def address(self, kind: str, name: bytes = b"") -> str:
        """A key for the store: a keyed hash, so that it can be neither read nor guessed."""
        digest = blake2b(name, digest_size=16, key=self._names, person=kind.encode()[:16])
        return f"toolsearch:{kind}:{digest.hexdigest()}"

    def seal(self, address: str, plain: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, plain, address.encode())

    def open(self, address: str, sealed: bytes) -> bytes:
        """Raises :class:`SealError`.

        The address is authenticated too: an answer that belongs to another question, say from a connection
        that got out of step, cannot be taken for this one.
        """
        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], address.encode())
        except (InvalidTag, ValueError):
            raise SealError("cannot be opened") from None


def _derive(secret: bytes, purpose: bytes, context: bytes) -> bytes:
    return HKDF(SHA256(), 32, salt=blake2b(context).digest(), info=b"toolsearch " + purpose).derive(secret)
