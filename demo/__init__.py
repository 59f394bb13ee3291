"""``python -m demo``: the filter at work on a real Envoy in front of real MCP servers."""
