# SPDX-License-Identifier: Apache-2.0
"""The tables of fields (format.md: record.json, The receipt, contract.json, and their parts)."""
import brought
import names
from canonical import (Absent, Bad, U16, U32, U8, anything, array, at, boolean, enum, integer, mapping, matching, money,
                       number, obj, opt, string, time_type)

FINGERPRINT = matching(r"SHA256:[A-Za-z0-9+/]{43}", "fingerprint")
STRINGS = array(string)
I32 = integer(2 ** 31 - 1, -2 ** 31)
HALT_REASON = enum(*names.EXIT)
SEVERITY = enum("block", "warn")
SHA256 = string  # lower-case hex of a SHA-256 that no object shows; the runner's word


def command(value):
    """`{ "exec": [...] }` or `{ "shell": "line" }` (format.md: contract.json)."""
    if not isinstance(value, dict) or list(value) not in (["exec"], ["shell"]):
        raise Bad("is no command")
    for key, kind in (("exec", STRINGS), ("shell", string)):
        if key in value:
            at("." + key, kind, value[key])


def named_command(value):
    """A command inside `lasting`: an array or a string, as in loop.toml."""
    if not isinstance(value, str):
        STRINGS(value)


def network(value):
    """`none`, `host` or `{ "allow": [...] }`."""
    if isinstance(value, dict):
        obj([("allow", STRINGS)], closed=True)(value)
    else:
        enum("none", "host")(value)


