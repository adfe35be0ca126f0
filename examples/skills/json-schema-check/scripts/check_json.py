#!/usr/bin/env python3
"""Validate JSON documents against a practical subset of JSON Schema."""

import argparse
import difflib
import functools
import ipaddress
import json
import os
import re
import sys
from datetime import date
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from json.decoder import scanstring
from urllib.parse import unquote

MAX_BYTES = 64 << 20
MAX_DEPTH = 200
MAX_INT_DIGITS = 4000
MAX_EXACT_EXPONENT = 1000  # beyond it multipleOf is not worth the digits
MAX_SHOWN = 60
ENCODER = json.JSONEncoder(ensure_ascii=False, default=float)

TYPES = ("null", "boolean", "object", "array", "number", "string", "integer")
ANNOTATIONS = {
    "$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated",
    "readOnly", "writeOnly", "contentEncoding", "contentMediaType",
}  # fmt: skip
UNSUPPORTED = {
    "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$anchor", "$vocabulary",
    "unevaluatedProperties", "unevaluatedItems", "dependencies", "contentSchema",
}  # fmt: skip
# What each keyword's value must look like, and where schemas are nested in it.
SHAPES = {
    "type": "type", "enum": "list", "const": "any", "$ref": "text", "format": "text", "pattern": "regex",
    "required": "names", "dependentRequired": "map of names",
    "properties": "map", "patternProperties": "regex map", "dependentSchemas": "map", "$defs": "map", "definitions": "map",
    "additionalProperties": "schema", "propertyNames": "schema", "contains": "schema", "not": "schema",
    "if": "schema", "then": "schema", "else": "schema", "additionalItems": "schema",
    "items": "schema or schemas", "prefixItems": "schemas", "allOf": "schemas", "anyOf": "schemas", "oneOf": "schemas",
    "minLength": "count", "maxLength": "count", "minItems": "count", "maxItems": "count",
    "minProperties": "count", "maxProperties": "count", "minContains": "count", "maxContains": "count",
    "minimum": "number", "maximum": "number", "exclusiveMinimum": "number", "exclusiveMaximum": "number",
    "multipleOf": "positive", "uniqueItems": "boolean",
}  # fmt: skip


class SchemaError(Exception):
    """The schema itself cannot be used."""


class ParseError(Exception):
    """The text is not JSON."""

    def __init__(self, message, position):
        super().__init__(message)
        self.position = position


# --- Reading JSON, remembering where each value stands -------------------------------------------


