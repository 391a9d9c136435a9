# SPDX-License-Identifier: Apache-2.0
"""Canonical JSON and the tables of fields (format.md: Canonical JSON, record.json, The receipt, contract.json)."""
import calendar
import datetime
import hashlib
import json
import re
import unicodedata

import names

U8, U32, U64 = 255, 2 ** 32 - 1, 2 ** 64 - 1


class Bad(Exception):
    """Something that must hold does not."""


class Float(float):
    """A number that was written with a point or an exponent."""


def _pairs(pairs):
    out = {}
    for key, value in pairs:
        if key in out:
            raise Bad("the key %r comes twice" % key)
        out[key] = value
    return out


def _float(text):
    value = Float(text)
    if value in (float("inf"), float("-inf")):
        raise Bad("a number is too large")
    return value


def _constant(text):
    raise Bad("%s is no JSON" % text)


def _int(text):
    value = int(text) if len(text) < 30 else U64 + 1
    if not -2 ** 63 <= value <= U64 or text == "-0":
        raise Bad("an integer is too large")
    return value


def _depth(value, left):
    if isinstance(value, (dict, list)):
        if left == 0:
            raise Bad("nested too deep")
        for item in (value.values() if isinstance(value, dict) else value):
            _depth(item, left - 1)


def load(data):
    """JSON as Python values; floats are told from integers (format.md: Canonical JSON)."""
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_pairs, parse_float=_float, parse_int=_int,
                           parse_constant=_constant)
        _depth(value, 127)
        return value
    except (ValueError, RecursionError) as error:
        raise Bad("no JSON: %s" % error)


def float_text(value):
    """The shortest decimal of a 64-bit float (format.md: Canonical JSON, floats)."""
    sign, digits, exponent = _decimal(value)
    if digits == "0":
        return sign + "0.0"
    point = len(digits) + exponent  # the value is 0.digits * 10^point
    if -4 <= point <= 16:
        return sign + _plain(digits, point, True)
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return "%s%se%s%d" % (sign, mantissa, "+" if point > 1 else "-", abs(point - 1))


def metric_text(value):
    """A metric in a message: no exponent, no '.0' (format.md: The message)."""
    sign, digits, exponent = _decimal(value)
    if digits == "0":
        return "0"
    return sign + _plain(digits, len(digits) + exponent, False)


def _decimal(value):
    text = repr(float(value))
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, part = mantissa.partition(".")
    exponent = int(exponent or 0) - len(part)
    digits = (whole + part).lstrip("0")
    stripped = digits.rstrip("0")
    return sign, stripped or "0", exponent + len(digits) - len(stripped)


def _plain(digits, point, with_point):
    if point <= 0:
        return "0." + "0" * -point + digits
    if point >= len(digits):
        return digits + "0" * (point - len(digits)) + (".0" if with_point else "")
    return digits[:point] + "." + digits[point:]


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def _string(text):
    return '"' + re.sub(r'["\\\x00-\x1f]',
                        lambda m: _ESCAPES.get(m.group(), "\\u%04x" % ord(m.group())), text) + '"'


def _scalar(value):
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, int):
        return str(value)
    return _string(value)


def _write(value, indent, out):
    if isinstance(value, (dict, list)) and value:
        pad = "\n" + "  " * (indent + 1)
        is_map = isinstance(value, dict)
        out.append("{" if is_map else "[")
        for number, item in enumerate(value.items() if is_map else value):
            out.append(("," if number else "") + pad)
            if is_map:
                out.append(_string(item[0]) + ": ")
                item = item[1]
            _write(item, indent + 1, out)
        out.append("\n" + "  " * indent + ("}" if is_map else "]"))
    elif isinstance(value, dict):
        out.append("{}")
    elif isinstance(value, list):
        out.append("[]")
    else:
        out.append(_scalar(value))


def dump(value):
    """The canonical bytes of a value."""
    out = []
    try:
        _write(value, 0, out)
        return ("".join(out) + "\n").encode("utf-8")
    except (RecursionError, UnicodeEncodeError) as error:
        raise Bad("cannot be written as JSON: %s" % error)


def sha256(value):
    """sha256(canonical X) of format.md."""
    return hashlib.sha256(dump(value)).hexdigest()


