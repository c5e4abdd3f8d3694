"""A store of watched objects with indexes, like client-go's Store and Indexer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from lab.kube.reflector import Change, key_of
from lab.kube.rest import Json

T = TypeVar("T")
Key = tuple[str, str, str]


class Store(Generic[T]):
    """Objects of one kind by key, in order of arrival.

    ``view`` converts an object to the stored item; ``indexers`` give the values under which each index finds an item.
    """

    def __init__(
        self, view: Callable[[Json], T], indexers: Mapping[str, Callable[[T], Iterable[str]]] | None = None
    ) -> None:
        self._view = view
        self._items: dict[Key, T] = {}
        self._indexers = dict(indexers or {})
        self._indexes: dict[str, dict[str, dict[Key, T]]] = {name: {} for name in self._indexers}

    def __iter__(self) -> Iterator[T]:
        return iter(self._items.values())

    def update(self, change: Change) -> tuple[T | None, T | None]:
        """Apply a change; returns the item before and after it."""
        key, before = key_of(change[1]), None
        if key in self._items:
            before = self._items[key]
            for name, index in self._indexes.items():
                for value in set(self._indexers[name](before)):
                    index[value].pop(key, None)
                    if not index[value]:
                        del index[value]
        if change[0] == "DELETED":
            self._items.pop(key, None)
            return before, None
        after = self._items[key] = self._view(change[1])
        for name, index in self._indexes.items():
            for value in self._indexers[name](after):
                index.setdefault(value, {})[key] = after
        return before, after

    def by_index(self, name: str, value: str) -> Mapping[Key, T]:
        """The items that an index has under a value, by key."""
        return self._indexes[name].get(value, {})
