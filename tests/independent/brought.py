# SPDX-License-Identifier: Apache-2.0
"""What a worker and a check bring of lasting code: evidence, verdict, promotion packet (lasting-code.md)."""
import re

import reports
from canonical import Bad
from common import read_json
from paths import WHITE, escape_path

MIB = 1024 * 1024
DELTA = ("fallback_branches", "dependencies", "public_interfaces", "cyclomatic_complexity", "changed_lines")
EFFECTS = ("strengthened", "preserved", "local_defense_added", "unknown")

TEXTS = ("hypothesis", "mechanism", "documentation_impact", "summary", "call_graph", "diagnosis_path", "rollback_path",
         "maintenance_without_model")
EVIDENCE = TEXTS + ("semantic_changes", "cost", "promotion_packet")
VERDICT = ("metric_value", "failures", "collected", "observed_effect", "invariant_evidence", "invariant_effect",
           "complexity_delta")
PACKET = ("worker_identity", "changed_behavior", "owning_invariant", "bad_state_made_impossible", "fallbacks_removed",
          "affected_interfaces", "code_citations", "test_citations", "test_commands", "build_commands",
          "diagnosis_commands", "rollback_commands", "documentation_paths")
CITATION = re.compile(r"(.*):([1-9][0-9]{0,8})(?:-([1-9][0-9]{0,8}))?", re.S)
TREE, LINK, SUBMODULE = b"40000", b"120000", b"160000"


def _need(condition, what):
    if not condition:
        raise Bad(what)


# --- what was brought -----------------------------------------------------------------------------------

def _text(value, what):
    _need(isinstance(value, str) and value.strip(WHITE) and len(value) <= 10000, what + " is no text")


def _texts(value, what, least):
    _need(isinstance(value, list) and least <= len(value) <= 100, what + " is no list of texts")
    for text in value:
        _text(text, what)
    _need(len(set(value)) == len(value), what + " has a text twice")
    return value


def _object(data, keys):
    value = read_json(data) if isinstance(data, bytes) else data
    _need(isinstance(value, dict), "no object")
    for key in value:
        _need(key in keys, "%r does not belong here" % key)
    return value


def read_evidence(data):
    """(semantic_changes, packet or None) of the worker's evidence; Bad if it is incomplete."""
    _need(data is not None, "no evidence")
    _need(len(data) <= MIB, "more than 1 MiB")
    value = _object(data, EVIDENCE)
    for key in TEXTS:
        _need(key in value, key + " is missing")
        if isinstance(value[key], list):
            _need(1 <= len(value[key]) <= 100, key + " is no list of texts")
            for text in value[key]:
                _text(text, key)
        else:
            _text(value[key], key)
    _need(value.get("cost") is None or isinstance(value["cost"], dict), "cost is no object")
    _need("semantic_changes" in value, "semantic_changes is missing")
    return _texts(value["semantic_changes"], "semantic_changes", 0), value.get("promotion_packet")


def read_verdict(data):
    """(effect or None, delta or None) of a check's verdict on lasting code; Bad if it is none."""
    reports.verdict(data)
    value = _object(data, VERDICT)
    for key in ("observed_effect", "invariant_evidence"):
        _need(value.get(key) is None or isinstance(value[key], str), key + " is no string")
    effect, delta = value.get("invariant_effect"), value.get("complexity_delta")
    _need(effect is None or effect in EFFECTS, "no such effect")
    if delta is not None:
        _object(delta, DELTA)
        _need(isinstance(delta, dict) and len(delta) == len(DELTA), "not the five numbers")
        for name in DELTA:
            number = delta[name]
            _need(isinstance(number, (int, float)) and not isinstance(number, bool), "no number")
            _need(abs(number) <= 10 ** 9 and number == int(number), "no whole number in its range")
        delta = {name: int(delta[name]) for name in DELTA}
    return effect, delta


# --- the packet -------------------------------------------------------------------------------------------

def known_packet(value):
    """A frozen packet without the fields that the tables do not have."""
    if value is None:
        return None
    packet = {key: value["packet"][key] for key in PACKET}
    packet["worker_identity"] = {key: packet["worker_identity"][key] for key in ("agent_id", "provider", "model")}
    return {"packet": packet, "cited": [{key: one[key] for key in ("path", "id")} for one in value["cited"]]}


def _file(repo, tree, path):
    """The blob of a regular file, reached through folders only."""
    parts = path.encode("utf-8").split(b"/")
    _need(all(part not in (b"", b".", b"..") for part in parts), "%r is no relative path" % path)
    for number, part in enumerate(parts, 1):
        found = [entry for entry in repo.tree(tree) if entry[1] == part]
        _need(found, "%r is not there" % path)
        mode, _, oid = found[0]
        if number < len(parts):
            _need(mode == TREE, "%r does not lead through folders" % path)
            tree = oid
        else:
            _need(mode not in (TREE, LINK, SUBMODULE), "%r is no regular file" % path)
    return oid


def _cited(repo, tree, text):
    """(path, blob) of a citation."""
    match = CITATION.fullmatch(text)
    _need(match, "%r is no citation" % text)
    path, start, end = match.group(1), int(match.group(2)), int(match.group(3) or match.group(2))
    _need(start <= end, "%r ends before it begins" % text)
    oid = _file(repo, tree, path)
    _need(repo.info(oid)[1] <= 16 * MIB, "%r is too large" % path)
    data = repo.blob(oid, 64 * MIB)
    lines = data.count(b"\n") + (1 if data and not data.endswith(b"\n") else 0)
    _need(end <= lines, "%r is past the end" % text)
    return path, oid


def frozen_packet(repo, terms, tree, value):
    """The packet with what it cites; Bad if it is not valid."""
    packet = _object(value, PACKET)
    for key in PACKET:
        _need(key in packet, key + " is missing")
    who = _object(packet["worker_identity"], ("agent_id", "provider", "model"))
    _text(who.get("agent_id"), "agent_id")
    for key in ("provider", "model"):
        if who.get(key) is not None:
            _text(who[key], key)
    for key in ("changed_behavior", "owning_invariant", "bad_state_made_impossible"):
        _text(packet[key], key)
    for key in PACKET[4:]:
        _texts(packet[key], key, 0 if key in ("fallbacks_removed", "affected_interfaces") else 1)
    names = [entry["name"] for entry in terms["lasting"]["invariant_boundaries"]]
    _need(packet["owning_invariant"] in names, "the owning invariant is not declared")
    cited = {}
    for text in packet["code_citations"] + packet["test_citations"]:
        path, oid = _cited(repo, tree, text)
        cited[path] = oid
    for path in packet["documentation_paths"]:
        cited[path] = _file(repo, tree, path)
    out = {key: packet[key] for key in PACKET}
    out["worker_identity"] = {key: who.get(key) for key in ("agent_id", "provider", "model")}
    ordered = sorted(cited, key=lambda path: path.encode("utf-8"))
    return {"packet": out, "cited": [{"path": escape_path(path.encode("utf-8")), "id": cited[path]} for path in ordered]}