class Tables:
    """Every table. An id has the digits of either hash, as in the schemas; one of the other names no object here."""

    def __init__(self):
        self.oid = matching("[0-9a-f]{40}|[0-9a-f]{64}", "id")
        self.signer = obj([("principal", string), ("key", FINGERPRINT)])
        self.finding = obj([("record", opt(self.oid)), ("severity", SEVERITY), ("principal", string)])
        self.context = array(obj([("path", string), ("content_sha256", SHA256)]))
        self.evidence = array(obj([("name", string), ("id", self.oid), ("bytes", integer()), ("truncated", boolean)]))
        self.run = obj([("command", STRINGS), ("exit_code", opt(I32)), ("signal", opt(I32)),
                        ("ended", enum(*names.ENDED)), ("duration_ms", integer()), ("survivors", integer(U32))])
        self.enforced = obj([
            ("adapter", enum(*names.RECEIPT_ADAPTERS)), ("filesystem", boolean), ("private_root", boolean),
            ("network", enum(*names.NETWORKS)), ("unix_sockets", enum(*names.UNIX_SOCKETS)),
            ("capabilities_dropped", boolean), ("process_tree", enum(*names.PROCESS_TREES)),
            ("landlock_abi", opt(integer(U32))), ("cpus", Absent(integer(U32)))])
        request = obj([("host", string), ("port", integer(U16)), ("allowed", boolean),
                       ("why", opt(enum(*names.REQUEST_PROBLEMS))), ("sent", integer()), ("received", integer())])
        requests = opt(obj([("requests", array(request)), ("more", integer())]))
        self.sandbox = obj([("worker", opt(self.enforced)), ("check", opt(self.enforced)),
                            ("worker_requests", requests), ("check_requests", requests)])
        self.layers = obj([
            ("setup", Absent(self.run)),
            ("warm", array(obj([("folder", string), ("files", integer()), ("sha256", SHA256)]))),
            ("included", array(obj([("path", string), ("sha256", SHA256)])))])
        self.model = obj([(name, opt(string)) for name in ("provider", "model_id", "version", "quantization",
                                                           "runtime", "endpoint")], closed=True)
        self.sampling = obj([("temperature", opt(number)), ("top_p", opt(number)), ("seed", opt(integer())),
                             ("max_tokens", opt(integer()))], closed=True)
        self.check, self.holdout = self._check(), self._holdout()
        self.command, self.packet, self.lasting = self._shown()
        self.receipt = self._receipt()
        self.bodies = self._bodies()
        self.record = obj([
            ("schema", enum("git-loop/record/v1")), ("kind", enum(*self.bodies)), ("loop", string),
            ("contract", opt(self.oid)), ("seq", integer()), ("prev", opt(self.oid)), ("at", time_type),
            ("actor", obj([("principal", string), ("key", FINGERPRINT), ("role", enum(*names.SIGNING_ROLES))])),
            ("body", anything)])
        self.contract = self._contract()
        self.tests = obj([("schema", enum("git-loop/tests/v1")), ("passed", STRINGS), ("failed", STRINGS),
                          ("skipped", STRINGS), ("partial", boolean)])
        self.verdict = obj([("loop", string), ("checkpoint", self.oid), ("candidate_tree", self.oid),
                            ("check_tree", self.oid), ("frozen", self.oid), ("exit_code", I32),
                            ("metric_value", opt(number)), ("failures", opt(STRINGS)), ("collected", opt(STRINGS))])

    def _check(self):
        no_report = opt(enum(*names.NO_REPORT))
        sample = obj([("run", self.run), ("report", opt(self.oid)), ("no_report", no_report),
                      ("problem", opt(string)), ("metric", opt(number)), ("passing", boolean),
                      ("tests_sha256", opt(string))])
        counts = obj([("passed", integer()), ("failed", integer()), ("skipped", integer())])
        return obj([("tree", self.oid), ("run", self.run), ("report", opt(self.oid)), ("no_report", no_report),
                    ("problem", opt(string)), ("metric", opt(number)), ("noise", opt(number)), ("passing", boolean),
                    ("flaky", boolean), ("partial", boolean), ("counts", opt(counts)), ("failures", opt(STRINGS)),
                    ("collected", opt(string)), ("tests", opt(self.oid)), ("lost", STRINGS),
                    ("newly_skipped", STRINGS), ("regressed", STRINGS), ("runs", array(sample))])

    def _holdout(self):
        return obj([("folder", self.oid), ("run", self.run), ("verdict", enum(*names.HOLDOUT_VERDICTS)),
                    ("failing", opt(integer())), ("problem", opt(string)), ("sandbox", self.enforced)])

    def _shown(self):
        """format.md: Lasting code."""
        delta = obj([(name, integer(2 ** 63 - 1, -2 ** 63)) for name in brought.DELTA])
        command = obj([("name", string), ("run", self.run), ("sandbox", opt(self.enforced)),
                       ("frozen_changed", boolean), ("passed", boolean)])
        who = obj([("agent_id", string), ("provider", opt(string)), ("model", opt(string))])
        texts = {"worker_identity": who, "changed_behavior": string, "owning_invariant": string,
                 "bad_state_made_impossible": string}
        packet = obj([("packet", obj([(name, texts.get(name, STRINGS)) for name in brought.PACKET])),
                      ("cited", array(obj([("path", string), ("id", self.oid)])))])
        measured = obj([("measure", integer(U32)), ("delta", delta), ("fallbacks_added", integer()),
                        ("unmeasurable", Absent(integer())), ("unmeasured", integer()),
                        ("not_measured", array(obj([("path", string), ("of", STRINGS), ("why", string)])))])
        effect = enum(*brought.EFFECTS, "broken")
        lasting = obj([("incomplete", opt(string)), ("semantic_changes", STRINGS),
                       ("declared_effects", array(effect)), ("declared_delta", opt(delta)), ("measured", measured),
                       ("delta", delta), ("invariants", opt(array(obj([("effect", effect), ("command", command)])))),
                       ("independence", opt(array(command))), ("packet", opt(packet)),
                       ("packet_problem", opt(string))])
        return command, packet, lasting

    def _receipt(self):
        violations = array(obj([("path", string), ("what", string)]))
        guards = obj([("guards_intact", boolean), ("drift", violations), ("blocked", violations),
                      ("tampered", violations), ("left_out", violations), ("outside", STRINGS),
                      ("more", Absent(obj([(name, integer()) for name in names.GUARDS])))])
        decision = obj([("outcome", enum("accept", "reject", "blocked")),
                        ("status", enum("accept", "reject", "awaiting_review", "stopped", "blocked")),
                        ("reason", string), ("outcome_reason", string), ("improved", boolean),
                        ("rollback_required", boolean), ("halt_reason", opt(HALT_REASON)),
                        ("exit_code", integer(U8))])
        cost = obj([("prompt_tokens", opt(integer())), ("completion_tokens", opt(integer())), ("usd", opt(money)),
                    ("basis", enum("none", "reported", "unknown", "reserved")), ("problem", opt(string))])
        worker = obj([("agent", opt(string)), ("run", self.run), ("failure", opt(string)), ("summary", opt(string))])
        outside = obj([("rev", self.oid), ("adapter", opt(string)), ("summary", opt(string))])
        return obj([
            ("schema", string), ("loop", string), ("contract", self.oid), ("checkpoint", self.oid),
            ("iteration", integer(U32)), ("environment_id", string), ("base", self.oid), ("candidate", opt(self.oid)),
            ("candidate_tree", opt(self.oid)), ("abandoned", opt(string)), ("worker", opt(worker)),
            ("outside", opt(outside)), ("model", opt(self.model)), ("sampling", opt(self.sampling)),
            ("context", self.context), ("cost", cost), ("changes", obj([("count", integer()), ("paths", STRINGS)])),
            ("guards", guards), ("check", opt(self.check)), ("lasting", Absent(self.lasting)),
            ("holdout", Absent(self.holdout)), ("sandbox", self.sandbox), ("layers", Absent(self.layers)), ("elapsed_seconds", integer()),
            ("decision", decision), ("determinism_confidence", opt(number)), ("unpinned", mapping(string))])

    def _bodies(self):
        remaining = obj([("iterations", integer(U32)), ("usd", money), ("tokens", opt(integer())),
                         ("seconds", integer())])
        return {
            "contract": obj([("tool", string), ("objective", string)]),
            "baseline": obj([("base", self.oid), ("check", self.check), ("holdout", Absent(self.holdout)),
                             ("invariants", Absent(array(self.command))),
                             ("sandbox", self.sandbox), ("layers", Absent(self.layers)), ("target_met", boolean),
                             ("evidence", self.evidence)]),
            "checkpoint": obj([("iteration", integer(U32)), ("base", self.oid), ("environment_id", string),
                               ("adapter", string), ("context", self.context), ("remaining", remaining),
                               ("reservation_usd", money)]),
            "iteration": obj([("receipt", self.receipt), ("evidence", self.evidence)]),
            "halt": obj([("by", enum("baseline", "decision", "limit", "operator")), ("halt_reason", HALT_REASON),
                         ("status", enum(*names.STATUSES)), ("reason", string), ("exit_code", integer(U8)),
                         ("iteration", integer(U32)), ("last_green_commit", self.oid), ("message", opt(string)),
                         ("packet", Absent(self.packet))]),
            "resume": obj([("halt", self.oid), ("message", opt(string))]),
            "review": obj([("verdict", enum("approve", "reject")), ("halt", self.oid), ("candidate", self.oid),
                           ("personas", STRINGS), ("attestations", mapping(boolean, ordered=False)),
                           ("comment", opt(string)), ("invocation", opt(self.oid))]),
            "promotion": obj([("halt", self.oid), ("reviews", array(self.oid)), ("candidate", self.oid),
                              ("candidate_tree", self.oid), ("tip", self.oid)]),
            "release": obj([("halt", self.oid), ("reason", string)]),
            "finding": obj([("action", enum("add", "resolve")), ("finding", opt(self.oid)), ("severity", SEVERITY),
                            ("message", string)]),
            "lease": obj([("holder", string), ("host", string), ("until", time_type)]),
            "invocation": obj([("role", enum("worker", "reviewer")), ("agent_id", string), ("provider", opt(string)),
                               ("model", opt(string)), ("tool", opt(string)),
                               ("source", enum("provider", "declared", "stated")), ("checkpoint", opt(self.oid)),
                               ("halt", opt(self.oid))]),
        }

    def _contract(self):
        changed = array(obj([("term", string), ("from", anything), ("to", anything)]))
        grown = obj([(name, integer(2 ** 63 - 1, -2 ** 63)) for name in brought.DELTA])
        identity = obj([("agent_id", string), ("model", opt(string)), ("assumed", boolean)])
        renewal = obj([("loop", string), ("tip", self.oid), ("origin", self.oid), ("submitters", array(self.signer)),
                       ("findings", array(self.finding)), ("complexity", Absent(grown)),
                       ("workers", Absent(array(identity))),
                       ("unidentified", Absent(integer(U32))), ("changed", changed)])
        frozen = obj([("path", string), ("mode", enum("100644", "100755", "100664")), ("id", self.oid)])
        credential = obj([("env", string), ("mint", command), ("revoke", command)])
        worker = obj([("command", command), ("agent", opt(string)), ("model", opt(self.model)),
                      ("sampling", opt(self.sampling)), ("usage", enum(*names.USAGES)), ("timeout_seconds", integer()),
                      ("idle_timeout_seconds", opt(integer())), ("env", STRINGS), ("credential", opt(credential)),
                      ("on_failure", enum(*names.ON_FAILURE)), ("reserve_usd", opt(money))])
        setup = obj([("command", command), ("network", enum("none", "host")), ("timeout_seconds", integer())])
        report_format = enum(*names.FORMATS)
        check = obj([("command", command), ("format", report_format), ("report", opt(string)),
                     ("timeout_seconds", integer()), ("idle_timeout_seconds", opt(integer())),
                     ("success_exit_code", integer(U8)), ("env", mapping(string)), ("external", boolean),
                     ("cpus", Absent(integer(U32))), ("same_ids", Absent(enum("numbered", "merged")))])
        holdout = obj([("command", command), ("folder", string), ("tree", self.oid), ("format", report_format),
                       ("report", opt(string)), ("timeout_seconds", integer()), ("success_exit_code", integer(U8))])
        metric = obj([("name", string), ("direction", enum("minimize", "maximize")), ("target", number),
                      ("from", enum(*names.SOURCES)), ("pattern", opt(string)), ("pointer", opt(string)),
                      ("min_improvement", number), ("repeat", integer(U32))])
        limits = obj([("iterations", integer(U32)), ("cost_usd", money), ("tokens", opt(integer())),
                      ("duration_seconds", integer()), ("no_progress", integer(U32)),
                      ("regression_limit", integer(U32)), ("oscillation_limit", integer(U32)), ("cost_sigma", number),
                      ("unread_diffs", opt(integer(U32))), ("unknown_cost", enum("stop", "allow")),
                      ("evidence_kib", integer(U32))])
        sandbox = obj([("allowed", array(enum(*names.ADAPTERS))), ("image", opt(string)),
                       ("presets", array(enum(*names.PRESETS))), ("read_only", STRINGS), ("disk_bytes", integer()),
                       ("worker_network", network), ("worker_history", enum("sealed", "open")),
                       ("check_network", network)])
        return obj([
            ("schema", enum("git-loop/contract/v1")), ("rules", integer(U32)), ("loop", string),
            ("parent", opt(self.oid)), ("renewal", opt(renewal)), ("objective", string), ("class", enum(*names.CLASSES)),
            ("base", obj([("commit", self.oid), ("tree", self.oid)])),
            ("paths", obj([("mutable", STRINGS), ("check", STRINGS), ("blocked", STRINGS)])),
            ("frozen", obj([("tree", self.oid), ("entries", array(frozen))])), ("worker", worker),
            ("worktree", obj([("warm", STRINGS), ("setup", Absent(setup)), ("include", Absent(string)),
                              ("sparse", Absent(STRINGS))])),
            ("check", check), ("holdout", Absent(holdout)), ("metric", metric), ("limits", limits),
            ("guards", obj([("on_violation", enum("halt", "reject"))])), ("sandbox", sandbox),
            ("roles", obj([(role, STRINGS) for role in names.ROLES])),
            ("trust", obj([("allowed_signers", string)])), ("lasting", opt(self._lasting()))])

    @staticmethod
    def _lasting():
        named = array(obj([("name", string), ("command", named_command)], closed=True))
        budget = obj([(name, integer(U32)) for name in ("fallback_branches", "dependencies", "public_interfaces",
                                                        "cyclomatic_complexity", "changed_lines")], closed=True)
        return obj([("invariant_boundaries", named), ("allowed_semantic_changes", STRINGS),
                    ("forbidden_semantic_changes", STRINGS), ("machine_independence_requirements", named),
                    ("review_risk", enum("standard", "high", "critical")), ("required_review_personas", STRINGS),
                    ("complexity_budget", budget), ("local_defense_limit", integer(U32)),
                    ("human_promotion_required", boolean)])


ALL = Tables()


def known(kind, value):
    """A value of a table without the fields that the table does not have, and without nulls that mean absence."""
    return {key: value[key] for key, of in kind.fields.items()
            if key in value and not (isinstance(of, Absent) and value[key] is None)}
