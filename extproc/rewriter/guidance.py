"""What ``instructions`` says in front of the upstream's own text."""

from __future__ import annotations

from extproc.settings import Instructions

BUILT_IN = (
    "The tools of this server are found by searching. Call search_tools with what you need in plain words "
    "(several needs: several queries in one call). A hit says which call tool runs it: call_read_tool only "
    "reads, call_write_tool adds or changes, call_destructive_tool may delete, overwrite or is unclassified. "
    "Give its exact name and the arguments its inputSchema asks for; describe_tool shows a schema that a hit "
    "did not. After an error, mend the arguments it names and call again."
)
_CUT = "\n[cut: the server's instructions go on]"


def combine(original: str, policy: Instructions) -> str:
    """Guidance, then ``original`` up to ``policy.max_chars`` characters.  Unchanged when already there."""
    guidance = policy.text or BUILT_IN
    if original.startswith(guidance):
        return original
    if not original:
        return guidance
    kept = original
    if len(original) > policy.max_chars:
        kept = original[: policy.max_chars] + _CUT
    return f"{guidance}\n\n{kept}"
