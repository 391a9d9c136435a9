//! Ready-made loops: a repository with a check that counts what is wrong, and workers that mend, break or cheat.

use super::TestEnv;

/// The terms of the ready-made loop; `extra` is appended.
pub fn loop_toml(worker: &str, extra: &str) -> String {
    format!(
        r#"objective = "Mend the three numbers"
class = "mechanical_transformation"

[paths]
mutable = ["src/**"]
check = ["tests/**", "check.sh"]

[worker]
command = ["sh", "{worker}"]
agent = "scripted"
usage = "none"
timeout = "60s"

[check]
command = ["sh", "check.sh"]
format = "lines"
timeout = "60s"

[metric]
name = "failing"
direction = "minimize"
target = 0
from = "failures"

[limits]
iterations = 10
duration = "10m"
no_progress = 3
{extra}"#
    )
}

/// A check in the `lines` format: `src/a`, `src/b` and `src/c` must say what `tests/expected` says.
pub const CHECK: &str = r#"n=0
while read -r name want; do
  n=$((n + 1))
  if [ "$(cat "src/$name" 2>/dev/null)" = "$want" ]; then echo "ok $name"; else echo "fail $name"; bad=1; fi
done < tests/expected
echo "done $n"
exit ${bad:-0}
"#;

/// A repository with that check, three wrong files, and a loop.toml for `worker`.
pub fn numbers(env: &TestEnv, worker: &str, extra: &str) {
    env.write("src/a", "0\n");
    env.write("src/b", "0\n");
    env.write("src/c", "0\n");
    env.write("tests/expected", "a 1\nb 2\nc 3\n");
    env.write("check.sh", CHECK);
    env.write("README", "a repository\n");
    env.commit("Begin");
    let script = env.script("worker.sh", worker);
    env.write("loop.toml", loop_toml(&script, extra));
    std::fs::write(env.repo().join(".git/info/exclude"), "loop.toml\n").unwrap();
}

/// A worker that mends one file per iteration: needs three.
pub const HONEST: &str = r#"case "$GIT_LOOP_ITERATION" in
  1) echo 1 > src/a ;;
  2) echo 2 > src/b ;;
  *) echo 3 > src/c ;;
esac
"#;
