from extproc.store.catalogues import CatalogueStore
from extproc.store.counters import Counters
from extproc.store.opening import StoreSettingsError, check_store, open_store
from extproc.store.views import Cold, View, Warm

__all__ = [
    "CatalogueStore",
    "Cold",
    "Counters",
    "StoreSettingsError",
    "View",
    "Warm",
    "check_store",
    "open_store",
]
