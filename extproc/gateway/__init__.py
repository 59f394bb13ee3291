"""Gateway configuration: printing it (``config``) and checking it (``doctor``)."""
