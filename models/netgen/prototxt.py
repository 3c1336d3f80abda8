"""Protobuf text format, as far as our model files use it.

A message is a dict in the order it is printed.  A value is a number, a
bool, a str (printed in quotes), an Enum (printed bare), a dict (a nested
message) or a list (a repeated field)."""

import re


class Enum(str):
    """A name that is printed without quotes, such as MAX or TRAIN."""


def scalar(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, str):
        return '"%s"' % value
    return "%.10g" % value


def lines(message, indent=""):
    """The message's lines.  Short nested messages stay on one line."""
    for key, values in message.items():
        for value in values if isinstance(values, list) else [values]:
            if not isinstance(value, dict):
                yield "%s%s: %s" % (indent, key, scalar(value))
                continue
            inner = " ".join(lines(value))
            line = "%s%s { %s }" % (indent, key, inner)
            if len(line) < 80 and key != "layer" and "{" not in inner:
                yield line
            else:
                yield "%s%s {" % (indent, key)
                yield from lines(value, indent + "  ")
                yield indent + "}"


def text(message):
    return "\n".join(lines(message)) + "\n"


TOKEN = re.compile(r'\s*(?:#[^\n]*\n\s*)*("[^"]*"|[{}:]|[^\s{}:"#]+)')


def parse(source):
    """Text back into a dict in which every field is a list of values."""
    tokens = TOKEN.findall(source)
    message, end = parse_fields(tokens, 0)
    if end != len(tokens):
        raise ValueError("a '}' too many")
    return message


def parse_fields(tokens, i):
    message = {}
    while i < len(tokens) and tokens[i] != "}":
        key, i = tokens[i], i + 1
        if tokens[i] == ":":
            i += 1
        if tokens[i] == "{":
            value, i = parse_fields(tokens, i + 1)
        else:
            value = parse_scalar(tokens[i])
        message.setdefault(key, []).append(value)
        i += 1
    return message, i


def parse_scalar(token):
    if token[0] == '"':
        return token[1:-1]
    if token in ("true", "false"):
        return token == "true"
    try:
        return int(token)
    except ValueError:
        pass
    try:
        return float(token)
    except ValueError:
        return Enum(token)
