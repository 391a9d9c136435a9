//! What agents print.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn read(kind: UsageKind, text: &str) -> Usage {
    parse(kind, whole(text.as_bytes()), None)
}

/// Tokens in, tokens out, micro-dollars.
fn amounts(usage: &Usage) -> (Option<u64>, Option<u64>, Option<u64>) {
    (usage.prompt_tokens, usage.completion_tokens, usage.usd.map(MicroUsd::micros))
}

fn models(usage: &Usage) -> Vec<&str> {
    usage.models.iter().map(|model| model.model.as_str()).collect()
}

fn lines(events: &[Value]) -> String {
    events.iter().flat_map(|event| [event.to_string(), "\n".to_owned()]).collect()
}

fn claude_result(session: &str, usd: f64, output: u64) -> Value {
    json!({
        "type": "result", "subtype": "success", "is_error": false, "num_turns": 9, "result": "Done.", "session_id": session,
        "total_cost_usd": usd,
        "usage": { "input_tokens": 1, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 3, "output_tokens": 4 },
        "modelUsage": {
            "claude-opus-4-8": {
                "inputTokens": 1204, "outputTokens": output, "thinkingTokens": 900, "cacheReadInputTokens": 402_118,
                "cacheCreationInputTokens": 18_211, "costUSD": 0.409, "costBasis": "list"
            },
            "claude-haiku-4-5": { "inputTokens": 10, "outputTokens": 5, "costUSD": 0.003 }
        },
        "permission_denials": []
    })
}

#[test]
fn claude_counts_every_model_and_every_kind_of_input() {
    let result = claude_result("s", 0.412_345, 6120);
    let usage = read(UsageKind::Claude, &result.to_string());
    assert_eq!(amounts(&usage), (Some(1204 + 402_118 + 18_211 + 10), Some(6125), Some(412_345)));
    assert_eq!((usage.basis, &usage.problem), (Basis::Reported, &None));
    assert_eq!(models(&usage), ["claude-haiku-4-5", "claude-opus-4-8"]);
    assert!(usage.models.iter().all(|model| model.provider.as_deref() == Some("anthropic")));
    let stream = [
        json!({ "type": "system", "subtype": "init", "session_id": "s", "model": "claude-opus-4-8", "tools": [] }),
        json!({ "type": "assistant", "session_id": "s", "message": { "usage": { "input_tokens": 5 } } }),
        result,
    ];
    let streamed = read(UsageKind::Claude, &lines(&stream));
    assert_eq!(amounts(&streamed), amounts(&usage));
    assert_eq!(models(&streamed), ["claude-opus-4-8", "claude-haiku-4-5"], "the main conversation's first");
    let list = read(UsageKind::Claude, &Value::from(stream.to_vec()).to_string());
    assert_eq!(list, streamed);
}

#[test]
fn claude_sessions_are_added_and_a_resumed_one_goes_on() {
    let sum = |results: &[Value]| amounts(&read(UsageKind::Claude, &lines(results)));
    let input = 421_543;
    let resumed = [claude_result("s", 0.1, 100), claude_result("s", 0.3, 150)];
    assert_eq!(sum(&resumed), (Some(input), Some(155), Some(300_000)));
    let two = [claude_result("s", 0.1, 100), claude_result("t", 0.3, 150)];
    assert_eq!(sum(&two), (Some(2 * input), Some(260), Some(400_000)));
    let anew = [claude_result("s", 0.3, 150), claude_result("s", 0.1, 100)];
    assert_eq!(sum(&anew).2, Some(400_000));
}

#[test]
fn what_claude_does_not_say_is_not_zero() {
    let with = |change: fn(&mut Value)| {
        let mut result = claude_result("s", 0.5, 100);
        change(&mut result);
        read(UsageKind::Claude, &result.to_string())
    };
    let without = |usage: &Usage, word: &str| {
        assert_eq!((usage.usd, usage.basis), (None, Basis::Unknown));
        assert!(usage.problem.as_ref().unwrap().contains(word), "{usage:?}");
    };
    // Field report 2.75: a field of another name.
    without(
        &with(|result| {
            result.as_object_mut().unwrap().remove("total_cost_usd");
            result["cost_usd"] = json!(0.5);
        }),
        "total_cost_usd",
    );
    without(&with(|result| result["total_cost_usd"] = json!(-1)), "total_cost_usd");
    without(&with(|result| result["total_cost_usd"] = Value::Null), "total_cost_usd");
    // Field report 2.97: the price of one model is made up.
    without(
        &with(|result| result["modelUsage"]["claude-haiku-4-5"]["costBasis"] = json!("unknown")),
        "haiku",
    );
    // Field report 2.76: an explicit zero is known.
    let free = with(|result| result["total_cost_usd"] = json!(0.0));
    assert_eq!((free.usd, free.basis, free.problem), (Some(MicroUsd::ZERO), Basis::Reported, None));
    // Errors cost what they cost.
    let failed = with(|result| {
        result["subtype"] = json!("error_max_turns");
        result["is_error"] = json!(true);
    });
    assert_eq!(failed.usd, Some(MicroUsd::from_micros(500_000)));
    // Older versions: the main conversation alone.
    let old = with(|result| {
        result.as_object_mut().unwrap().remove("modelUsage");
    });
    assert_eq!(amounts(&old), (Some(6), Some(4), Some(500_000)));
    assert!(old.problem.unwrap().contains("subagents"));
    let begun = json!({ "type": "system", "subtype": "init", "session_id": "t" });
    let ended = read(UsageKind::Claude, &lines(&[claude_result("s", 0.5, 1), begun]));
    without(&ended, "without a result");
    for nothing in ["", "Done.", "{\"type\": \"assistant\"}", "{\"type\": \"result\", \"type\": \"result\"}"]
    {
        without(&read(UsageKind::Claude, nothing), "--output-format json");
    }
}

