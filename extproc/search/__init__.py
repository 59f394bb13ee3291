from extproc.search.embedder import Embedder, EmbedderError
from extproc.search.engine import Caches, Engine
from extproc.search.index import Answers, Explained, Hit, ToolIndex
from extproc.search.servers import UnknownServer

__all__ = [
    "Answers",
    "Caches",
    "Embedder",
    "EmbedderError",
    "Engine",
    "Explained",
    "Hit",
    "ToolIndex",
    "UnknownServer",
]