class Parser:
    """A strict JSON parser that can tell where the values at given JSON Pointers stand."""

    BLANK = re.compile(r"[ \t\n\r]*")
    NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
    WORDS = {"true": True, "false": False, "null": None}

    def __init__(self, text, wanted=frozenset()):
        self.text = text
        self.wanted = wanted
        self.offsets = {}
        self.repeated = []  # (pointer, offset, key)

    def parse(self):
        value, end = self.value(self.skip(0), "", 0)
        end = self.skip(end)
        if end != len(self.text):
            raise ParseError("unexpected text after the end of the document", end)
        return value

    def skip(self, position):
        return self.BLANK.match(self.text, position).end()

    def value(self, at, pointer, depth):
        if depth > MAX_DEPTH:
            raise ParseError(f"nested more than {MAX_DEPTH} levels deep", at)
        if pointer in self.wanted:
            self.offsets[pointer] = at
        start = self.text[at : at + 1]
        if start == "{":
            return self.object(at, pointer, depth)
        if start == "[":
            return self.array(at, pointer, depth)
        if start == '"':
            return self.string(at)
        for word, value in self.WORDS.items():
            if self.text.startswith(word, at):
                return value, at + len(word)
        match = self.NUMBER.match(self.text, at)
        if not match:
            raise ParseError("expected a value" if start else "the document ends too early", at)
        digits = match.group()
        if match[1] or match[2] or len(digits) > MAX_INT_DIGITS:
            try:
                return Decimal(digits), match.end()
            except InvalidOperation:
                raise ParseError("this number is out of range", at) from None
        return int(digits), match.end()

    def string(self, at):
        try:
            return scanstring(self.text, at + 1, True)
        except json.JSONDecodeError as error:
            message = error.msg[0].lower() + error.msg[1:]
            raise ParseError(message.removesuffix(" at").removesuffix(" starting"), error.pos) from None

    def array(self, at, pointer, depth):
        items = []
        at = self.skip(at + 1)
        if self.text[at : at + 1] == "]":
            return items, at + 1
        while True:
            value, at = self.value(at, f"{pointer}/{len(items)}", depth + 1)
            items.append(value)
            at, done = self.separator(at, "]")
            if done:
                return items, at

    def object(self, at, pointer, depth):
        members = {}
        at = self.skip(at + 1)
        if self.text[at : at + 1] == "}":
            return members, at + 1
        while True:
            key_at = at
            if self.text[at : at + 1] != '"':
                raise ParseError("expected a key in double quotes", at)
            key, at = self.string(at)
            at = self.skip(at)
            if self.text[at : at + 1] != ":":
                raise ParseError("expected ':' after the key", at)
            if key in members:
                self.repeated.append((join(pointer, key), key_at, key))
            value, at = self.value(self.skip(at + 1), join(pointer, key), depth + 1)
            members[key] = value
            at, done = self.separator(at, "}")
            if done:
                return members, at

    def separator(self, at, closing):
        at = self.skip(at)
        mark = self.text[at : at + 1]
        if mark == closing:
            return at + 1, True
        if mark != ",":
            raise ParseError(f"expected ',' or '{closing}'", at)
        after = self.skip(at + 1)
        if self.text[after : after + 1] == closing:
            raise ParseError("a comma before the closing bracket is not JSON", at)
        return after, False

    def place(self, offset):
        """Return (line, column), both from 1."""
        line = self.text.count("\n", 0, offset) + 1
        return line, offset - self.text.rfind("\n", 0, offset)


def join(pointer, key):
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"


def readable(pointer):
    """Turn a JSON Pointer into $.lines[1].price."""
    path = "$"
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if part.isdigit():
            path += f"[{part}]"
        elif re.fullmatch(r"[A-Za-z_]\w*", part):
            path += f".{part}"
        else:
            path += f"[{show(part)}]"
    return path


def show(value):
    """Write a value on one short line."""
    text = ""
    # Piece by piece: the value may be a whole document.
    for piece in [str(value)] if isinstance(value, Decimal) else ENCODER.iterencode(value):
        text += piece[: MAX_SHOWN + 1]
        if len(text) > MAX_SHOWN:
            break
    text = "".join(ch if ch.isprintable() else " " for ch in text[: MAX_SHOWN + 1])
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


# --- Checking the schema ------------------------------------------------------------------------


class Schema:
    """A schema that has been checked and can be used."""

    def __init__(self, root, allow_unsupported=False):
        self.root = root
        self.allow_unsupported = allow_unsupported
        self.warnings = []
        self.checked = set()  # pointers of the schemas that have been looked at
        self.targets = {}  # local $ref -> (schema, pointer)
        self.check(root, "")

    def check(self, schema, pointer):
        """Raise SchemaError if a schema cannot be used; collect warnings."""
        self.checked.add(pointer)
        if isinstance(schema, bool):
            return
        if not isinstance(schema, dict):
            raise SchemaError(f"#{pointer}: a schema must be an object or a boolean, not {type_name(schema)}")
        for key, value in schema.items():
            here = join(pointer, key)
            shape = SHAPES.get(key)
            remote = key == "$ref" and isinstance(value, str) and not re.match(r"#(?:/|$)", value)
            if key in UNSUPPORTED or remote:
                message = f"#{here}: {f'$ref to {show(value)}' if remote else key} is not supported"
                if not self.allow_unsupported:
                    raise SchemaError(f"{message}; --allow-unsupported skips it")
                self.warnings.append(f"{message} and was skipped")
            elif shape is None:
                if key not in ANNOTATIONS and not key.startswith("x-"):
                    close = difflib.get_close_matches(key, SHAPES, 1)
                    hint = f"; did you mean {close[0]}?" if close else ""
                    self.warnings.append(f"#{here}: unknown keyword, it checks nothing{hint}")
            else:
                check_shape(shape, key, value, here)
                if key == "$ref":
                    self.resolve(value, here)
                for sub, where in subschemas(shape, value, here):
                    self.check(sub, where)

    def resolve(self, reference, where):
        """Find what a local reference points to."""
        if reference in self.targets:
            return
        pointer = unquote(reference[1:])
        target = self.root
        for part in pointer.split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            try:
                target = target[int(part)] if isinstance(target, list) else target[part]
            except (KeyError, IndexError, ValueError, TypeError):
                raise SchemaError(f"#{where}: $ref {show(reference)} points to nothing") from None
        self.targets[reference] = (target, pointer)
        if pointer not in self.checked:
            self.check(target, pointer)


