# SPDX-License-Identifier: Apache-2.0
"""Agents, reviews and promotions of lasting code (format.md: Agents; lasting-code.md: Promotion)."""
import re
import unicodedata

import lasting
from canonical import Bad, there
from paths import WHITE

ATTESTATIONS = {"architecture_understandable", "complexity_proportional", "invariants_mechanical",
                "longevity_justified", "ownership_accepted"}


def need(condition, what):
    if not condition:
        raise Bad("fold: " + what)


def _reduced(text):
    lower = "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in text or "")
    return re.sub(r"[^a-z0-9._/-]", "", lower)


def canonical_model(provider, model):
    """`provider/model`, or None if nothing is left of one of them."""
    provider, model = _reduced(provider), _reduced(model)
    return "%s/%s" % (provider, model) if provider and model else None


def _identity(body):
    return {"agent_id": body["agent_id"], "model": canonical_model(body["provider"], body["model"]),
            "assumed": body["source"] != "provider"}


def _agents(state):
    return state.setdefault("agents", {"workers": [], "identified": 0, "open": False, "reviewers": [], "reviews": []})


def begin(terms):
    """What a renewal goes on with: `{"agents": ...}`, or nothing."""
    workers = terms["renewal"]["workers"] if terms["renewal"] and there(terms["renewal"], "workers") else []
    if not lasting.asked(terms) or not workers:
        return {}
    agents = _agents({})
    agents["workers"] = [{key: one[key] for key in ("agent_id", "model", "assumed")} for one in workers]
    return {"agents": agents}


def filled(state, prev):
    """An invocation of a reviewing agent could not name itself."""
    reviewers = state["agents"]["reviewers"] if "agents" in state else []
    if reviewers and reviewers[-1]["record"] is None:
        reviewers[-1]["record"] = prev


def _is_name(text):
    return len(text.encode("utf-8")) <= 200 and text.strip(WHITE) and \
        not any(unicodedata.category(c) == "Cc" for c in text)


def invocation(terms, state, record, body, independent):
    """The state after an invocation record."""
    need(lasting.asked(terms), "an invocation, and the loop is not lasting_code")
    need(all(_is_name(body[key]) for key in ("agent_id", "provider", "model", "tool") if body[key] is not None),
         "a name in the invocation")
    role = {"worker": "runner", "reviewer": "reviewer"}[body["role"]]
    need(record["actor"]["role"] == role, "the invocation's role")
    if body["role"] == "worker":
        need(state["phase"] != "halted" and state["checkpoint"], "an invocation without a checkpoint")
        need(body["checkpoint"] == state["checkpoint"]["record"] and body["halt"] is None, "another checkpoint")
        agents = _agents(state)
        agents["open"] = True
        if _identity(body) not in agents["workers"]:
            agents["workers"].append(_identity(body))
        return
    need(state["status"] == "awaiting_review", "nothing to review")
    need(body["halt"] == state["halt"] and body["checkpoint"] is None, "another halt")
    independent(state, record, "record a reviewer of it")
    _agents(state)["reviewers"].append({"record": None, "key": record["actor"]["key"], "identity": _identity(body)})


def recorded(state, accepted):
    """The iteration is closed."""
    if "agents" in state:
        state["agents"]["identified"] += int(accepted and state["agents"]["open"])
        state["agents"]["open"] = False


def reviewed(state, record, body):
    """An approving review; the last of each principal and key counts."""
    if "agents" not in state:
        return
    agents, actor, agent = state["agents"], record["actor"], None
    if body["invocation"] is not None:
        runs = [run for run in agents["reviewers"]
                if run["record"] == body["invocation"] and run["key"] == actor["key"]]
        need(runs, "the review's invocation is not one of this key")
        agent = runs[0]["identity"]
    agents["reviews"] = [one for one in agents["reviews"]
                         if (one["principal"], one["key"]) != (actor["principal"], actor["key"])]
    said = body["attestations"]
    named = lambda value: sorted((name for name in said if said[name] is value), key=lambda name: name.encode("utf-8"))
    agents["reviews"].append({
        "seq": record["seq"], "principal": actor["principal"], "key": actor["key"], "halt": body["halt"],
        "personas": body["personas"], "attested": named(True), "denied": named(False), "agent": agent})


def unidentified(terms, state):
    """Of how many accepted candidates no invocation says whose they are."""
    before = 0
    if terms["renewal"]:
        before = terms["renewal"]["unidentified"] if there(terms["renewal"], "unidentified") else 1
    known = state["agents"]["identified"] if "agents" in state else 0
    return before + max(0, state["counters"]["accepted"] - known)


def renewal(terms, old, state, told):
    """`workers` and `unidentified` of a contract that renews the loop `old`, which is in `state`."""
    if not there(told, "unidentified"):
        need(not there(told, "workers"), "renewal.workers without renewal.unidentified, or none")
        return
    need(lasting.asked(terms), "renewal.unidentified, and the loop is not lasting_code")
    need(told["unidentified"] == unidentified(old, state), "renewal.unidentified")
    workers = state["agents"]["workers"] if "agents" in state else []
    need(told.get("workers", []) == workers, "renewal.workers")


def promotion(terms, state, record):
    """Whether lasting code may be promoted in this state by the signer of this record."""
    shown, people = terms["lasting"], terms["roles"]["people"]
    need(unidentified(terms, state) == 0, "nobody says whose an accepted candidate is")
    need("agents" in state and state["agents"]["workers"], "no worker is known")
    agents = state["agents"]
    reviews, workers = agents["reviews"], agents["workers"]
    need(reviews, "no approving review")
    for one in reviews:
        need(one["halt"] == state["halt"], "a review of another halt")
        need(one["agent"] is not None or one["principal"] in people, "a review by neither agent nor person")
        need(one["agent"] is None or all(one["agent"]["agent_id"] != w["agent_id"] for w in workers),
             "a worker reviewed it")
        need(all(one["key"] != who["key"] for who in state["submitters"]), "a review with the runner's key")
        need(all(one["key"] != other["key"] for other in reviews if other["principal"] != one["principal"]),
             "two reviewers with one key")
        need(ATTESTATIONS <= set(one["attested"]) and not one["denied"], "an attestation is missing or false")
    for persona in shown["required_review_personas"]:
        need(any(persona in one["personas"] for one in reviews), "a persona is missing")
    sure = lambda one: one["model"] is not None and not one["assumed"]
    other = [one["agent"] is None or (sure(one["agent"]) and all(
        sure(w) and w["model"] != one["agent"]["model"] for w in workers)) for one in reviews]
    risk = shown["review_risk"]
    need(risk != "high" or any(other), "high, and no reviewer has another model")
    need(risk != "critical" or all(other), "critical, and a reviewer may have the worker's model")
    need(record["actor"]["principal"] in people, "the promoter is no person")
