"""An MCP server of our own: any catalogue, both eras, every fault a test needs."""