def byte_order(texts):
    """Sets are arrays in the order of the bytes of their elements."""
    return sorted(texts, key=lambda t: t.encode("utf-8"))


# --- types of fields -------------------------------------------------------------------------

def string(value):
    if not isinstance(value, str):
        raise Bad("is no string")


def boolean(value):
    if not isinstance(value, bool):
        raise Bad("is no boolean")


def number(value):
    if not isinstance(value, Float):
        raise Bad("is no float")


def anything(_value):
    """Any JSON."""


def null(value):
    if value is not None:
        raise Bad("is not null")


def integer(maximum=U64, minimum=0):
    def check(value):
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise Bad("is no integer from %d to %d" % (minimum, maximum))
    return check


def regex(pattern, what):
    compiled = re.compile(pattern)

    def check(value):
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise Bad("is no %s" % what)
    return check


def enum(*words):
    def check(value):
        if not isinstance(value, str) or value not in words:
            raise Bad("is none of %s" % ", ".join(words))
    return check


def opt(kind):
    def check(value):
        if value is not None:
            kind(value)
    return check


def array(kind):
    def check(value):
        if not isinstance(value, list):
            raise Bad("is no array")
        for index, item in enumerate(value):
            _at("[%d]" % index, kind, item)
    return check


def mapping(kind, ordered=True):
    """A map with keys of its own, sorted by the bytes of the keys unless said otherwise."""
    def check(value):
        if not isinstance(value, dict):
            raise Bad("is no object")
        if ordered and list(value) != byte_order(value):
            raise Bad("has keys out of order")
        for key, item in value.items():
            _at("." + key, kind, item)
    return check


def obj(fields, closed=False, absent=()):
    """Every field of a table, in its order, but for those that may be absent; others are ignored unless it is closed."""
    table = dict(fields)

    def check(value):
        if not isinstance(value, dict):
            raise Bad("is no object")
        fields = {key: kind for key, kind in table.items() if key not in absent or value.get(key) is not None}
        known = [key for key in value if key in fields]
        missing = [key for key in fields if key not in value]
        if missing:
            raise Bad("lacks %s" % missing[0])
        if known != list(fields):
            raise Bad("has its fields out of order")
        if closed and len(value) != len(fields):
            raise Bad("has a field that it may not have")
        for key, kind in fields.items():
            _at("." + key, kind, value[key])
    return check


def _at(place, kind, value):
    try:
        kind(value)
    except Bad as error:
        text = str(error)
        raise Bad(place + (text if text[:1] in ".[" else " " + text))


def time_type(value):
    if not isinstance(value, str) or not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value, re.A):
        raise Bad("is no time")
    seconds(value)


def seconds(text):
    """A time as seconds since 1970 (format.md: the type time)."""
    try:
        moment = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        raise Bad("is no time")
    if moment.year < 1970:
        raise Bad("is before 1970")
    return calendar.timegm(moment.timetuple())


def micro(text):
    """Money as micro-dollars."""
    return int(text.replace(".", ""))


def usd(amount):
    """Micro-dollars as money."""
    return "%d.%06d" % divmod(amount, 1000000)


def _money(value):
    if not isinstance(value, str) or not re.fullmatch(r"(0|[1-9]\d*)\.\d{6}", value, re.A) or micro(value) > U64:
        raise Bad("is no money")


OID = regex(r"[0-9a-f]{40}|[0-9a-f]{64}", "id")
HASH = regex(r"[0-9a-f]{64}", "SHA-256")
FINGERPRINT = regex(r"SHA256:[A-Za-z0-9+/]{43}", "fingerprint")
STRINGS = array(string)
I32 = integer(2 ** 31 - 1, -2 ** 31)
ROLE = enum("approver", "runner", "operator", "reviewer", "promoter")
SIGNER = obj([("principal", string), ("key", FINGERPRINT)])
CONTEXT = array(obj([("path", string), ("content_sha256", HASH)]))
EVIDENCE = array(obj([("name", string), ("id", OID), ("bytes", integer()), ("truncated", boolean)]))
SEVERITY = enum("block", "warn")
FINDING = obj([("record", opt(OID)), ("severity", SEVERITY), ("principal", string)])
STATUS = enum("active", "awaiting_review", "succeeded", "stopped", "blocked")

