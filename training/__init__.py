"""Trains the multilingual table that the package ships: ``python -m training``."""
