# rag_mcp in a container: model inside, no network needed to run, not root, fit for a read-only root file system.
#
#   docker build -t rag-mcp .
#   docker run --rm -v "$PWD/docs:/corpus:ro" -v rag-index:/index rag-mcp ingest /corpus
#   docker run --rm -i --read-only --tmpfs /tmp --network none --cap-drop ALL \
#       -v "$PWD/docs:/corpus:ro" -v rag-index:/index:ro rag-mcp

FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml requirements.txt README.md LICENSE ./
COPY rag_mcp ./rag_mcp
# --build-arg EXTRAS=[documents] for PDF, DOCX and HTML
ARG EXTRAS=
RUN python -m venv /opt/rag_mcp \
    && /opt/rag_mcp/bin/python -m pip install --no-cache-dir --constraint requirements.txt ".$EXTRAS"

FROM python:3.12-slim
RUN groupadd --gid 10001 rag && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin rag \
    && mkdir /corpus /index && chown 10001:10001 /index
COPY --from=build /opt/rag_mcp /opt/rag_mcp
ENV PATH=/opt/rag_mcp/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    RAG_MCP_CORPUS_ROOT=/corpus \
    RAG_MCP_DB_PATH=/index
USER 10001:10001
WORKDIR /corpus
ENTRYPOINT ["rag-mcp"]