EXIT = {}
for _code, _names in ((10, "success_condition_met"), (11, "human_required no_actionable_tasks operator_stopped"),
                      (12, "max_iterations_reached"),
                      (13, "blocked_path_modified metric_integrity_violation reward_hacking_detected "
                           "credential_scope_invalid objective_unverified"),
                      (14, "check_flaky check_has_side_effects check_not_hermetic hermeticity_violation"),
                      (15, "check_inadequate"), (16, "escalation_pending reviewer_rejected"),
                      (17, "no_progress_detected same_failure_repeated oscillation_detected same_test_regressed "
                           "unsatisfiable_constraints infeasible_suspected local_defense_limit"),
                      (18, "budget_exceeded cost_anomaly deadline_exceeded"),
                      (19, "heartbeat_stale model_drift_detected comprehension_debt_exceeded "
                           "context_budget_unsatisfiable"),
                      (20, "invariant_failed"), (30, "workspace_invalid isolation_unsatisfiable"),
                      (40, "execution_failure"), (50, "internal_error")):
    for _name in _names.split():
        EXIT[_name] = _code
HALT_REASON = enum(*EXIT)

RUN = obj([("command", STRINGS), ("exit_code", opt(I32)), ("signal", opt(I32)),
           ("ended", enum(*names.ENDED)),
           ("duration_ms", integer()), ("survivors", integer(U32))])
NO_REPORT = opt(enum(*names.NO_REPORT))
SAMPLE = obj([("run", RUN), ("report", opt(OID)), ("no_report", NO_REPORT), ("problem", opt(string)),
              ("metric", opt(number)), ("passing", boolean), ("tests_sha256", opt(HASH))])
CHECK = obj([("tree", OID), ("run", RUN), ("report", opt(OID)), ("no_report", NO_REPORT), ("problem", opt(string)),
             ("metric", opt(number)), ("noise", opt(number)), ("passing", boolean), ("flaky", boolean),
             ("partial", boolean),
             ("counts", opt(obj([("passed", integer()), ("failed", integer()), ("skipped", integer())]))),
             ("failures", opt(STRINGS)), ("collected", opt(HASH)), ("tests", opt(OID)), ("lost", STRINGS),
             ("newly_skipped", STRINGS), ("regressed", STRINGS), ("runs", array(SAMPLE))])
ENFORCED = obj([("adapter", enum(*names.BUILT_ADAPTERS)), ("filesystem", boolean), ("private_root", boolean),
                ("network", enum(*names.ENFORCED_NETWORKS)),
                ("unix_sockets", enum(*names.UNIX_SOCKETS)), ("capabilities_dropped", boolean),
                ("process_tree", enum(*names.PROCESS_TREES)),
                ("landlock_abi", opt(integer(U32)))])
EGRESS = obj([("requests", array(obj([("host", string), ("port", integer(65535)), ("allowed", boolean),
                                      ("why", opt(enum(*names.REFUSED))),
                                      ("sent", integer()), ("received", integer())]))), ("more", integer())])
SANDBOX = obj([("worker", opt(ENFORCED)), ("check", opt(ENFORCED)), ("worker_requests", opt(EGRESS)),
               ("check_requests", opt(EGRESS))])
HOLDOUT = obj([("folder", OID), ("run", RUN), ("verdict", enum(*names.HELD_OUT)),
               ("failing", opt(integer())), ("problem", opt(string)), ("sandbox", ENFORCED)])
MODEL = obj([(name, opt(string)) for name in ("provider", "model_id", "version", "quantization", "runtime",
                                              "endpoint")], closed=True)
SAMPLING = obj([("temperature", opt(number)), ("top_p", opt(number)), ("seed", opt(integer())),
                ("max_tokens", opt(integer()))], closed=True)
VIOLATIONS = array(obj([("path", string), ("what", string)]))
GUARDS = obj([("guards_intact", boolean), ("drift", VIOLATIONS), ("blocked", VIOLATIONS), ("tampered", VIOLATIONS),
              ("left_out", VIOLATIONS), ("outside", STRINGS)])