def check_shape(shape, key, value, here):
    def require(condition, wanted):
        if not condition:
            raise SchemaError(f"#{here}: {key} must be {wanted}, not {show(value)}")

    def names(candidate):
        return isinstance(candidate, list) and all(isinstance(n, str) for n in candidate)

    if shape == "type":
        options = value if isinstance(value, list) else [value]
        require(options and all(isinstance(o, str) and o in TYPES for o in options), f"one or more of {', '.join(TYPES)}")
    elif shape == "list":
        require(isinstance(value, list), "a list")
    elif shape in ("text", "regex"):
        require(isinstance(value, str), "a string")
    elif shape == "names":
        require(names(value), "a list of strings")
    elif shape == "map of names":
        require(isinstance(value, dict) and all(names(v) for v in value.values()), "an object of lists of strings")
    elif shape in ("map", "regex map"):
        require(isinstance(value, dict), "an object of schemas")
    elif shape == "schemas":
        require(isinstance(value, list) and value, "a list of at least one schema")
    elif shape == "count":
        require(is_type(value, "integer") and value >= 0, "a whole number from 0")
    elif shape in ("number", "positive"):
        require(is_type(value, "number"), "a number")
        require(shape == "number" or value > 0, "greater than 0")
    elif shape == "boolean":
        require(isinstance(value, bool), "true or false")
    for pattern in [value] if shape == "regex" else value if shape == "regex map" else []:
        try:
            regex(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise SchemaError(f"#{here}: invalid pattern {show(pattern)}: {error}") from None


@functools.cache
def regex(pattern):
    """Compile a pattern the way JSON Schema means it: ASCII classes, and $ only at the very end."""
    translated, in_class, position = "", False, 0
    while position < len(pattern):
        piece = pattern[position : position + 2] if pattern[position] == "\\" else pattern[position]
        position += len(piece)
        if piece == "[":
            in_class = True
        elif piece == "]":
            in_class = False
        elif piece == "$" and not in_class:
            piece = r"\Z"
        translated += piece
    return re.compile(translated, re.ASCII)


def subschemas(shape, value, here):
    """Yield (schema, pointer) for the schemas inside a keyword's value."""
    if shape in ("map", "regex map"):
        yield from ((sub, join(here, name)) for name, sub in value.items())
    elif shape == "schemas" or (shape == "schema or schemas" and isinstance(value, list)):
        yield from ((sub, f"{here}/{i}") for i, sub in enumerate(value))
    elif shape in ("schema", "schema or schemas"):
        yield value, here


# --- Comparing values ---------------------------------------------------------------------------


def is_number(value):
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


def is_type(value, name):
    if name == "integer":
        return is_number(value) and (isinstance(value, int) or value == value.to_integral_value())
    if name == "number":
        return is_number(value)
    kinds = {"null": type(None), "boolean": bool, "object": dict, "array": list, "string": str}
    return isinstance(value, kinds[name])


def type_name(value):
    return next(name for name in ("null", "boolean", "object", "array", "string", "integer", "number") if is_type(value, name))


def frozen(value):
    """Return a hashable form in which equal JSON values are equal (1 and 1.0, but not 1 and true)."""
    if isinstance(value, dict):
        return ("object", frozenset((key, frozen(v)) for key, v in value.items()))
    if isinstance(value, list):
        return ("array", tuple(frozen(v) for v in value))
    return ("number" if is_number(value) else type(value).__name__, value)


def is_multiple(value, step):
    for number in (value, step):
        if isinstance(number, Decimal) and abs(number.adjusted()) > MAX_EXACT_EXPONENT:
            return True  # not decidable within reason
    return Fraction(value) % Fraction(step) == 0


# --- Formats ------------------------------------------------------------------------------------


def check_time(text):
    match = re.fullmatch(r"(\d{2}):(\d{2}):(\d{2})(?:\.\d+)?(?:[Zz]|[+-](\d{2}):(\d{2}))", text, re.ASCII)
    if not match:
        return False
    hour, minute, second, zone_hour, zone_minute = (int(g or 0) for g in match.groups())
    return hour < 24 and minute < 60 and second <= 60 and zone_hour < 24 and zone_minute < 60


def check_date(text):
    try:
        return bool(re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII)) and bool(date.fromisoformat(text))
    except ValueError:
        return False


