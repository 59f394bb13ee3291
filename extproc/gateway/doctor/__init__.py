"""Reads gateway configuration and says what would not work, worst first, with the mend."""
