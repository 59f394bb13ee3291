# The processor: docker build -t mcp-toolsearch-extproc:0.1.0 .
# Three MCP servers for docker-compose.yml: docker build --target mcp-servers .

FROM python:3.11-slim AS build
WORKDIR /src
COPY constraints.txt pyproject.toml LICENSE README.md ./
COPY extproc ./extproc
RUN python -m venv /opt/toolsearch \
 && /opt/toolsearch/bin/pip install --no-cache-dir -c constraints.txt . \
 && /opt/toolsearch/bin/python -m compileall -q /opt/toolsearch
# The embedding model comes with the package; the build fails here when it cannot be loaded.
RUN cd / \
 && /opt/toolsearch/bin/python -c "from extproc.embedders import load; print(load('default').name)" \
 && /opt/toolsearch/bin/mcp-toolsearch-extproc serve --check

FROM python:3.11-slim AS mcp-servers
RUN apt-get update \
 && apt-get install -y --no-install-recommends git \
 && rm -rf /var/lib/apt/lists/* \
 && pip install --no-cache-dir mcp==1.30.0 mcp-proxy==0.13.0 mcp-server-git==2026.10.10 mcp-server-time==2026.10.10 \
 && useradd --uid 65532 --create-home --shell /usr/sbin/nologin servers
USER 65532:65532
RUN git init -q /home/servers/repository
ENTRYPOINT ["mcp-proxy", "--host", "0.0.0.0", "--pass-environment"]

FROM python:3.11-slim
LABEL org.opencontainers.image.title="mcp-toolsearch-extproc" \
      org.opencontainers.image.licenses="MIT"
RUN groupadd --gid 65532 toolsearch \
 && useradd --uid 65532 --gid 65532 --no-create-home --shell /usr/sbin/nologin toolsearch
COPY --from=build /opt/toolsearch /opt/toolsearch
# glibc keeps freed memory in an arena for each thread, eight for each core, and after the first large body it
# takes the next ones from there too instead of giving them back. Two arenas, and always back from 1 MiB on:
# otherwise the resident size stays at its peak, near the container's limit.
ENV MALLOC_ARENA_MAX=2 \
    MALLOC_MMAP_THRESHOLD_=1048576 \
    PATH=/opt/toolsearch/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
# ext_proc; metrics and health
EXPOSE 50051 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9090/readyz', timeout=2)"]
ENTRYPOINT ["mcp-toolsearch-extproc"]
CMD ["serve", "--listen", "0.0.0.0:50051", "--admin", "0.0.0.0:9090"]