DECISION = obj([("outcome", enum("accept", "reject", "blocked")),
                ("status", enum("accept", "reject", "awaiting_review", "stopped", "blocked")), ("reason", string),
                ("outcome_reason", string), ("improved", boolean), ("rollback_required", boolean),
                ("halt_reason", opt(HALT_REASON)), ("exit_code", integer(U8))])
COST = obj([("prompt_tokens", opt(integer())), ("completion_tokens", opt(integer())), ("usd", opt(_money)),
            ("basis", enum("none", "reported", "unknown", "reserved")), ("problem", opt(string))])
LAYERS = obj([("setup", RUN),
              ("warm", array(obj([("folder", string), ("files", integer()), ("sha256", HASH)]))),
              ("included", array(obj([("path", string), ("sha256", HASH)])))], absent=("setup",))
RECEIPT = obj([("schema", string), ("loop", string), ("contract", OID), ("checkpoint", OID),
               ("iteration", integer(U32)), ("environment_id", string), ("base", OID), ("candidate", opt(OID)),
               ("candidate_tree", opt(OID)), ("abandoned", opt(string)),
               ("worker", opt(obj([("agent", opt(string)), ("run", RUN), ("failure", opt(string)),
                                   ("summary", opt(string))]))),
               ("outside", opt(obj([("rev", OID), ("adapter", opt(string)), ("summary", opt(string))]))),
               ("model", opt(MODEL)), ("sampling", opt(SAMPLING)), ("context", CONTEXT), ("cost", COST),
               ("changes", obj([("count", integer()), ("paths", STRINGS)])), ("guards", GUARDS),
               ("check", opt(CHECK)), ("holdout", HOLDOUT), ("sandbox", SANDBOX), ("layers", LAYERS),
               ("elapsed_seconds", integer()),
               ("decision", DECISION), ("determinism_confidence", opt(number)), ("unpinned", mapping(string))],
              absent=("holdout", "layers"))

BODIES = {
    "contract": obj([("tool", string), ("objective", string)]),
    "baseline": obj([("base", OID), ("check", CHECK), ("holdout", HOLDOUT), ("sandbox", SANDBOX),
                     ("layers", LAYERS), ("target_met", boolean), ("evidence", EVIDENCE)],
                    absent=("holdout", "layers")),
    "checkpoint": obj([("iteration", integer(U32)), ("base", OID), ("environment_id", string), ("adapter", string),
                       ("context", CONTEXT),
                       ("remaining", obj([("iterations", integer(U32)), ("usd", _money), ("tokens", opt(integer())),
                                          ("seconds", integer())])), ("reservation_usd", _money)]),
    "iteration": obj([("receipt", RECEIPT), ("evidence", EVIDENCE)]),
    "halt": obj([("by", enum("baseline", "decision", "limit", "operator")), ("halt_reason", HALT_REASON),
                 ("status", STATUS), ("reason", string), ("exit_code", integer(U8)), ("iteration", integer(U32)),
                 ("last_green_commit", OID), ("message", opt(string))]),
    "resume": obj([("halt", OID), ("message", opt(string))]),
    "review": obj([("verdict", enum("approve", "reject")), ("halt", OID), ("candidate", OID), ("personas", STRINGS),
                   ("attestations", mapping(boolean, ordered=False)), ("comment", opt(string)),
                   ("invocation", null)]),
    "promotion": obj([("halt", OID), ("reviews", array(OID)), ("candidate", OID), ("candidate_tree", OID),
                      ("tip", OID)]),
    "finding": obj([("action", enum("add", "resolve")), ("finding", opt(OID)), ("severity", SEVERITY),
                    ("message", string)]),
}

RECORD = obj([("schema", enum("git-loop/record/v1")), ("kind", enum(*BODIES)), ("loop", string),
              ("contract", opt(OID)), ("seq", integer()), ("prev", opt(OID)), ("at", time_type),
              ("actor", obj([("principal", string), ("key", FINGERPRINT), ("role", ROLE)])), ("body", anything)])


def _command(value):
    if not isinstance(value, dict) or list(value) not in (["exec"], ["shell"]):
        raise Bad("is no command")
    if "exec" in value:
        _at(".exec", STRINGS, value["exec"])
    else:
        _at(".shell", string, value["shell"])


