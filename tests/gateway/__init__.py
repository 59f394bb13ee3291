"""An in-memory gateway: a real ext_proc client's rules without a network."""
