"""An MCP tool-search external processor for Envoy and agentgateway."""
