"""Every setting with its unit and default.

Sources, later ones win: defaults, the YAML file, ``TOOLSEARCH_<SECTION>__<NAME>`` environment variables,
``--section.name`` flags.  The sections are frozen; the core receives them as plain values.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

Seconds = Annotated[float, Field(ge=0)]
Bytes = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Caller(Section):
    """Who is asking: which headers and attributes tell two callers apart."""

    headers: tuple[str, ...] = ("authorization", "cookie", "x-api-key", "x-forwarded-client-cert")
    """Request headers that tell callers apart and are passed on to ``catalog.url``."""
    attributes: tuple[str, ...] = ()
    """Verified attributes (for example ``sub`` of the gateway's JWT filter) that stand for the token."""
    anonymous: Literal["isolate", "shared"] = "isolate"
    """``isolate``: without a credential the MCP session id is the key, without one nothing is cached."""
    key: SecretStr = SecretStr("")
    """Secret of the caller hash; empty makes a random one for each process."""


class Catalog(Section):
    """Where catalogues come from and how long they live."""

    url: str = ""
    """Unfiltered route of the same gateway; empty leaves only the in-band path."""
    headers: tuple[str, ...] = ()
    """Request headers passed to ``url`` besides the caller's credential headers."""
    token_attribute: str = ""
    """Request attribute sent to ``url`` as ``Authorization: Bearer`` where a request has no such header."""
    targets: dict[str, str] = Field(default_factory=dict)
    """Server name to the URL of its own unfiltered route: its list is compared with the gateway's."""
    refresh_after: Seconds = 5.0
    """A client's own ``tools/list`` is answered from a catalogue younger than this, in seconds."""
    ttl: Seconds = 600.0
    """Life of a catalogue in seconds; a shorter ``ttlMs`` of the server counts instead."""
    max_stale: Seconds = 3600.0
    """How long past its life a catalogue may still serve while refreshes fail, in seconds."""
    timeout: Seconds = 5.0
    """Deadline of one side fetch, all pages, in seconds."""
    max_pages: Annotated[int, Field(ge=1)] = 100
    """Pages of one list that are read."""
    max_fetches: Annotated[int, Field(ge=1)] = 16
    """Side fetches at once over all callers."""
    max_sessions: Annotated[int, Field(ge=1)] = 256
    """Own legacy sessions kept open for side fetches."""
    watch: bool = False
    """Watch streams for ``notifications/tools/list_changed``: keeps the processor in every GET stream."""
    store: str = ""
    """``redis://…`` shared store; empty keeps catalogues in this process only."""
    store_key: SecretStr = SecretStr("")
    """Secret that encrypts what the shared store holds; the same for all replicas."""
    store_timeout: Seconds = 0.05
    """How long the shared store is waited for, in seconds."""


class Tools(Section):
    """Operator's corrections of what upstreams say about their tools."""

    overrides: dict[str, Literal["read", "write", "destructive"]] = Field(default_factory=dict)
    """Glob of tool names to class, first match wins."""
    hide: tuple[str, ...] = ()
    """Globs of tool names that callers must not find, be told of or call."""
    pin: tuple[str, ...] = ()
    """Globs of tool names listed beside the six under their own names."""
    pin_apps: bool = False
    """Whether MCP Apps tools are listed too."""


class Search(Section):
    """Ranking and the shape of search answers."""

    embedder: str = "default"
    """``default``, ``none``, a model2vec folder or name, ``openai:…`` or ``onnx:…``."""
    embedder_cache: str = ""
    """Folder in which vectors of a remote embedder are kept; empty keeps them in memory only."""
    embedder_timeout: Seconds = 0.3
    """How long a query waits for a remote embedder before words alone serve, in seconds."""
    fusion: Literal["zscore", "rrf"] = "zscore"
    """How the rankings by words and by meaning are joined."""
    lexical_weight: Annotated[float, Field(ge=0, le=1)] = 0.3
    """Share of the ranking by words in the joint one."""
    limit: Annotated[int, Field(ge=1)] = 5
    """Hits for each query unless the caller asks for another number."""
    max_limit: Annotated[int, Field(ge=1)] = 25
    """Most hits a caller may ask for, for each query."""
    schemas: Count = 3
    """How many of the best hits carry their input schema."""
    description_chars: Annotated[int, Field(ge=20)] = 200
    """Characters of a description shown with a hit, which is cut at a sentence."""
    overview: bool = True
    """Whether the description of ``search_tools`` ends with the caller's servers and their sizes in tools."""


class Calls(Section):
    """The ``call_*`` tools and direct calls."""

    direct: Literal["allow", "deny"] = "allow"
    """Whether real tool names that are neither pinned nor one of the six may be called directly."""
    validate_arguments: bool = True
    """Whether arguments are checked against the tool's schema before a call is made."""
    max_batch: Annotated[int, Field(ge=0, le=10)] = 10
    """Calls in one ``call_read_tools``; 0 removes the tool."""
    watch_results: bool = True
    """Whether the answers of calls are read for errors that the tool's schema helps to mend."""


class Instructions(Section):
    """Guidance put in front of the upstream's ``instructions``."""

    enabled: bool = True
    """Whether guidance is put there at all."""
    text: str = ""
    """Replaces the built-in guidance."""
    max_chars: Annotated[int, Field(ge=0)] = 10_000
    """Characters of upstream text kept after the guidance."""


class Limits(Section):
    """Bounds on what one peer can make the processor do."""

    request_body: Bytes = 16 * 1024 * 1024
    """Largest request that is read, in bytes."""
    buffered: Bytes = 256 * 1024 * 1024
    """Request bodies held at once over all exchanges, in bytes; more are refused with 503."""
    response_body: Bytes = 64 * 1024 * 1024
    """Largest answer that is read, after decoding, in bytes."""
    tools: Annotated[int, Field(ge=1)] = 50_000
    """Tools in one catalogue."""
    cache: Bytes = 512 * 1024 * 1024
    """Catalogues and indexes in this process, in bytes; least recently used go first."""
    callers: Annotated[int, Field(ge=1)] = 100_000
    """Callers remembered; least recently seen go first."""
    answer: Bytes = 768 * 1024
    """Largest local answer, in bytes: clients refuse events above 1 MiB."""
    schema_depth: Annotated[int, Field(ge=1)] = 64
    """Deepest nesting of a schema that arguments are checked against, in levels."""
    schema_nodes: Annotated[int, Field(ge=1)] = 20_000
    """Largest schema that arguments are checked against, in nodes."""
    batch_result: Annotated[int, Field(ge=100)] = 25_000
    """Tokens' worth of results in one ``call_read_tools`` answer."""
    exchanges: Annotated[int, Field(ge=1)] = 10_000
    """Concurrent exchanges; more are refused."""


class Server(Section):
    """Listening and the dialect of the gateway."""

    listen: str = "127.0.0.1:50051"
    """``HOST:PORT`` or ``unix:/PATH`` of the gRPC service."""
    admin: str = "127.0.0.1:9090"
    """``/metrics``, ``/healthz``, ``/readyz``; empty switches it off."""
    deadline: Seconds = 8.0
    """A decision that takes longer than this is answered with an error, in seconds."""
    drain: Seconds = 10.0
    """After SIGTERM open exchanges may end for this long, in seconds."""
    lame_duck: Seconds = 0.0
    """After SIGTERM new exchanges are taken for this long, so that gateways notice first, in seconds."""
    socket_mode: Annotated[str, Field(pattern=r"^0?[0-7]{3}$")] = "0660"
    """Octal file mode of a ``unix:/PATH`` socket."""
    early_close: Literal["auto", "always", "never"] = "auto"
    """Whether streams end once nothing more is to be changed; ``auto`` where the gateway allows it."""
    response_mode: Literal["auto", "buffered", "streamed"] = "auto"
    """Body mode asked for where an answer has to be read; ``auto`` takes what the gateway does best."""
    max_message: Bytes = 64 * 1024 * 1024
    """Largest gRPC message, in bytes."""
    tls_cert: str = ""
    """PEM file of the service's certificate; empty serves without TLS."""
    tls_key: str = ""
    """PEM file of its private key."""
    tls_client_ca: str = ""
    """PEM file of the authority whose client certificates are asked for."""


class Telemetry(Section):
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe record that is logged."""
    log_format: Literal["text", "json"] = "text"
    """Form of a log record."""
    record: str = ""
    """File to record exchanges to, for ``replay``; credentials are blanked, bodies are not. Empty: none."""
    record_limit: Bytes = 64 * 1024 * 1024
    """Recording ends when the file has this size, in bytes."""


class Settings(Section):
    """All sections.  ``profiles`` maps a profile name to overrides of the sections above."""

    caller: Caller = Caller()
    catalog: Catalog = Catalog()
    tools: Tools = Tools()
    search: Search = Search()
    calls: Calls = Calls()
    instructions: Instructions = Instructions()
    limits: Limits = Limits()
    server: Server = Server()
    telemetry: Telemetry = Telemetry()
    profiles: dict[str, dict[str, dict[str, Any]]] = Field(default_factory=dict)
