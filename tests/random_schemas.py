#!/usr/bin/env python3
"""Makes random JSON Schemas and has the package `jsonschema`, with decimals, judge texts of them.

    make all build/tests/print_shapes
    python3 tests/random_schemas.py [--schemas 14000] [--texts 3] [--seed 1]

Half of the schemas are about numbers of up to 60 digits, half have unevaluatedItems or
unevaluatedProperties beside every other keyword. Each gets as many texts as --texts says, made of the
schema's own numbers and names and their neighbours, and one random walk through the shape. A text that the
shape accepts and jsonschema does not is a wrong accept; the exit status is 1 if there is one. Schemas that
the program refuses are counted, and so are valid texts that the shape does not accept: docs/shapes.md says
which of these are meant.
"""
import argparse
import collections
import decimal
import json
import os
import random
import subprocess
import sys

import jsonschema

BUILD = os.environ.get("VERBATIM_BUILD", "build")
NAMES = ["a", "b", "ab", "c"]
decimal.getcontext().prec = 2000


class Literal(str):
    """The text of a number, written as it is."""


def write(value):
    if isinstance(value, Literal):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(json.dumps(k) + ":" + write(v) for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    return json.dumps(value)


class Maker:
    """Random schemas and values that share numbers and names."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.pool = [self.number() for _ in range(3)]

    def number(self):
        r, kind = self.r, self.r.randrange(8)
        n = r.choice([1, 2, 3, 15, 16, 17, 18, 19, 20, 25, 40, 60])
        digits = str(r.randrange(1, 10)) + "".join(r.choice("0123456789") for _ in range(n - 1))
        if kind == 0:
            digits = str(r.choice([2**53, 2**63, 2**64, 10**16, 10**19]) + r.randrange(-2, 3))
        if kind == 1:
            digits = str(r.randrange(4))
        sign = r.choice(["", "", "-"])
        if kind in (2, 3) and len(digits) > 1:
            at = r.randrange(1, len(digits))
            digits = digits[:at] + "." + digits[at:]
        if kind == 4:
            digits = "0." + "0" * r.randrange(0, 20) + digits
        if kind == 5:
            digits += f"e{r.randrange(-30, 30)}"
        return Literal(sign + digits)

    def neighbour(self, literal):
        """A number that differs in its last digits, or not at all, written in another way."""
        value, r = decimal.Decimal(literal), self.r
        if value == value.to_integral_value() and r.random() < 0.7:
            value += r.choice([-1, 0, 0, 1])
        else:
            value += r.choice([-1, 0, 0, 1]) * decimal.Decimal(10) ** (value.as_tuple().exponent - r.randrange(2))
        text = format(value, "f")
        if text.lstrip("-0.") == "":
            text = "0"
        if r.random() < 0.15:
            text += "0" if "." in text else ".0"
        return Literal(text)

    def some_number(self):
        return self.neighbour(self.r.choice(self.pool)) if self.r.random() < 0.8 else self.number()

    def numbers(self, depth=0):
        """A schema about numbers."""
        r, schema = self.r, {}
        if r.random() < 0.6:
            schema["type"] = r.choice(["integer", "number", "number", ["integer", "string"]])
        for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            if r.random() < 0.3:
                schema[keyword] = self.some_number()
        if r.random() < 0.15:
            schema["const"] = self.some_number()
        if r.random() < 0.15:
            schema["enum"] = [self.some_number() for _ in range(r.randrange(1, 5))]
        if r.random() < 0.05:
            schema["multipleOf"] = Literal(r.choice(["1", "2", "0.5", "0.01", "7", "1e-9", "1e3"]))
        if depth < 2 and r.random() < 0.35:
            schema[r.choice(["allOf", "anyOf", "oneOf"])] = [self.numbers(depth + 1) for _ in range(2)]
        if depth < 2 and r.random() < 0.2:
            schema["not"] = self.numbers(2)
        if depth == 0 and r.random() < 0.1:
            return {"type": "array", "items": schema, "maxItems": 2}
        if depth == 0 and r.random() < 0.1:
            return {"const": [self.some_number(), {"a": self.some_number()}]}
        return schema

    def value(self, depth=0):
        r, kind = self.r, self.r.randrange(9)
        if depth < 2 and kind < 3:
            return [self.value(depth + 1) for _ in range(r.randrange(4))]
        if depth < 2 and kind < 6:
            return {n: self.value(depth + 1) for n in r.sample(NAMES, r.randrange(4))}
        return r.choice([None, True, "x", "yy", self.some_number(), Literal(str(r.randrange(4)))])

    def small(self):
        r = self.r
        return r.choice([True, True, False, {"type": "integer"}, {"type": "string"}, {"const": self.value(1)},
                         {"minimum": Literal("2")}, {"type": ["array", "object"]}, {}])

    def branch(self, depth):
        return self.shape(depth + 1) if depth < 2 and self.r.random() < 0.7 else self.small()

    def shape(self, depth=0):
        """A schema about arrays and objects."""
        r, schema = self.r, {}
        makers = {
            "type": lambda: r.choice(["array", "object", ["array", "object", "string"]]),
            "const": lambda: self.value(),
            "enum": lambda: [self.value() for _ in range(r.randrange(1, 4))],
            "properties": lambda: {n: self.branch(depth + 1) for n in r.sample(NAMES, r.randrange(1, 3))},
            "patternProperties": lambda: {r.choice(["^a", "b", "c$"]): self.branch(depth + 1)},
            "additionalProperties": lambda: self.small(),
            "required": lambda: r.sample(NAMES, r.randrange(1, 3)),
            "propertyNames": lambda: {"maxLength": 1},
            "dependentRequired": lambda: {"a": ["b"]},
            "dependentSchemas": lambda: {"a": self.branch(depth)},
            "maxProperties": lambda: r.randrange(4),
            "minProperties": lambda: r.randrange(3),
            "items": lambda: self.small(),
            "prefixItems": lambda: [self.branch(depth + 1) for _ in range(r.randrange(1, 3))],
            "contains": lambda: self.small(),
            "minContains": lambda: r.randrange(3),
            "minItems": lambda: r.randrange(3),
            "maxItems": lambda: r.randrange(4),
            "allOf": lambda: [self.branch(depth) for _ in range(r.randrange(1, 3))],
            "anyOf": lambda: [self.branch(depth) for _ in range(r.randrange(1, 4))],
            "oneOf": lambda: [self.branch(depth) for _ in range(2)],
            "not": lambda: self.branch(2),
            "if": lambda: self.branch(depth),
            "then": lambda: self.branch(depth),
            "else": lambda: self.branch(depth),
            "$ref": lambda: "#/$defs/" + r.choice("xy"),
        }
        for keyword in r.sample(sorted(makers), r.randrange(1, 4)):
            schema[keyword] = makers[keyword]()
        if depth == 0 or r.random() < 0.3:
            if r.random() < 0.7:
                schema["unevaluatedItems"] = False if r.random() < 0.7 else self.small()
            if r.random() < 0.7:
                schema["unevaluatedProperties"] = False if r.random() < 0.7 else self.small()
        if depth == 0:
            schema["$defs"] = {"x": self.shape_without_reference(), "y": self.small()}
        return schema

    def shape_without_reference(self):
        while True:
            schema = self.shape(2)
            if "$ref" not in write(schema):
                return schema

    def values_of(self, schema):
        """Values that the schema mentions, which it may have to refuse."""
        found = []
        if isinstance(schema, dict):
            found += [schema["const"]] if "const" in schema else []
            found += schema.get("enum", [])
            for value in schema.values():
                found += self.values_of(value)
        elif isinstance(schema, list):
            for item in schema:
                found += self.values_of(item)
        return found


def case(seed, texts):
    maker = Maker(seed)
    if seed % 2:
        schema = maker.numbers()
        values = [maker.some_number() for _ in range(texts)]
        if schema.get("type") == "array":
            values = [[v] for v in values]
    else:
        schema = maker.shape()
        values = [maker.value() for _ in range(texts)]
    known = maker.values_of(schema)
    if known:
        values[0] = maker.r.choice(known)
    return write(schema), [write(v) for v in values]


def validator():
    def is_integer(_, value):
        if isinstance(value, bool):
            return False
        return isinstance(value, int) or (isinstance(value, decimal.Decimal) and value == value.to_integral_value())

    base = jsonschema.Draft202012Validator
    return jsonschema.validators.extend(base, type_checker=base.TYPE_CHECKER.redefine("integer", is_integer))


def read(text):
    return json.loads(text, parse_float=decimal.Decimal)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--schemas", type=int, default=14000)
    parser.add_argument("--texts", type=int, default=3, help="of each schema, beside a walk")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    cases = [case(options.seed * 1000003 + i, options.texts) for i in range(options.schemas)]
    lines = [json.dumps({"kind": "schema", "shape": s, "texts": t, "walks": 1, "length": 80, "seed": i + 1})
             for i, (s, t) in enumerate(cases)]
    run = subprocess.run([os.path.join(BUILD, "tests", "print_shapes")], input="\n".join(lines) + "\n", text=True,
                         stdout=subprocess.PIPE, check=True)
    counts, wrong, judge = collections.Counter(), 0, validator()
    for (schema, texts), line in zip(cases, run.stdout.strip("\n").split("\n"), strict=True):
        result = json.loads(line)
        if "error" in result:
            counts["schemas refused"] += 1
            continue
        counts["schemas compiled"] += 1
        walks = [w["text"] for w in result["walks"] if "error" not in w]
        verdicts = [r["accepted"] for r in result["results"]] + [True] * len(walks)
        valid = judge(read(schema))
        for text, accepted in zip(texts + walks, verdicts):
            try:
                right = valid.is_valid(read(text))
            except decimal.DecimalException:  # a walk may write an exponent of any length
                counts["not judged"] += 1
                continue
            counts[f"{'accepted' if accepted else 'not accepted'} and {'valid' if right else 'invalid'}"] += 1
            if accepted and not right:
                wrong += 1
                print(f"wrong accept: {text} of {schema}")
    print(", ".join(f"{n} {what}" for what, n in counts.most_common()))
    print(f"{wrong} wrong accepts")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