def check_address(kind):
    def check(text):
        try:
            return bool(kind(text)) and "%" not in text
        except ValueError:
            return False

    return check


def check_regex(text):
    try:
        return regex(text) is not None
    except (re.error, RecursionError, OverflowError):
        return False


LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
FORMATS = {
    "date": check_date,
    "time": check_time,
    "date-time": lambda s: len(s) > 10 and s[10] in "Tt" and check_date(s[:10]) and check_time(s[11:]),
    "email": lambda s: re.fullmatch(r"[^\s@\"<>()]{1,64}@[^\s@.]+(?:\.[^\s@.]+)*", s) is not None,
    "hostname": lambda s: len(s) <= 253 and re.fullmatch(rf"{LABEL}(?:\.{LABEL})*", s) is not None,
    "ipv4": check_address(ipaddress.IPv4Address),
    "ipv6": check_address(ipaddress.IPv6Address),
    "uri": lambda s: re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]*", s) is not None,
    "uuid": lambda s: re.fullmatch(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", s) is not None,
    "regex": check_regex,
}


# --- Validating ---------------------------------------------------------------------------------


class Problem:
    """One way in which a document breaks its schema."""

    def __init__(self, pointer, schema_pointer, message):
        self.pointer = pointer
        self.schema_pointer = schema_pointer
        self.message = message


