"""Rewrite a model that stores int8 weights but multiplies in float into one that multiplies in int8.

The MiniLM weights are held as int8 with one scale a column, and the graph turns them back into float:
``MatMul(x, Mul(Cast(weight), scale))``. Here each such product becomes ``DynamicQuantizeLinear(x)`` followed by
``MatMulIntegerToFloat`` (an operator of every onnxruntime build for processors). The weights are used exactly as they
are stored; only the activations are rounded. That is what ``onnxruntime.quantization.quantize_dynamic`` does, without
rounding the weights a second time and without the package onnx. Same bytes in, same bytes out.

Processors without a dot product for bytes (x86 before VNNI) add pairs of products in 16 bits and may cut off large
sums, so vectors can differ a little more between such a machine and others than float vectors do.

Field numbers: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rag_mcp.embedders.protobuf import Field, WireError, encode_bytes, encode_int, fields

__all__ = ["REWRITE_VERSION", "multiply_in_int8"]

# Part of the embedder's fingerprint: raise it whenever the rewritten graph changes.
REWRITE_VERSION = 1

_MODEL_GRAPH, _MODEL_OPSET = 7, 8
_OPSET_DOMAIN, _OPSET_VERSION = 1, 2
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_VALUE_INFO = 1, 5, 13
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_OP, _NODE_DOMAIN = 1, 2, 3, 4, 7
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_NAME = 1, 2, 8
_INT8, _FLOAT = 3, 1


@dataclass(slots=True)
class _Node:
    raw: memoryview
    op: str = ""
    inputs: list[str] = field(default_factory=list)
    output: str = ""


@dataclass(slots=True)
class _Tensor:
    body: memoryview
    name: str = ""
    type: int = 0
    dims: list[int] = field(default_factory=list)


def multiply_in_int8(model: bytes) -> bytes:
    """Return the rewritten model. Raises WireError when the bytes are no model or hold no product of that form."""
    head: list[bytes] = []
    graph: Field | None = None
    for part in fields(memoryview(model)):
        if part.id == _MODEL_GRAPH:
            graph = part
        else:
            head.append(bytes(part.raw))
    if graph is None:
        raise WireError("no graph")
    opset = encode_bytes(_OPSET_DOMAIN, "com.microsoft") + encode_int(_OPSET_VERSION, 1)
    return b"".join(
        (*head, encode_bytes(_MODEL_OPSET, opset), encode_bytes(_MODEL_GRAPH, _rewritten_graph(graph.body)))
    )


def _rewritten_graph(graph: memoryview) -> bytes:
    nodes: list[_Node] = []
    tensors: dict[str, _Tensor] = {}
    rest: list[bytes] = []
    for part in fields(graph):
        if part.id == _GRAPH_NODE:
            nodes.append(_node(part))
        elif part.id == _GRAPH_INITIALIZER:
            tensor = _tensor(part.body)
            tensors[tensor.name] = tensor
            rest.append(bytes(part.raw))
        elif part.id != _GRAPH_VALUE_INFO:
            rest.append(bytes(part.raw))
    return b"".join((*_rewritten_nodes(nodes, tensors), *rest))


def _rewritten_nodes(nodes: list[_Node], tensors: dict[str, _Tensor]) -> list[bytes]:
    """Nodes in an order that keeps the graph sorted, then the scales of the rewritten products."""
    producers = {node.output: node for node in nodes}
    uses = Counter(name for node in nodes for name in node.inputs)
    for name in [name for name, count in uses.items() if count > 1]:
        producers.pop(name, None)
    products = {node.output: found for node in nodes if (found := _stored_weight(node, producers, tensors))}
    if not products:
        raise WireError("no product with stored int8 weights")
    unpacked = {output for weight, _ in products.values() for output in weight}
    out: list[bytes] = []
    scales: dict[str, bytes] = {}
    rounded: set[str] = set()
    for node in nodes:
        if node.output in products:
            (_, _), (weight, scale) = products[node.output]
            source = node.inputs[0]
            if source not in rounded:
                rounded.add(source)
                names = [f"{source}_u8", f"{source}_scale8", f"{source}_zero8"]
                out.append(_encoded_node("DynamicQuantizeLinear", [source], names))
            inputs = [f"{source}_u8", weight, f"{source}_scale8", f"{scale}_flat", f"{source}_zero8"]
            out.append(_encoded_node("MatMulIntegerToFloat", inputs, [node.output], "com.microsoft"))
            scales[scale] = _flattened(tensors[scale])
        elif node.output not in unpacked:
            out.append(bytes(node.raw))
    return [*out, *scales.values()]


def _stored_weight(
    node: _Node, producers: dict[str, _Node], tensors: dict[str, _Tensor]
) -> tuple[tuple[str, str], tuple[str, str]] | None:
    """For ``MatMul(x, Mul(Cast(weight), scale))``: ((outputs of Cast and Mul), (weight, scale)); None otherwise.

    ``producers`` holds only nodes whose output is used once, so that dropping them takes nothing from others.
    """
    if node.op != "MatMul" or len(node.inputs) != 2:
        return None
    scaled = producers.get(node.inputs[1])
    if scaled is None or scaled.op != "Mul" or len(scaled.inputs) != 2:
        return None
    cast = producers.get(scaled.inputs[0])
    if cast is None or cast.op != "Cast" or len(cast.inputs) != 1:
        return None
    weight, scale = tensors.get(cast.inputs[0]), tensors.get(scaled.inputs[1])
    if weight is None or scale is None or weight.type != _INT8 or scale.type != _FLOAT:
        return None
    if len(weight.dims) != 2 or scale.dims != [1, weight.dims[1]]:
        return None
    return (cast.output, scaled.output), (weight.name, scale.name)


def _node(part: Field) -> _Node:
    node = _Node(part.raw)
    for item in fields(part.body):
        if item.id == _NODE_INPUT:
            node.inputs.append(item.text())
        elif item.id == _NODE_OUTPUT:
            node.output = node.output or item.text()
        elif item.id == _NODE_OP:
            node.op = item.text()
    return node


def _tensor(body: memoryview) -> _Tensor:
    tensor = _Tensor(body)
    for item in fields(body):
        if item.id == _TENSOR_NAME:
            tensor.name = item.text()
        elif item.id == _TENSOR_TYPE:
            tensor.type = item.number
        elif item.id == _TENSOR_DIMS:
            tensor.dims.append(item.number)
    return tensor


def _flattened(tensor: _Tensor) -> bytes:
    """The same numbers with one axis, under another name: the product takes a vector of scales."""
    kept = [bytes(item.raw) for item in fields(tensor.body) if item.id not in (_TENSOR_DIMS, _TENSOR_NAME)]
    shape = encode_int(_TENSOR_DIMS, tensor.dims[-1])
    return encode_bytes(_GRAPH_INITIALIZER, b"".join((shape, *kept, encode_bytes(_TENSOR_NAME, f"{tensor.name}_flat"))))


def _encoded_node(op: str, inputs: list[str], outputs: list[str], domain: str = "") -> bytes:
    body = b"".join(
        (
            *(encode_bytes(_NODE_INPUT, name) for name in inputs),
            *(encode_bytes(_NODE_OUTPUT, name) for name in outputs),
            encode_bytes(_NODE_NAME, f"{outputs[0]}_int8"),
            encode_bytes(_NODE_OP, op),
            encode_bytes(_NODE_DOMAIN, domain) if domain else b"",
        )
    )
    return encode_bytes(_GRAPH_NODE, body)
