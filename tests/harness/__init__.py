"""Real parts: gateways, MCP servers and the processor as processes that always end."""
