"""How many parts of a JSON Schema look at one place of the data, at most: so long it takes, whatever the data is.

A part that is referred to several times counts as often: thirty definitions that each refer twice to the next are 2^30.
Nor may a schema that refers to itself look at the same place ever more often the deeper it lies. Why not a time limit:
the library holds the interpreter's lock meanwhile, and with it the whole process.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from subscriptions.errors import InvalidSchema

#: How many parts may look at one place.
MAX_PARTS = 10_000
#: How many parts may lead on to one another at one place.
MAX_CHAIN = 100
#: Steps that are taken to find out.
_MAX_STEPS = 300_000
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS = ("$anchor", "$dynamicAnchor")
_HERE_ONE, _HERE_LIST = ("not", "if", "then", "else"), ("allOf", "anyOf", "oneOf")
_HERE_NAMED = ("dependentSchemas", "dependencies")
#: The library goes through what stands beside them twice more at that place, to know what was looked at (measured).
_AGAIN = {"unevaluatedProperties", "unevaluatedItems"}
_TIMES = 3
_TOO_MANY = (
    f"more than {MAX_PARTS:,} parts of the schema look at one place of the data: refer to each definition, and to one"
    " that refers to itself, once for a place"
)
Json = dict[str, Any]
#: How often each schema, by its `id()`, looks at a place.
Counts = Counter[int]
_KINDS = _MEMBER, _ITEM, _NAME = 0, 1, 2


@dataclass(frozen=True, slots=True)
class _Places:
    """What looks at places of one kind in the data."""

    anywhere: Counts = field(default_factory=Counter)
    #: What else does at one place; less than none where it is left out.
    named: dict[str | int, Counts] = field(default_factory=lambda: defaultdict(Counter))


def check_expansion(root: Json, depth: int) -> None:
    """Refuse a schema that takes too long on data of up to `depth` levels, or never ends.

    Raises:
        InvalidSchema: it does, or refers to something outside of it.
    """
    _Expansion(root).check(depth)


class _Expansion:
    """Schemas are known by their `id()`: the document lives as long as this."""

    def __init__(self, root: Json) -> None:
        self._root, self._steps = root, 0
        self._id = "id" if "draft-04" in str(root.get("$schema")) else "$id"
        given = root.get(self._id)
        self._uri = given if isinstance(given, str) else ""
        self._here: dict[int, Counts] = {}
        self._cost: dict[int, int] = {}
        self._schemas: dict[int, Json] = {}
        self._anchors = _anchors(root)

    def check(self, depth: int) -> None:
        """See how many parts look at data at each level: of that at level 0, then of what lies in it, and so on."""
        places = self._all_places()
        parts = {each: self._cost[each] for each in places}
        for _ in range(depth):
            deeper = {each: max(self._deeper(parts, kind) for kind in kinds) for each, kinds in places.items()}
            if max(deeper.values()) > MAX_PARTS:
                raise InvalidSchema(_TOO_MANY)
            if deeper == parts:
                return
            parts = deeper

    def _deeper(self, parts: dict[int, int], kind: _Places) -> int:
        """Count the parts that look at the place of a kind that most look at."""
        self._step(len(kind.anywhere) + sum(len(each) for each in kind.named.values()) + 1)
        anywhere = sum(parts[target] * times for target, times in kind.anywhere.items())
        more = (sum(parts[target] * times for target, times in each.items()) for each in kind.named.values())
        return anywhere + max((0, *more))

    def _all_places(self) -> dict[int, list[_Places]]:
        """Find what looks into data, for each schema that data comes to."""
        found: dict[int, list[_Places]] = {}
        self._schemas[id(self._root)] = self._root
        left = [id(self._root)]
        while left:
            schema = left.pop()
            if schema in found:
                continue
            found[schema] = kinds = [_Places() for _ in _KINDS]
            for part, times in self._looking_here(self._schemas[schema], ()).items():
                for kind, place, target, sign in _within(self._schemas[part]):
                    self._step()
                    self._schemas[id(target)] = target
                    counts = kinds[kind].anywhere if place is None else kinds[kind].named[place]
                    counts[id(target)] += sign * times
                    left.append(id(target))
        return found

    def _looking_here(self, schema: Json, above: tuple[int, ...]) -> Counts:
        """Count the parts that look at the same data as the schema does, with itself."""
        me = id(schema)
        if me in above:
            raise InvalidSchema("a part of the schema refers to itself for the same place of the data: leave that out")
        if me in self._here:
            return self._here[me]
        if len(above) >= MAX_CHAIN:
            raise InvalidSchema(
                f"parts of the schema refer on and on: let no more than {MAX_CHAIN} lead to one another"
            )
        self._schemas[me] = schema
        self._check_own(schema)
        counts, cost, times = Counts({me: 1}), 1, _TIMES if schema.keys() & _AGAIN else 1
        for part in self._parts_here(schema):
            theirs = self._looking_here(part, (*above, me))
            self._step(len(theirs))
            counts.update(theirs)
            cost += self._cost[id(part)] * times
        if cost > MAX_PARTS:
            raise InvalidSchema(_TOO_MANY)
        self._here[me], self._cost[me] = counts, cost
        return counts

    def _parts_here(self, schema: Json) -> Iterator[Json]:
        for name in _REFERENCES:
            if isinstance(reference := schema.get(name), str):
                yield from _schemas_in([self._resolve(reference)])
        yield from _schemas_in([schema.get(name) for name in _HERE_ONE])
        for name in _HERE_LIST:
            yield from _schemas_in(schema.get(name))
        for name in _HERE_NAMED:
            yield from _schemas_in([each for _, each in _members(schema, name)])

    def _resolve(self, reference: str) -> Any:
        """Find what is referred to. As there is one `$id`, a dynamic reference leads where any other does."""
        fragment = unquote(self._fragment(reference))
        if fragment and not fragment.startswith("/"):
            found = self._anchors[fragment]
            if len(found) != 1:
                raise _leads(reference, "to several places" if found else "nowhere")
            return found[0]
        place: Any = self._root
        for step in fragment.split("/")[1:]:
            self._check_own(place)
            try:
                name = step.replace("~1", "/").replace("~0", "~")
                place = place[int(name)] if isinstance(place, list) else place[name]
            except (LookupError, TypeError, ValueError):
                raise _leads(reference, "nowhere") from None
        return place

    def _fragment(self, reference: str) -> str:
        if reference.startswith("#"):
            return reference[1:]
        try:
            uri, fragment = urldefrag(urljoin(self._uri, reference))
            own = urldefrag(self._uri).url
        except ValueError:
            raise _leads(reference, "nowhere") from None
        if uri != own:
            raise InvalidSchema(f"{reference[:300]!r} is outside of the schema: put it under $defs")
        return fragment

    def _check_own(self, schema: Any) -> None:
        """Refuse a schema within the schema with a name of its own, which gives references another meaning."""
        if isinstance(schema, dict) and schema is not self._root and isinstance(schema.get(self._id), str):
            raise InvalidSchema(f"there is an {self._id} within the schema: leave it out, and refer to #/$defs/NAME")

    def _step(self, number: int = 1) -> None:
        self._steps += number
        if self._steps > _MAX_STEPS:
            raise InvalidSchema("the schema has too many parts that refer to one another: make it simpler")


def _within(schema: Json) -> Iterator[tuple[int, str | int | None, Json, int]]:
    """List what looks into the data: kind of place, place (None = any), schema, and -1 where it is left out there."""
    items, rest = schema.get("prefixItems"), schema.get("items")
    if isinstance(rest, list):  # of drafts before 2020-12
        items, rest = rest, schema.get("additionalItems")
    several = list(enumerate(items)) if isinstance(items, list) else []
    yield from ((_ITEM, *each) for each in _or_others(several, rest))
    yield from (
        (_MEMBER, *each) for each in _or_others(_members(schema, "properties"), schema.get("additionalProperties"))
    )
    patterns = [each for _, each in _members(schema, "patternProperties")]
    for kind, anywhere in (
        (_ITEM, [schema.get("unevaluatedItems"), schema.get("contains")]),
        (_MEMBER, [schema.get("unevaluatedProperties"), *patterns]),
        (_NAME, [schema.get("propertyNames")]),
    ):
        yield from ((kind, None, target, 1) for target in _schemas_in(anywhere))


def _or_others(several: Iterable[tuple[str | int, Any]], others: Any) -> Iterator[tuple[str | int | None, Json, int]]:
    """List the schemas of places, and that of all others."""
    for place, target in several:
        yield from ((place, each, 1) for each in _schemas_in([target]))
        yield from ((place, each, -1) for each in _schemas_in([others]))
    yield from ((None, each, 1) for each in _schemas_in([others]))


def _members(schema: Json, name: str) -> list[tuple[str, Any]]:
    several = schema.get(name)
    return list(several.items()) if isinstance(several, dict) else []


def _schemas_in(several: Any) -> Iterator[Json]:
    if isinstance(several, list):
        yield from (each for each in several if isinstance(each, dict))


def _anchors(root: Json) -> defaultdict[str, list[Json]]:
    """Find everything in the document that could be meant by the name of an anchor."""
    found, left = defaultdict[str, list[Json]](list), list[Any]([root])
    while left:
        each = left.pop()
        if isinstance(each, dict):
            for name in {name for key in _ANCHORS if isinstance(name := each.get(key), str)}:
                found[name].append(each)
        left += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
    return found


def _leads(reference: str, where: str) -> InvalidSchema:
    return InvalidSchema(f"it is no JSON Schema that can be used ({reference[:300]!r} leads {where}): correct it")