class Validator:
    """Checks values against one schema."""

    def __init__(self, schema, check_formats):
        self.schema = schema
        self.check_formats = check_formats
        self.active = set()  # (schema, instance) pairs under evaluation through $ref

    def validate(self, value):
        return list(self.check(value, self.schema.root, "", ""))

    def check(self, value, schema, at, where):
        """Yield the problems of `value` (at pointer `at`) under `schema` (at pointer `where`)."""
        if schema is True:
            return
        if schema is False:
            yield Problem(at, where, "nothing is allowed here")
            return

        reference = schema.get("$ref")
        if reference in self.schema.targets:
            target, pointer = self.schema.targets[reference]
            if (pointer, at) in self.active:
                raise SchemaError(f"#{where}/$ref: the reference leads back to itself")
            self.active.add((pointer, at))
            yield from self.check(value, target, at, pointer)
            self.active.discard((pointer, at))

        allowed = schema.get("type")
        if allowed is not None:
            options = allowed if isinstance(allowed, list) else [allowed]
            if not any(is_type(value, option) for option in options):
                yield Problem(at, f"{where}/type", f"expected {' or '.join(options)}, found {type_name(value)} {show(value)}")
                return  # everything else would only repeat it
        if "const" in schema and frozen(value) != frozen(schema["const"]):
            yield Problem(at, f"{where}/const", f"must be {show(schema['const'])}, found {show(value)}")
        if "enum" in schema and frozen(value) not in {frozen(option) for option in schema["enum"]}:
            options = ", ".join(show(option) for option in schema["enum"][:10])
            more = ", ..." if len(schema["enum"]) > 10 else ""
            yield Problem(at, f"{where}/enum", f"must be one of {options}{more}, found {show(value)}")

        if isinstance(value, dict):
            yield from self.check_object(value, schema, at, where)
        elif isinstance(value, list):
            yield from self.check_array(value, schema, at, where)
        elif isinstance(value, str):
            yield from self.check_string(value, schema, at, where)
        elif is_number(value):
            yield from self.check_number(value, schema, at, where)
        yield from self.check_combined(value, schema, at, where)

    def check_object(self, value, schema, at, where):
        for name in schema.get("required", []):
            if name not in value:
                yield Problem(at, f"{where}/required", f"the property {show(name)} is missing")
        yield from counted(len(value), schema, "Properties", "properties", at, where)
        for name, needed in schema.get("dependentRequired", {}).items():
            for other in needed if name in value else []:
                if other not in value:
                    yield Problem(at, f"{where}/dependentRequired", f"{show(name)} needs the property {show(other)}")
        for name, sub in schema.get("dependentSchemas", {}).items():
            if name in value:
                yield from self.check(value, sub, at, join(f"{where}/dependentSchemas", name))

        properties = schema.get("properties", {})
        patterns = [(regex(p), p, sub) for p, sub in schema.get("patternProperties", {}).items()]
        for name, member in value.items():
            here = join(at, name)
            known = name in properties
            if known:
                yield from self.check(member, properties[name], here, join(f"{where}/properties", name))
            for compiled, pattern, sub in patterns:
                if compiled.search(name):
                    known = True
                    yield from self.check(member, sub, here, join(f"{where}/patternProperties", pattern))
            if "propertyNames" in schema:
                for problem in self.check(name, schema["propertyNames"], here, f"{where}/propertyNames"):
                    problem.message = f"the name {show(name)}: {problem.message}"
                    yield problem
            if not known and "additionalProperties" in schema:
                sub = schema["additionalProperties"]
                if sub is False:
                    close = difflib.get_close_matches(name, properties, 1)
                    hint = f"; did you mean {show(close[0])}?" if close else ""
                    yield Problem(here, f"{where}/additionalProperties", f"the property {show(name)} is not allowed{hint}")
                else:
                    yield from self.check(member, sub, here, f"{where}/additionalProperties")

    def check_array(self, value, schema, at, where):
        yield from counted(len(value), schema, "Items", "items", at, where)
        prefix, rest, prefix_name, rest_name = schema.get("prefixItems", []), schema.get("items"), "prefixItems", "items"
        if isinstance(rest, list):
            # The older spelling of a tuple.
            prefix, rest, prefix_name, rest_name = rest, schema.get("additionalItems"), "items", "additionalItems"
        for i, item in enumerate(value):
            if i < len(prefix):
                yield from self.check(item, prefix[i], f"{at}/{i}", f"{where}/{prefix_name}/{i}")
            elif rest is False:
                yield Problem(f"{at}/{i}", f"{where}/{rest_name}", f"at most {len(prefix)} items are allowed")
                break
            elif rest is not None:
                yield from self.check(item, rest, f"{at}/{i}", f"{where}/{rest_name}")
        if schema.get("uniqueItems"):
            seen = {}
            for i, item in enumerate(value):
                first = seen.setdefault(frozen(item), i)
                if first != i:
                    yield Problem(f"{at}/{i}", f"{where}/uniqueItems", f"repeats item {first}: {show(item)}")
        if "contains" in schema:
            matching = sum(
                not self.problems(item, schema["contains"], f"{at}/{i}", f"{where}/contains") for i, item in enumerate(value)
            )
            least, most = schema.get("minContains", 1), schema.get("maxContains")
            if matching < least:
                yield Problem(at, f"{where}/contains", f"needs at least {least} matching item(s), found {matching}")
            if most is not None and matching > most:
                yield Problem(at, f"{where}/maxContains", f"allows at most {most} matching item(s), found {matching}")

    def check_string(self, value, schema, at, where):
        yield from counted(len(value), schema, "Length", "characters", at, where)
        if "pattern" in schema and not regex(schema["pattern"]).search(value):
            pattern = schema["pattern"] if len(schema["pattern"]) <= MAX_SHOWN else show(schema["pattern"])
            yield Problem(at, f"{where}/pattern", f"{show(value)} does not match the pattern {pattern}")
        check = FORMATS.get(schema.get("format")) if self.check_formats else None
        if check and not check(value):
            yield Problem(at, f"{where}/format", f"{show(value)} is not a valid {schema['format']}")

    def check_number(self, value, schema, at, where):
        for keyword, broken, text in (
            ("minimum", lambda limit: value < limit, "must be at least"),
            ("maximum", lambda limit: value > limit, "must be at most"),
            ("exclusiveMinimum", lambda limit: value <= limit, "must be greater than"),
            ("exclusiveMaximum", lambda limit: value >= limit, "must be less than"),
            ("multipleOf", lambda limit: not is_multiple(value, limit), "must be a multiple of"),
        ):
            if keyword in schema and broken(schema[keyword]):
                yield Problem(at, f"{where}/{keyword}", f"{text} {schema[keyword]}, found {show(value)}")

    def problems(self, value, schema, at, where):
        return list(self.check(value, schema, at, where))

    def check_combined(self, value, schema, at, where):
        for i, sub in enumerate(schema.get("allOf", [])):
            yield from self.check(value, sub, at, f"{where}/allOf/{i}")
        for keyword in ("anyOf", "oneOf"):
            if keyword not in schema:
                continue
            results = [self.problems(value, sub, at, f"{where}/{keyword}/{i}") for i, sub in enumerate(schema[keyword])]
            matching = [i for i, found in enumerate(results) if not found]
            if not matching:
                closest = min(range(len(results)), key=lambda i: distance(results[i]))
                text = f"fits none of {len(results)} alternatives; the closest is number {closest + 1}:"
                yield Problem(at, f"{where}/{keyword}", text)
                yield from results[closest]
            elif keyword == "oneOf" and len(matching) > 1:
                numbers = ", ".join(str(i + 1) for i in matching)
                yield Problem(at, f"{where}/oneOf", f"must fit exactly one alternative, but fits numbers {numbers}")
        if "not" in schema and not self.problems(value, schema["not"], at, f"{where}/not"):
            yield Problem(at, f"{where}/not", f"must not fit the schema under 'not', found {show(value)}")
        if "if" in schema:
            branch = "else" if self.problems(value, schema["if"], at, f"{where}/if") else "then"
            if branch in schema:
                yield from self.check(value, schema[branch], at, f"{where}/{branch}")


