"""Schemas and tools: a dict as it is, a pydantic class, or a function with type hints."""

from __future__ import annotations

import enum
import inspect
import json
import typing
from typing import Any, Callable, Dict, List, Literal, Optional, Sequence, Tuple, Union


def _is_pydantic(schema: Any) -> bool:
    return isinstance(schema, type) and hasattr(schema, "model_json_schema")


def closed(schema: Any) -> Any:
    """The schema with objects that have no other properties than those of the class, which would be ignored: a model
    need not write them. A class with extra="allow" says otherwise itself."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(value) if key not in ("enum", "const", "default") else value for key, value in schema.items()}
    if result.get("type") == "object" and isinstance(result.get("properties"), dict):
        result.setdefault("additionalProperties", False)
    return result


def of_schema(schema: Any) -> "Tuple[Dict[str, Any], Callable[[str], Any]]":
    """The JSON Schema, and what makes an object of an answer's text."""
    if isinstance(schema, dict):
        return schema, json.loads
    if isinstance(schema, str):
        return json.loads(schema), json.loads
    if _is_pydantic(schema):
        return closed(schema.model_json_schema()), schema.model_validate_json
    try:
        from pydantic import TypeAdapter
    except ImportError:
        raise TypeError("a schema is a dict, a JSON text or a pydantic class") from None
    adapter = TypeAdapter(schema)
    return closed(adapter.json_schema()), adapter.validate_json


_SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def of_type(hint: Any) -> Dict[str, Any]:
    """The JSON Schema of a type hint."""
    if hint in (Any, inspect.Parameter.empty):
        return {}
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    if _is_pydantic(hint):
        return closed(hint.model_json_schema())
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [one.value for one in hint]}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is Union or type(hint).__name__ == "UnionType":
        return {"anyOf": [of_type(one) for one in arguments]}
    if hint in (list, List) or origin in (list, tuple, Sequence):
        return {"type": "array", **({"items": of_type(arguments[0])} if arguments else {})}
    if hint in (dict, Dict) or origin is dict:
        return {"type": "object"}
    raise TypeError(f"no JSON Schema for the type {hint!r}: give the tool as a dict")


def of_tool(tool: Any) -> Dict[str, Any]:
    """OpenAI's form of a tool."""
    if isinstance(tool, dict):
        return tool if "function" in tool else {"type": "function", "function": tool}
    if _is_pydantic(tool):
        schema = closed(tool.model_json_schema())
        function = {"name": tool.__name__, "description": inspect.getdoc(tool) or "", "parameters": schema}
        return {"type": "function", "function": function}
    if not callable(tool):
        raise TypeError("a tool is a dict, a function or a pydantic class")
    hints = typing.get_type_hints(tool)
    properties: Dict[str, Any] = {}
    required: List[str] = []
    definitions: Dict[str, Any] = {}
    for name, parameter in inspect.signature(tool).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"{tool.__name__}: a tool has no *{name}")
        schema = properties[name] = of_type(hints.get(name, parameter.annotation))
        definitions.update(schema.pop("$defs", {}))  # references are to those of the whole
        if parameter.default is parameter.empty:
            required.append(name)
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    if definitions:
        parameters["$defs"] = definitions
    function = {"name": tool.__name__, "description": inspect.getdoc(tool) or "", "parameters": parameters}
    return {"type": "function", "function": function}


def call(tools: "Optional[Sequence[Any]]", name: str, arguments: Dict[str, Any]) -> Any:
    """Calls the function among the tools."""
    for tool in tools or ():
        if callable(tool) and not isinstance(tool, type) and tool.__name__ == name:
            hints = typing.get_type_hints(tool)
            return tool(**{key: _argument(hints.get(key), value) for key, value in arguments.items()})
    raise KeyError(f"no function among the tools is called {name}")


def _argument(hint: Any, value: Any) -> Any:
    """What a function with this hint expects."""
    if _is_pydantic(hint):
        return hint.model_validate(value)
    return hint(value) if isinstance(hint, type) and issubclass(hint, enum.Enum) else value
