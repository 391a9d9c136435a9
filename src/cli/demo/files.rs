//! The files of the demo's repository, its workers and its terms.

use std::fmt::Write as _;

/// The functions to mend.
pub const FUNCTIONS: &str = "\
# Three small functions. Each of them is wrong.
add() { echo $(($1 - $2)); }
max() { echo \"$1\"; }
abs() { echo \"$1\"; }
";

/// The check, in the `lines` format.
pub const TESTS: &str = "\
. ./src/functions.sh
count=0
try() { # name, expected, found
  count=$((count + 1))
  if [ \"$2\" = \"$3\" ]; then echo \"ok $1\"; else echo \"fail $1\"; bad=1; fi
}
try add_small 5 \"$(add 2 3)\"
try add_negative -1 \"$(add 2 -3)\"
try max_first 7 \"$(max 7 3)\"
try max_second 9 \"$(max 4 9)\"
try abs_negative 6 \"$(abs -6)\"
echo \"done $count\"
exit ${bad:-0}
";

/// A worker that improves, regresses once, and converges.
pub const WORKER: &str = "\
# Stands in for a coding agent. $GIT_LOOP_ITERATION says which iteration this is.
edit() { sed \"$1\" src/functions.sh > src/new && cat src/new > src/functions.sh && rm src/new; }
case \"$GIT_LOOP_ITERATION\" in
  1) edit 's/^add.*/add() { echo $(($1 + $2)); }/' ;;
  2) edit 's/^add.*/add() { echo 0; }/; s/^max.*/max() { [ \"$1\" -gt \"$2\" ] \\&\\& echo \"$1\" || echo \"$2\"; }/' ;;
  3) edit 's/^max.*/max() { [ \"$1\" -gt \"$2\" ] \\&\\& echo \"$1\" || echo \"$2\"; }/' ;;
  *) edit 's/^abs.*/abs() { echo \"${1#-}\"; }/' ;;
esac
";

/// A worker that mends everything at once, in its own words.
pub const REWRITE: &str = "\
cat > src/functions.sh <<'EOF'
# Three small functions, written anew.
add() { expr \"$1\" + \"$2\"; }
max() { if [ \"$1\" -gt \"$2\" ]; then echo \"$1\"; else echo \"$2\"; fi; }
abs() { case \"$1\" in -*) echo \"${1#-}\" ;; *) echo \"$1\" ;; esac; }
EOF
cat > \"$GIT_LOOP_EVIDENCE\" <<'EOF'
{
  \"hypothesis\": \"each function has a fault of its own\", \"mechanism\": \"each is written anew\",
  \"documentation_impact\": \"none: they do what README.md says\", \"summary\": \"three functions, written anew\",
  \"call_graph\": \"tests/run.sh calls each of them\", \"diagnosis_path\": \"sh tests/run.sh names the function\",
  \"rollback_path\": \"git revert\", \"maintenance_without_model\": \"three lines of shell\",
  \"semantic_changes\": [\"the results of add, max and abs\"],
  \"promotion_packet\": {
    \"worker_identity\": { \"agent_id\": \"scripted\" }, \"changed_behavior\": \"add, max and abs give what they are called after\",
    \"owning_invariant\": \"functions\", \"bad_state_made_impossible\": \"max that ignores its second argument\",
    \"fallbacks_removed\": [], \"affected_interfaces\": [],
    \"code_citations\": [\"src/functions.sh:2-4\"], \"test_citations\": [\"tests/run.sh:1-13\"],
    \"test_commands\": [\"sh tests/run.sh\"], \"build_commands\": [\"true\"],
    \"diagnosis_commands\": [\"sh tests/run.sh\"], \"rollback_commands\": [\"git revert HEAD\"],
    \"documentation_paths\": [\"README.md\"]
  }
}
EOF
";

/// What the functions are for.
pub const README: &str = "add, max and abs print the sum, the larger one and the absolute value.\n";

/// A worker that makes the tests agree with the code instead.
pub const CHEAT: &str = "\
cat > tests/run.sh <<'EOF'
for test in add_small add_negative max_first max_second abs_negative; do echo \"ok $test\"; done
echo 'done 5'
EOF
";

/// The terms of a loop with this worker.
pub fn terms(worker: &str, lasting: bool, sandboxed: bool) -> String {
    // The demo alone goes on without a sandbox; a loop of one's own would be refused.
    let allowed = if sandboxed { "\"landlock\"" } else { "\"none\"" };
    let class = if lasting { "lasting_code" } else { "mechanical_transformation" };
    let mut text = format!(
        r#"objective = "Make the five tests of the functions pass"
class = "{class}"
"#
    );
    if lasting {
        text.push_str(LASTING);
    }
    let _ = write!(
        text,
        r#"
[paths]
mutable = ["src/**"]
check = ["tests/**"]

[worker]
command = ["sh", "{worker}"]
agent = "scripted"
usage = "none"

[check]
command = ["sh", "tests/run.sh"]
format = "lines"

[metric]
name = "failing_tests"
direction = "minimize"
target = 0
from = "failures"

[limits]
iterations = 8
duration = "5m"
no_progress = 3

[sandbox]
allowed = [{allowed}]

[roles]
runner = ["runner@demo.example"]
"#
    );
    text
}

/// What lasting code asks for besides.
const LASTING: &str = r#"invariant_boundaries = [{ name = "functions", command = ["sh", "tests/run.sh"] }]
allowed_semantic_changes = ["the results of add, max and abs"]
forbidden_semantic_changes = ["the names of the functions"]
machine_independence_requirements = [{ name = "tests", command = ["sh", "tests/run.sh"] }]
review_risk = "standard"
required_review_personas = ["maintainer"]
complexity_budget = { fallback_branches = 0, dependencies = 0, public_interfaces = 0, cyclomatic_complexity = 4, changed_lines = 20 }
local_defense_limit = 2
human_promotion_required = true
"#;