def _network(value):
    """`none`, `host` or the hosts that may be reached."""
    if isinstance(value, dict):
        if list(value) != ["allow"]:
            raise Bad("is no network")
        _at(".allow", STRINGS, value["allow"])
    elif value not in ("none", "host"):
        raise Bad("is no network")


def _plain_command(value):
    if not isinstance(value, str):
        STRINGS(value)


_NAMED = array(obj([("name", string), ("command", _plain_command)], closed=True))
_BUDGET = obj([(name, integer(U32)) for name in ("fallback_branches", "dependencies", "public_interfaces",
                                                     "cyclomatic_complexity", "changed_lines")], closed=True)
FORMAT = enum(*names.FORMATS)
ROLES = ("approver", "runner", "operator", "reviewer", "promoter", "verifier", "people")
CONTRACT = obj([
    ("schema", enum("git-loop/contract/v1")), ("rules", integer(U32)), ("loop", string), ("parent", opt(OID)),
    ("renewal", opt(obj([("loop", string), ("tip", OID), ("origin", OID), ("submitters", array(SIGNER)),
                         ("findings", array(FINDING)),
                         ("changed", array(obj([("term", string), ("from", anything), ("to", anything)])))]))),
    ("objective", string), ("class", enum("ephemeral_experiment", "mechanical_transformation", "research",
                                          "security_triage", "lasting_code")),
    ("base", obj([("commit", OID), ("tree", OID)])),
    ("paths", obj([("mutable", STRINGS), ("check", STRINGS), ("blocked", STRINGS)])),
    ("frozen", obj([("tree", OID), ("entries", array(obj([("path", string), ("mode", enum("100644", "100664", "100755")),
                                                          ("id", OID)])))])),
    ("worker", obj([("command", _command), ("agent", opt(string)), ("model", opt(MODEL)), ("sampling", opt(SAMPLING)),
                    ("usage", enum(*names.USAGES)), ("timeout_seconds", integer()),
                    ("idle_timeout_seconds", opt(integer())), ("env", STRINGS),
                    ("credential", opt(obj([("env", string), ("mint", _command), ("revoke", _command)]))),
                    ("on_failure", enum("halt", "reject", "check")), ("reserve_usd", opt(_money))])),
    ("worktree", obj([("warm", STRINGS),
                      ("setup", obj([("command", _command), ("network", enum("none", "host")),
                                     ("timeout_seconds", integer())])), ("include", string)],
                     absent=("setup", "include"))),
    ("check", obj([("command", _command), ("format", enum(*names.FORMATS)), ("report", opt(string)),
                   ("timeout_seconds", integer()), ("idle_timeout_seconds", opt(integer())),
                   ("success_exit_code", integer(U8)), ("env", mapping(string)),
                   ("external", boolean)])),
    ("holdout", obj([("command", _command), ("folder", string), ("tree", OID), ("format", FORMAT),
                     ("report", opt(string)), ("timeout_seconds", integer()), ("success_exit_code", integer(U8))])),
    ("metric", obj([("name", string), ("direction", enum("minimize", "maximize")), ("target", number),
                    ("from", enum(*names.SOURCES)), ("pattern", opt(string)),
                    ("pointer", opt(string)), ("min_improvement", number), ("repeat", integer(U32))])),
    ("limits", obj([("iterations", integer(U32)), ("cost_usd", _money), ("tokens", opt(integer())),
                    ("duration_seconds", integer()), ("no_progress", integer(U32)),
                    ("regression_limit", integer(U32)), ("oscillation_limit", integer(U32)), ("cost_sigma", number),
                    ("unread_diffs", opt(integer(U32))), ("unknown_cost", enum("stop", "allow")),
                    ("evidence_kib", integer(U32))])),
    ("guards", obj([("on_violation", enum("halt", "reject"))])),
    ("sandbox", obj([("allowed", array(enum(*names.ADAPTERS))), ("image", opt(string)),
                     ("presets", array(enum(*names.PRESETS))), ("read_only", STRINGS),
                     ("disk_bytes", integer()), ("worker_network", _network),
                     ("worker_history", enum("sealed", "open")), ("check_network", _network)])),
    ("roles", obj([(role, STRINGS) for role in ROLES])),
    ("trust", obj([("allowed_signers", string)])),
    ("lasting", opt(obj([("invariant_boundaries", _NAMED), ("allowed_semantic_changes", STRINGS),
                         ("forbidden_semantic_changes", STRINGS), ("machine_independence_requirements", _NAMED),
                         ("review_risk", enum("standard", "high", "critical")), ("required_review_personas", STRINGS),
                         ("complexity_budget", _BUDGET), ("local_defense_limit", integer(U32)),
                         ("human_promotion_required", boolean)])))], absent=("holdout",))