fn turn(input: u64, output: u64) -> Value {
    json!({
        "type": "turn.completed",
        "usage": { "input_tokens": input, "cached_input_tokens": 9, "output_tokens": output, "reasoning_output_tokens": 3 }
    })
}

#[test]
fn codex_counts_grow_within_a_thread() {
    let thread = |id: &str| json!({ "type": "thread.started", "thread_id": id });
    let began = json!({ "type": "turn.started" });
    let sum = |events: &[Value]| {
        let usage = read(UsageKind::Codex, &lines(events));
        assert_eq!((usage.usd, usage.basis), (None, Basis::Unknown));
        (usage.prompt_tokens, usage.completion_tokens)
    };
    // Field report 2.77.
    assert_eq!(
        sum(&[thread("a"), began.clone(), turn(10, 5), began.clone(), turn(30, 15)]),
        (Some(30), Some(15))
    );
    assert_eq!(sum(&[thread("a"), turn(10, 5), thread("b"), turn(30, 15)]), (Some(40), Some(20)));
    assert_eq!(
        sum(&[thread("a"), turn(10, 5), thread("b"), turn(1, 1), thread("a"), turn(30, 15)]),
        (Some(31), Some(16))
    );
    assert_eq!(sum(&[turn(10, 5)]), (Some(10), Some(5)));
    let failed = json!({ "type": "turn.failed", "error": { "message": "x" } });
    assert_eq!(sum(&[thread("a"), began.clone(), turn(10, 5), began, failed]), (None, None));
    assert_eq!(sum(&[thread("a")]), (None, None));
    assert_eq!(sum(&[json!({ "type": "turn.completed" })]), (None, None));
    assert_eq!(sum(&[]), (None, None));
}

#[test]
fn gemini_thoughts_are_output() {
    let object = json!({
        "session_id": "s", "response": "4",
        "stats": { "models": { "gemini-2.5-pro": {
            "api": { "totalRequests": 1 },
            "tokens": { "input": 7173, "prompt": 7173, "candidates": 5, "total": 7195, "cached": 0, "thoughts": 17, "tool": 0 }
        } }, "tools": { "totalCalls": 0 } }
    });
    // It is printed over many lines.
    let usage = read(UsageKind::Gemini, &format!("Loaded.\n{object:#}\n"));
    assert_eq!(amounts(&usage), (Some(7173), Some(22), None));
    assert_eq!(models(&usage), ["gemini-2.5-pro"]);
    assert_eq!(usage.basis, Basis::Unknown);
    let stats =
        json!({ "total_tokens": 7195, "input_tokens": 7173, "output_tokens": 5, "cached": 0, "input": 7173 });
    let mut result = json!({ "type": "result", "status": "success", "stats": stats });
    let old = read(UsageKind::Gemini, &result.to_string());
    assert_eq!(amounts(&old), (Some(7173), Some(22), None), "the total tells the thoughts");
    result["stats"]["models"] = json!({ "gemini-2.5-pro": stats });
    let new = read(UsageKind::Gemini, &lines(&[json!({ "type": "init", "session_id": "s" }), result]));
    assert_eq!(amounts(&new), amounts(&old));
    let error = read(UsageKind::Gemini, "{\"error\": {\"type\": \"x\", \"message\": \"y\", \"code\": 1}}");
    assert_eq!(amounts(&error), (None, None, None));
    assert!(read(UsageKind::Gemini, "4").problem.unwrap().contains("--output-format json"));
}

#[test]
fn opencode_steps_are_added() {
    let step = |id: &str, cost: Value| {
        json!({ "type": "step_finish", "sessionID": "s", "part": {
            "id": id, "type": "step-finish", "reason": "stop", "cost": cost,
            "tokens": { "input": 11_087, "output": 145, "reasoning": 5, "cache": { "write": 1, "read": 2 } }
        } })
    };
    let begun = json!({ "type": "step_start" });
    let usage = read(UsageKind::Opencode, &lines(&[begun.clone(), step("1", json!(0.007_014_7))]));
    assert_eq!(
        amounts(&usage),
        (Some(11_090), Some(150), Some(7015)),
        "a part of a micro-dollar is rounded up"
    );
    let two = lines(&[
        begun.clone(),
        step("1", json!(0.5)),
        begun.clone(),
        step("2", json!(0.25)),
        step("2", json!(0.25)),
    ]);
    assert_eq!(amounts(&read(UsageKind::Opencode, &two)), (Some(22_180), Some(300), Some(750_000)));
    // Field report 2.79: the last step did not finish.
    for cut in [lines(&[step("1", json!(0.5)), begun.clone(), begun.clone()]), lines(&[begun]), String::new()]
    {
        let usage = read(UsageKind::Opencode, &cut);
        assert_eq!(amounts(&usage), (None, None, None), "{cut}");
        assert!(usage.problem.is_some());
    }
    assert_eq!(read(UsageKind::Opencode, &lines(&[step("1", Value::Null)])).usd, None);
    let cut = Printed { text: two.as_bytes(), is_cut: true };
    assert_eq!(parse(UsageKind::Opencode, cut, None).basis, Basis::Unknown);
}

