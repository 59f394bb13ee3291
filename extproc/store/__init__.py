from extproc.store.catalogues import CatalogueStore
from extproc.store.counters import Counters
from extproc.store.views import Cold, View, Warm

__all__ = ["CatalogueStore", "Cold", "Counters", "View", "Warm"]
