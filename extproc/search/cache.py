"""What is known about texts, shared by all indexes of a process and bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ByteCache(Generic[K, V]):
    """Least recently used entries go first when the stated sizes exceed ``limit`` bytes.  Thread safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._size = 0

    def get_many(self, keys: Iterable[K]) -> list[V | None]:
        """One value for each key, None where nothing is known."""
        out: list[V | None] = []
        with self._lock:
            for key in keys:
                entry = self._entries.get(key)
                if entry is not None:
                    self._entries.move_to_end(key)
                out.append(None if entry is None else entry[0])
        return out

    def peek(self, key: K) -> V | None:
        """The value of ``key`` without taking note that it was asked for."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def put_many(self, entries: Iterable[tuple[K, V, int]]) -> None:
        """Entries with their size in bytes; an entry larger than the whole cache is left out."""
        with self._lock:
            for key, value, size in entries:
                if size > self._limit:
                    continue
                old = self._entries.pop(key, None)
                self._size += size - (old[1] if old else 0)
                self._entries[key] = (value, size)
            while self._size > self._limit:
                _, (_, size) = self._entries.popitem(last=False)
                self._size -= size

    @property
    def nbytes(self) -> int:
        return self._size

    def __len__(self) -> int:
        return len(self._entries)


class Memo(Generic[K, V]):
    """Entries that are read without a lock; all are forgotten when their sizes exceed ``limit`` bytes.

    For what every query asks several times, where keeping count of the least recently used would cost more
    than learning anew once in a long while.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._entries: dict[K, V] = {}
        self._size = 0
        self.get = self._entries.get

    def put(self, key: K, value: V, size: int) -> None:
        with self._lock:
            if key in self._entries or size > self._limit:
                return
            if self._size + size > self._limit:
                self._entries.clear()
                self._size = 0
            self._entries[key] = value
            self._size += size

    @property
    def nbytes(self) -> int:
        return self._size

    def __len__(self) -> int:
        return len(self._entries)
