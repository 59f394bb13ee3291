"""Whether the routing headers of a request say what its body says (SEP-2243)."""

from __future__ import annotations

from extproc.exchange.messages import Headers
from extproc.mcp import headers, revisions, slices
from extproc.mcp.slices import Members
from extproc.rewriter import rpc

_DESCRIPTIONS_OF = {
    "mcp-method": "Mcp-Method",
    "mcp-name": "Mcp-Name",
    "mcp-protocol-version": "MCP-Protocol-Version",
}


def disagreement(request_headers: Headers, table: dict[str, str], call: rpc.Rpc, meta: Members) -> str:
    """Why headers and body cannot both be meant; empty when they agree."""
    if not (meta or call.modern or call.routing_headers):
        return ""
    body = {"mcp-method": call.method}
    if call.method == "tools/call" and (name := slices.string(call.params.get("name"))) is not None:
        body["mcp-name"] = name
    if (version := slices.string(meta.get(revisions.META_VERSION))) is not None:
        body["mcp-protocol-version"] = version
    for header, expected in body.items():
        shown = _DESCRIPTIONS_OF[header]
        value = table.get(header)
        if value is None:
            # An unknown revision is for the server to refuse, in its own words.
            if call.modern and revisions.is_known(call.revision):
                return f"{shown} is missing"
            continue
        if len(table) != len(request_headers) and len(headers.get_all(request_headers, header)) > 1:
            return f"{shown} stands more than once"
        try:
            if headers.decode_value(value) != expected:
                return f"{shown} does not match the body"
        except headers.BadHeader as error:
            return f"{shown} is {error}"
    return ""