#[test]
fn aider_reports_are_read_as_printed() {
    let usage = read(
        UsageKind::Aider,
        "Aider v0.86.2\nMain model: deepseek/deepseek-chat with diff edit format\nTokens: 999 sent, 120 received. Cost: $0.05 \
         message, $0.05 session.\nApplied.\nTokens: 12k sent, 3.1k cache write, 9.8k cache hit, 1.2k\nreceived.\nCost: $0.07 \
         message, $0.12 session.\n",
    );
    assert_eq!(amounts(&usage), (Some(12_999), Some(1320), Some(120_000)));
    assert_eq!((models(&usage), usage.problem.clone()), (vec!["deepseek/deepseek-chat"], None));
    let again = "Tokens: 5k sent, 10 received. Cost: $0.05 message, $0.09 session.\n\
                 Tokens: 5k sent, 10 received. Cost: $0.04 message, $0.04 session.\n";
    assert_eq!(read(UsageKind::Aider, again).usd, Some(MicroUsd::from_micros(130_000)), "two runs");
    let unpriced = read(UsageKind::Aider, "Tokens: 2.5k sent, 120 received.\n");
    assert_eq!(amounts(&unpriced), (Some(2500), Some(120), None));
    // Field report 2.99: a price by the million where one by the token is meant.
    let mixed_up = "Tokens: 12k sent, 1.2k received. Cost: $0.000000011 message, $0.000000011 session.";
    let usage = read(UsageKind::Aider, mixed_up);
    assert_eq!((usage.usd, usage.prompt_tokens), (None, Some(12_000)));
    assert!(usage.problem.unwrap().contains("price"));
    for nothing in
        ["", "Tokens: many sent, 1 received.", "Tokens: 1 sent, 2 received", "Tokens: 1 received.", "Tokens:"]
    {
        assert_eq!(amounts(&read(UsageKind::Aider, nothing)), (None, None, None), "{nothing}");
    }
}

#[test]
fn the_log_of_aider_is_exact() {
    let sent = |cost: Value| {
        json!({ "event": "message_send", "time": 1_790_000_000, "properties": {
            "main_model": "gpt-5", "prompt_tokens": 11_873, "completion_tokens": 1204, "cost": cost, "total_cost": 9
        } })
    };
    let text = format!(
        "Tokens: 12k sent, 1.2k received. Cost: $0.05 message, $0.05 session.\n{}\n",
        sent(json!(0.0512))
    );
    let usage = read(UsageKind::Aider, &text);
    assert_eq!(amounts(&usage), (Some(11_873), Some(1204), Some(51_200)));
    assert_eq!(models(&usage), ["gpt-5"]);
    assert_eq!(read(UsageKind::Aider, &lines(&[sent(json!(1)), sent(Value::Null)])).usd, None);
}

#[test]
fn a_worker_that_printed_too_much() {
    let result = claude_result("s", 0.5, 1).to_string();
    let cut = Printed { text: result.as_bytes(), is_cut: true };
    assert_eq!(
        parse(UsageKind::Claude, cut, None).basis,
        Basis::Reported,
        "a result comes last, and is kept"
    );
}

proptest! {
    #[test]
    fn any_output_is_total(
        bytes: Vec<u8>,
        words in proptest::collection::vec(
            "Tokens:|Cost:|[0-9.k]{1,4}|sent,|received\\.|session\\.|message,|\\$[0-9.]{1,5}|cache|write,|\\{\"type\": ?\"(result|step_finish|turn\\.completed)\"\\}",
            0..30,
        ),
    ) {
        let text = words.join(" ");
        for kind in UsageKind::ALL {
            for text in [bytes.as_slice(), text.as_bytes(), words.join("\n").as_bytes()] {
                let usage = parse(*kind, whole(text), None);
                prop_assert_eq!(usage.usd.is_none(), usage.basis == Basis::Unknown);
                prop_assert_eq!(usage.basis == Basis::Unknown && usage.problem.is_none(), false);
            }
        }
    }

    #[test]
    fn a_damaged_result_is_never_cheaper(cut in any::<proptest::sample::Index>(), usd in 1_u32..1000) {
        let text = claude_result("s", f64::from(usd), 10).to_string();
        let cut = cut.index(text.len());
        let usage = read(UsageKind::Claude, &text[..cut]);
        prop_assert_eq!(usage.usd, None);
    }
}