TESTS = obj([("schema", enum("git-loop/tests/v1")), ("passed", STRINGS), ("failed", STRINGS), ("skipped", STRINGS),
             ("partial", boolean)])
VERDICT = obj([("loop", string), ("checkpoint", OID), ("candidate_tree", OID), ("check_tree", OID), ("frozen", OID),
               ("exit_code", I32), ("metric_value", opt(number)), ("failures", opt(STRINGS)),
               ("collected", opt(STRINGS))])


def read(data, kind, what):
    """Parse canonical JSON: the bytes written again are the same, and the fields are those of the table."""
    value = load(data)
    if dump(value) != data:
        raise Bad("%s is not canonical" % what)
    _at(what, kind, value)
    return value


# --- escaped paths and text ---------------------------------------------------------------------

_INVISIBLE = [(0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
              (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F),
              (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),
              (0xE0000, 0xE0FFF)]


def invisible(char):
    """What is drawn as nothing (format.md: Escaped paths)."""
    code = ord(char)
    return any(low <= code <= high for low, high in _INVISIBLE)


def _shown(char):
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return "\\x%02x" % (code - 0xDC00)
    if code < 0x20 or code == 0x7F:
        return "\\x%02x" % code
    if 0x80 <= code <= 0x9F or code in (0x2028, 0x2029) or invisible(char):
        return "\\u{%x}" % code
    return char


def escape_path(path):
    """A path in JSON (format.md: Escaped paths)."""
    return "".join("\\\\" if c == "\\" else _shown(c) for c in path.decode("utf-8", "surrogateescape"))


def unescape_path(text):
    """The path of its escaped form; there is one spelling."""
    def one(match):
        word = match.group()
        if word == "\\\\":
            return b"\\"
        if word.startswith("\\x"):
            return bytes([int(word[2:], 16)])
        if word.startswith("\\u"):
            return chr(int(word[3:-1], 16)).encode("utf-8", "surrogatepass")
        return word.encode("utf-8")
    parts = re.findall(r"\\\\|\\x[0-9a-f]{2}|\\u\{[0-9a-f]{1,5}\}|[^\\]|\\", text, re.S)
    path = b"".join(one(re.fullmatch(r"(?s).*", part)) for part in parts)
    if escape_path(path) != text:
        raise Bad("the path %r is not spelled as it must be" % text)
    return path


WHITE = "\t\n\x0b\x0c\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"


def short(text, limit):
    """<text:N> of a message (format.md: The message)."""
    words = [word for word in re.split("[" + WHITE + "]+", text) if word]
    text = "".join(_shown(c) for c in " ".join(words))
    if len(text) > limit:
        text = text[:limit - 1].rstrip(WHITE) + "\u2026"
    return text


def fold_text(text):
    """Case and normalisation of what is valid UTF-8 (format.md: Patterns)."""
    text = "".join(c for c in text if not invisible(c))
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


def stream_cut(name):
    """A name without a stream that begins :$ and without the dots and spaces at its end."""
    colon = name.find(b":")
    if colon >= 0 and b":$" in name[colon:]:
        name = name[:colon]
    return name.rstrip(b". ")


def fold_component(name):
    """The folded form of one component, as bytes (format.md: Patterns)."""
    chunks = re.split("([\udc80-\udcff]+)", name.decode("utf-8", "surrogateescape"))
    folded = "".join(c if place % 2 else fold_text(c) for place, c in enumerate(chunks))
    folded = folded.encode("utf-8", "surrogateescape")
    return stream_cut(folded) or folded or name


def fold_path(path):
    """The folded form of a path."""
    parts = [part for part in path.replace(b"\\", b"/").split(b"/") if part]
    return b"/".join(fold_component(part) for part in parts)