def distance(problems):
    """How far a value is from an alternative: a wrong discriminator weighs more than a wrong detail."""
    decisive = sum(p.schema_pointer.rsplit("/", 1)[-1] in ("const", "enum", "type") for p in problems)
    return decisive, len(problems)


def counted(size, schema, suffix, noun, at, where):
    least, most = schema.get(f"min{suffix}"), schema.get(f"max{suffix}")
    if least is not None and size < least:
        yield Problem(at, f"{where}/min{suffix}", f"needs at least {least} {noun}, has {size}")
    if most is not None and size > most:
        yield Problem(at, f"{where}/max{suffix}", f"allows at most {most} {noun}, has {size}")


# --- Command line -------------------------------------------------------------------------------


def read_bytes(path):
    if path == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise OSError(None, "nothing on standard input")
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    else:
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(None, f"larger than {MAX_BYTES >> 20} MiB")
    return data


def load_schema(path, allow_unsupported):
    """Return the schema in a file."""
    if path == "any":
        return Schema(True)
    try:
        parser = Parser(read_bytes(path).decode("utf-8-sig"))
        root = parser.parse()
    except OSError as error:
        raise SchemaError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SchemaError(f"{path}: not UTF-8 at byte {error.start}") from None
    except ParseError as error:
        line, column = parser.place(error.position)
        raise SchemaError(f"{path}:{line}:{column}: not JSON: {error}") from None
    return Schema(root, allow_unsupported)


def check_document(data, validator, first_line, max_errors):
    """Return (the first errors of one document as dictionaries, how many there are)."""

    def error(place, pointer, schema_pointer, message):
        return {
            "line": place[0] + first_line - 1, "column": place[1], "path": readable(pointer), "pointer": pointer,
            "schema_pointer": schema_pointer, "keyword": schema_pointer.rsplit("/", 1)[-1], "message": message,
        }  # fmt: skip

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        before = data[: bad.start]
        place = (before.count(b"\n") + 1, bad.start - before.rfind(b"\n"))
        return [error(place, "", "", f"not UTF-8: byte 0x{data[bad.start]:02x}")], 1
    parser = Parser(text)
    try:
        value = parser.parse()
    except ParseError as bad:
        return [error(parser.place(bad.position), "", "", f"not JSON: {bad}")], 1
    errors = [
        error(parser.place(offset), pointer, "", f"the key {show(key)} occurs twice in this object")
        for pointer, offset, key in parser.repeated[:max_errors]
    ]
    total = len(parser.repeated)
    problems = validator.validate(value)
    total += len(problems)
    problems = problems[: max_errors - len(errors)]
    if problems:
        # Only now is it worth knowing where the values stand.
        parser = Parser(text, {problem.pointer for problem in problems})
        parser.parse()
        for problem in problems:
            place = parser.place(parser.offsets[problem.pointer])
            errors.append(error(place, problem.pointer, problem.schema_pointer, problem.message))
    return errors, total


