from extproc.search.index import Hit, ToolIndex

__all__ = ["Hit", "ToolIndex"]
