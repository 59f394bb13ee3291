"""Tests of the product, importable as one package."""