def main():
    cli = argparse.ArgumentParser(
        description="Validate JSON documents against a practical subset of JSON Schema.",
        epilog="exit codes: 0 all valid, 1 at least one is not, 2 wrong usage or an unusable schema",
    )
    cli.add_argument("files", metavar="FILE", nargs="+", help="document, or - for standard input")
    cli.add_argument("--schema", metavar="FILE", required=True, help="the schema, or 'any' to check only the syntax")
    cli.add_argument("-o", "--output", metavar="FILE", default="-", help="write the report there (default: print it)")
    cli.add_argument("--format", choices=("text", "json"), default="text", help="form of the report")
    cli.add_argument("--lines", action="store_true", help="each line of a file is one document")
    cli.add_argument("--max-errors", metavar="N", type=int, default=50, help="errors reported per document (default 50)")
    cli.add_argument("--no-format", action="store_true", help="treat the keyword format as a comment")
    cli.add_argument("--allow-unsupported", action="store_true", help="skip unsupported keywords instead of refusing")
    args = cli.parse_args()
    if args.max_errors < 1:
        cli.error("--max-errors must be at least 1")

    # Nesting is bounded by MAX_DEPTH; several calls belong to one level.
    sys.setrecursionlimit(MAX_DEPTH * 25)
    documents = []
    try:
        schema = load_schema(args.schema, args.allow_unsupported)
        for warning in schema.warnings:
            print(f"check_json.py: warning: schema: {warning}", file=sys.stderr)
        validator = Validator(schema, not args.no_format)
        for path in args.files:
            name = "stdin" if path == "-" else path
            try:
                data = read_bytes(path)
            except OSError as error:
                cli.error(f"cannot read {path}: {error.strerror}")
            parts = [(name, 1, data)]
            if args.lines:
                parts = [(f"{name}#{i}", i, line) for i, line in enumerate(data.split(b"\n"), 1) if line.strip()]
            for label, first_line, part in parts:
                documents.append((label, name, *check_document(part, validator, first_line, args.max_errors)))
    except SchemaError as error:
        print(f"check_json.py: error: schema: {error}", file=sys.stderr)
        return 2
    except RecursionError:
        print("check_json.py: error: the schema's references are nested too deeply", file=sys.stderr)
        return 2

    invalid = sum(total > 0 for *_, total in documents)
    if args.format == "json":
        report = {
            "valid": not invalid,
            "documents": [
                {"file": label, "valid": not total, "error_count": total, "errors": errors}
                for label, _, errors, total in documents
            ],
        }
        text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    else:
        lines = []
        for label, name, errors, total in documents:
            for e in errors:
                lines.append(f"{name}:{e['line']}:{e['column']}: {e['path']}: {e['message']}")
            if total > len(errors):
                lines.append(f"{label}: {total - len(errors)} more errors are not shown")
            lines.append(f"{label}: {f'{total} error(s)' if total else 'valid'}")
        text = "".join(f"{line}\n" for line in lines)
    if args.output == "-":
        sys.stdout.write(text)
    else:
        try:
            write_text(args.output, text)
        except OSError as error:
            cli.error(f"cannot write {error.filename or args.output}: {error.strerror}")
        print(f"{len(documents)} document(s), {invalid} invalid; report in {args.output}")
    return 1 if invalid else 0


def write_text(path, text):
    """Write a file whole or not at all."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(None, "not a regular file", path)
    temporary = f"{path}.tmp"
    with open(temporary, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
        stream.write(text)
    os.replace(temporary, path)


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 0
    sys.exit(code)
