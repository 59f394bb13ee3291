"""A stand-in for agentgateway: its configuration file, its ext_proc dialect and its MCP backend, no more.

``AGENTGATEWAY_BIN=tests/agentgateway/stand_in/agentgateway`` runs every test over a gateway through it.  It
shows that the processor, over a real gRPC connection, serves the dialect that ``tests/gateway/rules.py``
describes; whether agentgateway is rightly described there only agentgateway itself can show.
"""
