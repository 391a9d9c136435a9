# SPDX-License-Identifier: Apache-2.0
"""What a contract says of the loop that it renews (format.md: Renewals)."""
import lasting
import promotions
import tables
from canonical import Absent, dump, load, there
from records import Record, need, read_terms

_LEFT_OUT = ("schema", "loop", "parent", "renewal", "base", "frozen", "trust")


def changed_terms(old, new, table):
    """The terms that are not the parent's, in the order of the table; what is absent counts as null."""
    out = []
    for field, kind in table.fields.items():
        a, b = old.get(field), new.get(field)
        if field in _LEFT_OUT or dump(a) == dump(b):
            continue
        if isinstance(a, dict) and isinstance(b, dict):
            kind = kind.kind if isinstance(kind, Absent) else kind
            members = list(getattr(kind, "fields", {})) or list(dict.fromkeys(list(a) + list(b)))
            for member in members:
                if dump(a.get(member)) != dump(b.get(member)):
                    out.append({"term": "%s.%s" % (field, member), "from": a.get(member), "to": b.get(member)})
        else:
            out.append({"term": field, "from": a, "to": b})
    return out


def verify(ledger, record):
    """Both records of the parent, and that `renewal` is what they give; False if one of them is not here."""
    repo, terms, told = ledger.repo, ledger.terms, ledger.terms["renewal"]
    if not (repo.has(terms["parent"]) and repo.has(told["tip"])):
        return False
    parent, tip = Record(repo, terms["parent"]), Record(repo, told["tip"])
    need(parent.kind == "contract", "the parent is no contract record")
    old = read_terms(parent)
    for one in (parent, tip):
        one.check_signature(ledger.trust, old)
        one.check_form_and_message(old, ledger.now)
    need(tip.value["contract"] == parent.oid, "the tip is that of another contract")
    need(tip.tree[b"contract.json"] == parent.tree[b"contract.json"], "the tip has another contract")
    need(old["loop"] == told["loop"], "renewal.loop")
    state = load(tip.file(b".loop_state.json"))
    need(state["phase"] == "halted", "the parent has not halted at the tip")
    need(state["last_green_commit"] == terms["base"]["commit"], "the base is not the parent's green")
    need(told["origin"] == (old["renewal"]["origin"] if old["renewal"] else old["base"]["commit"]), "renewal.origin")
    need(told["submitters"] == state["submitters"], "renewal.submitters")
    promotions.renewal(terms, old, state, told)
    findings = [dict(f, record=f["record"] or told["tip"]) for f in state["findings"]]
    need(told["findings"] == findings, "renewal.findings")
    grown = state["counters"]["lasting"]["complexity"] if there(state["counters"], "lasting") else {}
    grown = {name: grown[name] for name in lasting.DELTA} if any(grown.values()) else None
    need(told.get("complexity") == grown, "renewal.complexity")
    changed = dump(changed_terms(old, terms, tables.ALL.contract))
    need(dump([{key: one[key] for key in ("term", "from", "to")} for one in told["changed"]]) == changed,
         "renewal.changed is not %s" % changed.decode())
    need(record.value["actor"]["principal"] in old["roles"]["approver"], "the signer is no approver of the parent")
    need(record.at >= tip.at, "the contract is earlier than the tip")
    need(old["class"] != "lasting_code" or terms["class"] == "lasting_code", "the class of the parent")
    return True
