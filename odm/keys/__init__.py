"""The key compiler: templates to order-preserving, unambiguous, readable keys.

Text to text: no I/O, no knowledge of backends. `compile_template` turns ``"CUSTOMER#{customer_id}"`` and the fields
of an entity into a `Template`, which encodes values, makes the range of a condition (`Span`), and compares with others.
"""

from odm.keys.binary import NumberBytes, PlainBytes, has_binary_part, in_bytes
from odm.keys.compare import can_be_key, can_equal, can_go_on_low, can_overlap, heads_can_equal
from odm.keys.grammar import Literal, Slot
from odm.keys.shards import (
    Shards,
    compile_hashed,
    random_suffix,
    sharded,
    suffix_of,
    suffixes,
    suffixes_leaving,
    suffixes_of,
    suffixes_read,
)
from odm.keys.spans import Op, Span, next_prefix
from odm.keys.template import Template, compile_several, compile_template, compile_verbatim, pair_encoder
from odm.keys.verbatim import Form, Kind, VerbatimKey, number_of, number_text

__all__ = [
    "Form",
    "Kind",
    "Literal",
    "NumberBytes",
    "Op",
    "PlainBytes",
    "Shards",
    "Slot",
    "Span",
    "Template",
    "VerbatimKey",
    "can_be_key",
    "can_equal",
    "can_go_on_low",
    "can_overlap",
    "compile_hashed",
    "compile_several",
    "compile_template",
    "compile_verbatim",
    "has_binary_part",
    "heads_can_equal",
    "in_bytes",
    "next_prefix",
    "number_of",
    "number_text",
    "pair_encoder",
    "random_suffix",
    "sharded",
    "suffix_of",
    "suffixes",
    "suffixes_leaving",
    "suffixes_of",
    "suffixes_read",
]
