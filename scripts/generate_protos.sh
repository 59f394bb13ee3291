#!/bin/sh
# Compiles protos/ to the committed extproc/codec/*_pb2.py and .pyi, or into the folder given as first argument.
# PYTHON names the interpreter that has grpcio-tools (the "dev" extra).
set -eu
cd "$(dirname "$0")/.."
exec "${PYTHON:-.venv/bin/python}" -m grpc_tools.protoc -I protos \
  --python_out="${1:-.}" --pyi_out="${1:-.}" protos/extproc/codec/wire.proto
