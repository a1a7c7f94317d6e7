"""
The types of CEL, their assignability (cel-go `checker/types.go`), and the declarations of
functions.

`STANDARD` and `EXTENSIONS` have one overload per line: name, overload ID, parameters, result. A leading dot
marks a method; capitals are type parameters. Sources: cel-go `common/stdlib/standard.go`, `cel/library.go`,
`ext/{strings,lists,sets,comprehensions}.go`; apiserver `pkg/cel/library`, in the versions of
`pkg/cel/environment/base.go` for new expressions in 1.37.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Type(NamedTuple):
    """`kind` decides how types fit; `name` tells opaque types, messages and type parameters apart."""

    kind: str
    name: str
    parameters: tuple[Type, ...] = ()

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"


def list_of(element: Type) -> Type:
    return Type("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("opaque", "optional_type", (value,))


def type_of_type(of: Type) -> Type:
    return Type("type", "type", (of,))


def parameter(name: str) -> Type:
    return Type("parameter", name)


ERROR = Type("error", "!error!")
DYN, ANY, NULL = Type("dyn", "dyn"), Type("any", "any"), Type("null", "null")
BOOL, INT, UINT, DOUBLE = (Type(name, name) for name in ("bool", "int", "uint", "double"))
STRING, BYTES = Type("string", "string"), Type("bytes", "bytes")
TIMESTAMP, DURATION = Type("timestamp", "timestamp"), Type("duration", "duration")
TYPE = Type("type", "type")
QUANTITY, SEMVER = Type("message", "kubernetes.Quantity"), Type("message", "kubernetes.Semver")
URL, FORMAT = Type("message", "kubernetes.URL"), Type("message", "kubernetes.NamedFormat")
IP, CIDR = Type("opaque", "net.IP"), Type("opaque", "net.CIDR")
DEVICE = Type("message", "kubernetes.DRADevice")
SCALARS = frozenset(("bool", "int", "uint", "double", "string", "bytes"))
NULLABLE = frozenset(("opaque", "message", "any", "duration", "timestamp"))
NESTED = frozenset(("opaque", "list", "map"))

type Bindings = dict[Type, Type]


def is_dyn(value_type: Type) -> bool:
    return value_type.kind in ("dyn", "any")


def loose(value_type: Type) -> bool:
    return value_type.kind in ("dyn", "any", "error")


def unwrapped(value_type: Type) -> tuple[Type, bool]:
    """Return what an optional type holds, and whether it was optional."""
    return (value_type.parameters[0], True) if value_type.name == "optional_type" else (value_type, False)


def substitute(bound: Bindings, value_type: Type, *, free_to_dyn: bool = False) -> Type:
    """Replace type parameters by what is known of them."""
    while (replacement := bound.get(value_type)) is not None:
        value_type = replacement
    if value_type.kind == "parameter":
        return DYN if free_to_dyn else value_type
    if not value_type.parameters:
        return value_type
    parts = tuple(substitute(bound, part, free_to_dyn=free_to_dyn) for part in value_type.parameters)
    return value_type._replace(parameters=parts)


def fit_all(bound: Bindings, actual: list[Type], expected: list[Type]) -> Bindings | None:
    """Return `bound` with what follows from `given` being assignable to `wanted`; None if it is not."""
    tried = dict(bound)
    if len(actual) == len(expected) and all(
        _fits(tried, *pair) for pair in zip(actual, expected, strict=True)
    ):
        return tried
    return None


def more_general(left: Type, right: Type) -> Type:
    """Return the more general of two types that fit."""
    return left if _less_specific(left, right) else right


def equivalent(left: Type, right: Type) -> bool:
    """Say whether two types are the same but for the names of their parameters."""
    if left.kind == "parameter" or right.kind == "parameter":
        return left.kind == right.kind
    if left.kind != right.kind or left.name != right.name or len(left.parameters) != len(right.parameters):
        return False
    return all(map(equivalent, left.parameters, right.parameters))


def _fits(bound: Bindings, left: Type, right: Type) -> bool:
    if right.kind == "parameter":
        valid, is_bound = _substitutes(bound, left, right)
        if valid or is_bound:
            return valid
    if left.kind == "parameter":
        return _substitutes(bound, right, left)[0]
    if loose(left) or loose(right):
        return True
    if left.kind == "null":
        return right.kind == "null" or right.kind in NULLABLE
    if right.kind == "null":
        return left.kind in NULLABLE
    if left.kind == "type":
        return right.kind == "type"
    if left.kind != right.kind or left.name != right.name:
        return False
    if left.kind in NESTED:
        return len(left.parameters) == len(right.parameters) and all(
            _fits(bound, *pair) for pair in zip(left.parameters, right.parameters, strict=True)
        )
    return True


def _substitutes(bound: Bindings, actual: Type, free: Type) -> tuple[bool, bool]:
    """Say whether `one` can stand for the parameter `free`, and whether something already does."""
    if actual == free:
        return True, True
    current = bound.get(free)
    if current is not None:
        if actual == current:
            return True, True
        if _fits(bound, actual, current):
            general = more_general(actual, current)
            if _apart(bound, free, general):
                bound[free] = general
            return True, True
        return False, True
    if _apart(bound, free, actual):
        bound[free] = actual
        return True, False
    return False, False


def _apart(bound: Bindings, free: Type, within: Type) -> bool:
    """Say that `free` does not occur in `within`: a type must not contain itself."""
    if free == within:
        return False
    if within.kind == "parameter":
        current = bound.get(within)
        return current is None or _apart(bound, free, current)
    return all(_apart(bound, free, part) for part in within.parameters)


def _less_specific(left: Type, right: Type) -> bool:
    if is_dyn(left) or left.kind == "parameter":
        return True
    if is_dyn(right) or right.kind == "parameter" or left.kind != right.kind:
        return False
    if left.kind == "type":
        return True
    if left.kind in NESTED:
        same = left.name == right.name and len(left.parameters) == len(right.parameters)
        return same and all(map(_less_specific, left.parameters, right.parameters))
    return left == right


STANDARD = """
_?_:_ conditional(bool, A, A) A
_&&_ logical_and(bool, bool) bool
_||_ logical_or(bool, bool) bool
!_ logical_not(bool) bool
@not_strictly_false not_strictly_false(bool) bool
_==_ equals(A, A) bool
_!=_ not_equals(A, A) bool
_+_ add_bytes(bytes, bytes) bytes
_+_ add_double(double, double) double
_+_ add_duration_duration(duration, duration) duration
_+_ add_duration_timestamp(duration, timestamp) timestamp
_+_ add_timestamp_duration(timestamp, duration) timestamp
_+_ add_int64(int, int) int
_+_ add_list(list(A), list(A)) list(A)
_+_ add_string(string, string) string
_+_ add_uint64(uint, uint) uint
_-_ subtract_double(double, double) double
_-_ subtract_duration_duration(duration, duration) duration
_-_ subtract_int64(int, int) int
_-_ subtract_timestamp_duration(timestamp, duration) timestamp
_-_ subtract_timestamp_timestamp(timestamp, timestamp) duration
_-_ subtract_uint64(uint, uint) uint
_*_ multiply_double(double, double) double
_*_ multiply_int64(int, int) int
_*_ multiply_uint64(uint, uint) uint
_/_ divide_double(double, double) double
_/_ divide_int64(int, int) int
_/_ divide_uint64(uint, uint) uint
_%_ modulo_int64(int, int) int
_%_ modulo_uint64(uint, uint) uint
-_ negate_double(double) double
-_ negate_int64(int) int
_[_] index_list(list(A), int) A
_[_] index_map(map(A, B), A) B
_[_] optional_list_index_int(optional_type(list(V)), int) optional_type(V)
_[_] optional_map_index_value(optional_type(map(K, V)), K) optional_type(V)
_[?_] list_optindex_optional_int(list(V), int) optional_type(V)
_[?_] optional_list_optindex_optional_int(optional_type(list(V)), int) optional_type(V)
_[?_] map_optindex_optional_value(map(K, V), K) optional_type(V)
_[?_] optional_map_optindex_optional_value(optional_type(map(K, V)), K) optional_type(V)
@in in_list(A, list(A)) bool
@in in_map(A, map(A, B)) bool
size size_bytes(bytes) int
size .size_bytes_inst(bytes) int
size size_list(list(A)) int
size .size_list_inst(list(A)) int
size size_map(map(A, B)) int
size .size_map_inst(map(A, B)) int
size size_string(string) int
size .size_string_inst(string) int
type type(A) type(A)
bool bool_to_bool(bool) bool
bool string_to_bool(string) bool
bytes bytes_to_bytes(bytes) bytes
bytes string_to_bytes(string) bytes
double double_to_double(double) double
double int64_to_double(int) double
double string_to_double(string) double
double uint64_to_double(uint) double
dyn to_dyn(A) dyn
int int64_to_int64(int) int
int double_to_int64(double) int
int duration_to_int64(duration) int
int string_to_int64(string) int
int timestamp_to_int64(timestamp) int
int uint64_to_int64(uint) int
string string_to_string(string) string
string bool_to_string(bool) string
string bytes_to_string(bytes) string
string double_to_string(double) string
string duration_to_string(duration) string
string int64_to_string(int) string
string timestamp_to_string(timestamp) string
string uint64_to_string(uint) string
string ip_to_string(net.IP) string
string cidr_to_string(net.CIDR) string
uint uint64_to_uint64(uint) uint
uint double_to_uint64(double) uint
uint int64_to_uint64(int) uint
uint string_to_uint64(string) uint
contains .contains_string(string, string) bool
endsWith .ends_with_string(string, string) bool
startsWith .starts_with_string(string, string) bool
matches matches(string, string) bool
matches .matches_string(string, string) bool
optional.of optional_of(V) optional_type(V)
optional.ofNonZeroValue optional_ofNonZeroValue(V) optional_type(V)
optional.none optional_none() optional_type(V)
value .optional_value(optional_type(V)) V
hasValue .optional_hasValue(optional_type(V)) bool
or .optional_or_optional(optional_type(V), optional_type(V)) optional_type(V)
orValue .optional_orValue_value(optional_type(V), V) V
last .list_last(list(V)) optional_type(V)
first .list_first(list(V)) optional_type(V)
optional.unwrap optional_unwrap(list(optional_type(V))) list(V)
unwrapOpt .optional_unwrapOpt(list(optional_type(V))) list(V)
cel.@mapInsert map_insert_key_value(map(K, V), K, V) map(K, V)
cel.@mapInsert map_insert_map(map(K, V), map(K, V)) map(K, V)
"""

EXTENSIONS = """
charAt .string_char_at_int(string, int) string
indexOf .string_index_of_string(string, string) int
indexOf .string_index_of_string_int(string, string, int) int
indexOf .list_a_index_of_int(list(A), A) int
lastIndexOf .string_last_index_of_string(string, string) int
lastIndexOf .string_last_index_of_string_int(string, string, int) int
lastIndexOf .list_a_last_index_of_int(list(A), A) int
lowerAscii .string_lower_ascii(string) string
upperAscii .string_upper_ascii(string) string
replace .string_replace_string_string(string, string, string) string
replace .string_replace_string_string_int(string, string, string, int) string
split .string_split_string(string, string) list(string)
split .string_split_string_int(string, string, int) list(string)
substring .string_substring_int(string, int) string
substring .string_substring_int_int(string, int, int) string
trim .string_trim(string) string
strings.quote strings_quote(string) string
join .list_join(list(string)) string
join .list_join_string(list(string), string) string
sets.contains list_sets_contains_list(list(T), list(T)) bool
sets.equivalent list_sets_equivalent_list(list(T), list(T)) bool
sets.intersects list_sets_intersects_list(list(T), list(T)) bool
slice .list_slice(list(T), int, int) list(T)
flatten .list_flatten(list(list(T))) list(T)
flatten .list_flatten_int(list(dyn), int) list(dyn)
lists.range lists_range(int) list(int)
reverse .list_reverse(list(T)) list(T)
distinct .list_distinct(list(T)) list(T)
find .string_find_string(string, string) string
findAll .string_find_all_string(string, string) list(string)
findAll .string_find_all_string_int(string, string, int) list(string)
quantity string_to_quantity(string) kubernetes.Quantity
isQuantity is_quantity_string(string) bool
sign quantity_sign(kubernetes.Quantity) int
isGreaterThan .quantity_is_greater_than(kubernetes.Quantity, kubernetes.Quantity) bool
isLessThan .quantity_is_less_than(kubernetes.Quantity, kubernetes.Quantity) bool
compareTo .quantity_compare_to(kubernetes.Quantity, kubernetes.Quantity) int
asApproximateFloat .quantity_get_float(kubernetes.Quantity) double
asInteger .quantity_get_int(kubernetes.Quantity) int
isInteger .quantity_is_integer(kubernetes.Quantity) bool
add .quantity_add(kubernetes.Quantity, kubernetes.Quantity) kubernetes.Quantity
add .quantity_add_int(kubernetes.Quantity, int) kubernetes.Quantity
sub .quantity_sub(kubernetes.Quantity, kubernetes.Quantity) kubernetes.Quantity
sub .quantity_sub_int(kubernetes.Quantity, int) kubernetes.Quantity
semver string_to_semver(string) kubernetes.Semver
semver string_bool_to_semver(string, bool) kubernetes.Semver
isSemver is_semver_string(string) bool
isSemver is_semver_string_bool(string, bool) bool
isGreaterThan .semver_is_greater_than(kubernetes.Semver, kubernetes.Semver) bool
isLessThan .semver_is_less_than(kubernetes.Semver, kubernetes.Semver) bool
compareTo .semver_compare_to(kubernetes.Semver, kubernetes.Semver) int
major .semver_major(kubernetes.Semver) int
minor .semver_minor(kubernetes.Semver) int
patch .semver_patch(kubernetes.Semver) int
ip string_to_ip(string) net.IP
ip .cidr_ip(net.CIDR) net.IP
ip.isCanonical ip_is_canonical(string) bool
isIP is_ip(string) bool
family .ip_family(net.IP) int
isUnspecified .ip_is_unspecified(net.IP) bool
isLoopback .ip_is_loopback(net.IP) bool
isLinkLocalMulticast .ip_is_link_local_multicast(net.IP) bool
isLinkLocalUnicast .ip_is_link_local_unicast(net.IP) bool
isGlobalUnicast .ip_is_global_unicast(net.IP) bool
cidr string_to_cidr(string) net.CIDR
isCIDR is_cidr(string) bool
containsIP .cidr_contains_ip_string(net.CIDR, string) bool
containsIP .cidr_contains_ip_ip(net.CIDR, net.IP) bool
containsCIDR .cidr_contains_cidr_string(net.CIDR, string) bool
containsCIDR .cidr_contains_cidr(net.CIDR, net.CIDR) bool
prefixLength .cidr_prefix_length(net.CIDR) int
masked .cidr_masked(net.CIDR) net.CIDR
validate .format-validate(kubernetes.NamedFormat, string) optional_type(list(string))
format.named format-named(string) optional_type(kubernetes.NamedFormat)
format.dns1123Label format.dns1123Label() kubernetes.NamedFormat
format.dns1123Subdomain format.dns1123Subdomain() kubernetes.NamedFormat
format.dns1035Label format.dns1035Label() kubernetes.NamedFormat
format.qualifiedName format.qualifiedName() kubernetes.NamedFormat
format.dns1123LabelPrefix format.dns1123LabelPrefix() kubernetes.NamedFormat
format.dns1123SubdomainPrefix format.dns1123SubdomainPrefix() kubernetes.NamedFormat
format.dns1035LabelPrefix format.dns1035LabelPrefix() kubernetes.NamedFormat
format.labelValue format.labelValue() kubernetes.NamedFormat
format.uri format.uri() kubernetes.NamedFormat
format.uuid format.uuid() kubernetes.NamedFormat
format.byte format.byte() kubernetes.NamedFormat
format.date format.date() kubernetes.NamedFormat
format.datetime format.datetime() kubernetes.NamedFormat
"""


COMPARED = ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")
SORTED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
CROSSED = (
    ("int", "double"),
    ("int", "uint"),
    ("uint", "double"),
    ("uint", "int"),
    ("double", "int"),
    ("double", "uint"),
)
RELATIONS = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
LONG = {"int": "int64", "uint": "uint64"}

LIST_TYPE_ATTRIBUTES = "includes .list_includes_dyn_dyn(dyn, dyn) bool"

NAMED = {
    named.name: named
    for named in (
        *(DYN, BOOL, INT, UINT, DOUBLE, STRING, BYTES),
        *(TIMESTAMP, DURATION, QUANTITY, SEMVER, IP, CIDR, FORMAT),
    )
}
WORD = re.compile(r"[\w.]+|[(),]")


class Overload(NamedTuple):
    """One signature of a function. A method takes what stands before the dot as its first parameter."""

    function: str
    name: str
    method: bool
    parameters: tuple[Type, ...]
    result: Type
    free: tuple[str, ...]  # its type parameters


def _overload(line: str) -> Overload:
    function, _, signature = line.partition(" ")
    name, _, rest = signature.partition("(")
    words = WORD.findall(f"({rest}")
    parameters, at = _types(words, 0)
    result, _ = _type(words, at)
    free = dict.fromkeys(word for word in words if len(word) == 1 and word.isupper())
    return Overload(function, name.lstrip("."), name.startswith("."), tuple(parameters), result, tuple(free))


def _types(words: list[str], at: int) -> tuple[list[Type], int]:
    """Read `(type, type)`; return the types and where to go on."""
    parsed: list[Type] = []
    at += 1
    while words[at] != ")":
        parsed_type, at = _type(words, at)
        parsed.append(parsed_type)
        at += words[at] == ","
    return parsed, at + 1


def _type(words: list[str], at: int) -> tuple[Type, int]:
    word, at = words[at], at + 1
    inner: list[Type] = []
    if at < len(words) and words[at] == "(":
        inner, at = _types(words, at)
    if len(word) == 1:
        return parameter(word), at
    if not inner:
        return NAMED[word], at
    kind = "opaque" if word == "optional_type" else word
    return Type(kind, word, tuple(inner)), at


def _relations() -> list[str]:
    lines = []
    for function, name in RELATIONS.items():
        lines += [f"{function} {name}_{LONG.get(left, left)}({left}, {left}) bool" for left in COMPARED]
        lines += [
            f"{function} {name}_{LONG.get(left, left)}_{LONG.get(right, right)}({left}, {right}) bool"
            for left, right in CROSSED
        ]
    return lines


def _of_lists() -> list[str]:
    lines = [
        f"sum .list_{element}_sum_{element}(list({element})) {element}"
        for element in ("int", "uint", "double", "duration")
    ]
    for element in SORTED:
        lines += [
            f"isSorted .list_{element}_is_sorted_bool(list({element})) bool",
            f"max .list_{element}_max_{element}(list({element})) {element}",
            f"min .list_{element}_min_{element}(list({element})) {element}",
            f"sort .list_{element}_sort(list({element})) list({element})",
            f"@sortByAssociatedKeys .list_{element}_sortByAssociatedKeys(list(T), list({element})) list(T)",
        ]
    return lines


def _functions(*tables: str) -> dict[str, list[Overload]]:
    lines = [line for table in tables for line in table.strip().splitlines()] + _relations() + _of_lists()
    by_name: dict[str, list[Overload]] = {}
    for line in lines:
        overload = _overload(line)
        by_name.setdefault(overload.function, []).append(overload)
    return by_name


FUNCTIONS = _functions(STANDARD, EXTENSIONS)
WITH_LISTS = _functions(STANDARD, EXTENSIONS, LIST_TYPE_ATTRIBUTES)
OVERLOADS = {overload.name: overload for overloads in WITH_LISTS.values() for overload in overloads}
# Times, string formats and URLs exist upstream; nothing of a device is made of them. Functions
# that need an `authorizer` exist too, but no selector has one.
NOT_HERE = frozenset(
    (
        *("timestamp", "duration", "getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate"),
        *("getDayOfWeek", "getHours", "getMinutes", "getSeconds", "getMilliseconds", "format"),
        *("url", "isURL", "getScheme", "getHost", "getHostname", "getPort", "getEscapedPath", "getQuery"),
        *(
            "path",
            "group",
            "serviceAccount",
            "resource",
            "subresource",
            "namespace",
            "name",
            "check",
            "allowed",
        ),
        *("reason", "errored", "error", "fieldSelector", "labelSelector"),
    )
)
