//! The rules of a contract that a schema cannot say and that need no repository.

use std::collections::BTreeSet;

use super::duration::Seconds;
use super::file::{Adapter, Class, Command, Limits, Network, Roles, Sandbox, Worker, Worktree};
use super::judge::{Check, Direction, Holdout, Metric, MetricSource, ReportFormat};
use super::lasting::{LASTING_KEYS, NamedCommand};
use super::lint;
use super::parse::{Draft, LastingDraft};
use super::pattern::{Fault, inside_fault, pattern_fault};
use super::problem::{Warning, quoted};
use super::walk::Walk;
use super::worker::Usage;
use crate::sandbox;
use crate::sandbox::egress::Rule;

/// Adds the faults of the draft to those of the walk; gives the warnings.
pub(super) fn validate(draft: &Draft, walk: &mut Walk<'_>) -> Vec<Warning> {
    let mut rules = Rules { walk };
    rules.objective(draft.objective.as_deref());
    rules.paths(draft);
    if let Some(worker) = &draft.worker {
        rules.worker(worker, draft.limits.as_ref());
    }
    if let Some(worktree) = &draft.worktree {
        rules.worktree(worktree);
    }
    if let Some(check) = &draft.check {
        rules.check(check);
    }
    if let Some(holdout) = &draft.holdout {
        rules.holdout(holdout);
    }
    if let Some(metric) = &draft.metric {
        rules.metric(metric, draft.check.as_ref());
    }
    if let Some(check) = &draft.check {
        rules.external(check, draft.metric.as_ref(), draft.roles.as_ref());
    }
    if let Some(sandbox) = &draft.sandbox {
        rules.sandbox(sandbox);
    }
    if let Some(roles) = &draft.roles {
        rules.roles(roles, draft.class);
    }
    if let Some(class) = draft.class {
        rules.class(class, &draft.lasting);
        if class == Class::LastingCode && draft.check.as_ref().is_some_and(|check| check.external) {
            let hint = "let the check run here, or choose another class";
            let message = "`check.external = true` cannot show what `lasting_code` has to show: its invariants and requirements";
            rules.hinted("check.external", message, hint);
        }
    }
    rules.lasting(&draft.lasting);
    lint::lint(draft, rules.walk)
}

struct Rules<'w, 't> {
    walk: &'w mut Walk<'t>,
}

impl Rules<'_, '_> {
    fn fault(&mut self, path: &str, message: impl Into<String>, hint: Option<String>) {
        let span = self.walk.value_span(path);
        self.walk.fault(&span, path, message, hint);
    }

    fn hinted(&mut self, path: &str, message: impl Into<String>, hint: &str) {
        self.fault(path, message, Some(hint.to_owned()));
    }

    fn objective(&mut self, objective: Option<&str>) {
        let odd = |character: char| character.is_control() && !"\n\r\t".contains(character);
        if objective.is_some_and(|text| text.contains(odd)) {
            self.fault("objective", "`objective` has a control character", None);
        }
    }

    fn paths(&mut self, draft: &Draft) {
        let Some(paths) = &draft.paths else { return };
        for (name, list) in
            [("mutable", &paths.mutable), ("check", &paths.check), ("blocked", &paths.blocked)]
        {
            let at = format!("paths.{name}");
            self.each(&at, list, pattern_fault);
            self.no_twins(&at, list);
            if list.first().is_some_and(|first| first.starts_with('!')) {
                let hint = "a pattern with ! takes back a part of those before it";
                self.hinted(&format!("{at}[0]"), format!("`{at}` begins with an exception"), hint);
            }
        }
        for (index, pattern) in paths.mutable.iter().enumerate() {
            let at = format!("paths.mutable[{index}]");
            if pattern.split('/').any(|segment| segment.eq_ignore_ascii_case(".git")) {
                self.fault(&at, format!("`{at}` names git's own folder, which no loop may change"), None);
            }
            if paths.check.contains(pattern) {
                let hint = "what judges the worker cannot be the worker's: keep it in one of the two";
                self.hinted(
                    &at,
                    format!("{} is in `paths.mutable` and in `paths.check`", quoted(pattern)),
                    hint,
                );
            }
        }
    }

    fn worker(&mut self, worker: &Worker, limits: Option<&Limits>) {
        self.command("worker.command", &worker.command);
        self.no_twins("worker.env", &worker.env);
        for (index, name) in worker.env.iter().enumerate() {
            self.variable(&format!("worker.env[{index}]"), name);
        }
        self.idle("worker", worker.idle_timeout, worker.timeout);
        if let Some(credential) = &worker.credential {
            self.variable("worker.credential.env", &credential.env);
            self.command("worker.credential.mint", &credential.mint);
            self.command("worker.credential.revoke", &credential.revoke);
            for (key, command) in [("mint", &credential.mint), ("revoke", &credential.revoke)] {
                let own = |word: &String| word.contains('/') && !word.starts_with('/');
                if matches!(command, Command::Args(words) if words.first().is_some_and(own)) {
                    let at = format!("worker.credential.{key}");
                    let hint = "name it by its absolute path, or by a name that is in your PATH";
                    self.hinted(&at, format!("`{at}` names a file of the repository"), hint);
                }
            }
            if worker.env.contains(&credential.env) {
                let hint = "take it out of worker.env: the worker gets the one that was made for it";
                let message = format!("`{}` is passed through and made for each run", credential.env);
                self.hinted("worker.credential.env", message, hint);
            }
        }
        for (key, text) in [
            ("agent", &worker.agent),
            ("model.provider", &worker.model.provider),
            ("model.model_id", &worker.model.model_id),
            ("model.version", &worker.model.version),
            ("model.quantization", &worker.model.quantization),
            ("model.runtime", &worker.model.runtime),
            ("model.endpoint", &worker.model.endpoint),
        ] {
            self.one_line(&format!("worker.{key}"), text.as_deref());
        }
        // The agent is the name of the candidates' author, where git has no place for these.
        if worker.agent.as_deref().is_some_and(|agent| agent.contains(['<', '>'])) {
            self.fault("worker.agent", "`worker.agent` has a < or >, which a name in git cannot have", None);
        }
        let endpoint = worker.model.endpoint.as_deref().unwrap_or_default();
        let authority = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest).split('/').next();
        if authority.is_some_and(|authority| authority.contains('@')) {
            let hint = "leave out user and password: the contract is signed and shared";
            self.hinted("worker.model.endpoint", "`worker.model.endpoint` holds credentials", hint);
        }
        let Some(reserve) = worker.reserve_usd else { return };
        let at = "worker.reserve_usd";
        if reserve.micros() == 0 && worker.usage != Usage::None {
            let hint = "leave it out for a computed reservation, or set usage = \"none\"";
            self.hinted(
                at,
                format!("`{at} = {reserve}`: a worker that costs something needs a reservation"),
                hint,
            );
        }
        if let Some(limit) = limits.map(|limits| limits.cost_usd)
            && reserve > limit
        {
            let hint = "the worker could never start: lower it or raise limits.cost_usd";
            self.hinted(at, format!("`{at} = {reserve}` is more than `limits.cost_usd = {limit}`"), hint);
        }
    }

    /// A limit on silence that is longer than the time-out never ends anything.
    fn idle(&mut self, table: &str, idle: Option<Seconds>, timeout: Seconds) {
        if let Some(idle) = idle.filter(|idle| *idle > timeout) {
            let at = format!("{table}.idle_timeout");
            let message = format!("`{at} = \"{idle}\"` is longer than `{table}.timeout = \"{timeout}\"`");
            self.hinted(&at, message, "make it shorter, or take it out");
        }
    }

    fn worktree(&mut self, worktree: &Worktree) {
        self.each("worktree.sparse", &worktree.sparse, pattern_fault);
        self.no_twins("worktree.sparse", &worktree.sparse);
        if worktree.sparse.first().is_some_and(|first| first.starts_with('!')) {
            let hint = "a pattern with ! takes back a part of those before it: begin with \"**\"";
            self.hinted("worktree.sparse[0]", "`worktree.sparse` begins with an exception", hint);
        }
        self.each("worktree.warm", &worktree.warm, inside_fault);
        self.no_twins("worktree.warm", &worktree.warm);
        match &worktree.setup {
            Some(setup) => {
                self.command("worktree.setup", setup);
                if worktree.warm.is_empty() {
                    let hint = "name the folders to keep, such as warm = [\"node_modules\"]; what it leaves elsewhere is thrown away";
                    self.hinted("worktree.setup", "`worktree.setup` needs `worktree.warm`", hint);
                }
            }
            None => {
                for (key, set) in [
                    ("setup_network", worktree.setup_network.is_some()),
                    ("setup_timeout", worktree.setup_timeout.is_some()),
                ] {
                    if set {
                        let at = format!("worktree.{key}");
                        let message = format!("`{at}` is not read without `worktree.setup`");
                        self.hinted(&at, message, "take it out, or say what the setup is");
                    }
                }
            }
        }
        if let Some(path) = &worktree.include
            && let Some(Fault { message, hint }) = inside_fault(path)
        {
            self.fault("worktree.include", format!("`worktree.include` {message}"), hint);
        }
    }

    fn check(&mut self, check: &Check) {
        self.command("check.command", &check.command);
        self.idle("check", check.idle_timeout, check.timeout);
        for (name, value) in &check.env {
            let at = format!("check.env.{name}");
            self.variable(&at, name);
            if value.contains('\0') {
                self.fault(&at, format!("`{at}` has a NUL character"), None);
            }
        }
        if check.same_ids.is_some() && !check.format.merges_ids() {
            let message =
                format!("`check.same_ids` is not read with `check.format = \"{}\"`", check.format.as_str());
            self.hinted("check.same_ids", message, "leave it out: this format tells tests of one id apart");
        }
        self.report("check", check.format, check.report.as_deref());
    }

    fn holdout(&mut self, holdout: &Holdout) {
        self.command("holdout.command", &holdout.command);
        if let Some(Fault { message, hint }) = outside_fault(&holdout.folder) {
            self.fault("holdout.folder", format!("`holdout.folder` {message}"), hint);
        }
        self.report("holdout", holdout.format, holdout.report.as_deref());
    }

    /// Whether a report is named exactly where the format is a file.
    fn report(&mut self, table: &str, format: ReportFormat, report: Option<&str>) {
        let (named, word) = (format!("{table}.report"), format.as_str());
        match report {
            Some(path) if format.is_file() => {
                if let Some(Fault { message, hint }) = inside_fault(path) {
                    self.fault(&named, format!("`{named}` {message}"), hint);
                }
            }
            Some(_) => {
                let hint = format!(
                    "take it out, or set {table}.format to a format that is a file, such as \"junit\""
                );
                let message = format!("`{named}` is not read with `{table}.format = \"{word}\"`");
                self.fault(&named, message, Some(hint));
            }
            None if format.is_file() => {
                let hint =
                    format!("name the file that the {table} writes, such as report = \"target/junit.xml\"");
                let message = format!("`{table}.format = \"{word}\"` needs `{named}`");
                self.fault(&format!("{table}.format"), message, Some(hint));
            }
            None => {}
        }
    }

    fn metric(&mut self, metric: &Metric, check: Option<&Check>) {
        self.one_line("metric.name", Some(&metric.name));
        for (key, set, source, word) in [
            ("metric.pattern", metric.pattern.is_some(), MetricSource::Regex, "regex"),
            ("metric.pointer", metric.pointer.is_some(), MetricSource::Json, "json"),
        ] {
            if set && metric.from != source {
                let hint = format!("take it out, or set from = \"{word}\"");
                self.fault(key, format!("`{key}` is only read with `metric.from = \"{word}\"`"), Some(hint));
            } else if !set && metric.from == source {
                let hint = format!("add {} = …", key.trim_start_matches("metric."));
                self.fault("metric.from", format!("`metric.from = \"{word}\"` needs `{key}`"), Some(hint));
            }
        }
        match metric.from {
            MetricSource::Failures => self.failures(metric, check),
            MetricSource::Exit => self.exit(metric, check),
            MetricSource::Regex => self.regex(metric.pattern.as_deref()),
            MetricSource::Json => self.pointer(metric.pointer.as_deref()),
            MetricSource::Verdict => {}
        }
    }

    /// What an outside check cannot have.
    fn external(&mut self, check: &Check, metric: Option<&Metric>, roles: Option<&Roles>) {
        if !check.external {
            return;
        }
        if check.format != ReportFormat::None || check.report.is_some() {
            let hint = "take it out; the verdict says which tests failed and which were collected";
            self.hinted("check.format", "an outside check has no report here", hint);
        }
        if roles.is_none_or(|roles| roles.verifier.is_none()) {
            let hint = "name who signs the verdicts: roles.verifier = [\"ci@example.org\"]";
            self.hinted("check.external", "`check.external = true` needs `roles.verifier`", hint);
        }
        let Some(metric) = metric else { return };
        if matches!(metric.from, MetricSource::Regex | MetricSource::Json) {
            let hint = "use from = \"verdict\", \"failures\" or \"exit\"";
            self.hinted("metric.from", "an outside check prints nothing here to read a metric from", hint);
        }
        if metric.repeat != 1 {
            let hint = "take it out; whoever runs the check may run it more than once";
            self.hinted("metric.repeat", "an outside check has one verdict for each candidate", hint);
        }
    }

    fn failures(&mut self, metric: &Metric, check: Option<&Check>) {
        if check.is_some_and(|check| check.format == ReportFormat::None && !check.external) {
            let hint = "set check.format to the format of the test report, such as junit, libtest or lines";
            self.hinted(
                "metric.from",
                "`metric.from = \"failures\"` needs a test report, but there is none",
                hint,
            );
        }
        if metric.direction == Direction::Maximize {
            let hint = "set direction = \"minimize\"";
            self.hinted("metric.direction", "more failing tests are never better", hint);
        }
        if metric.target < 0.0 || metric.target.fract() != 0.0 {
            let message =
                format!("`metric.target = {}`: failing tests are counted in whole numbers", metric.target);
            self.hinted("metric.target", message, "use 0");
        }
    }

    fn exit(&mut self, metric: &Metric, check: Option<&Check>) {
        let Some(success) = check.map(|check| check.success_exit_code) else { return };
        if !metric.direction.reached(success.into(), metric.target) {
            let message = format!(
                "`metric.target = {}` cannot be reached: a check that passes exits with {success}",
                metric.target
            );
            let hint = format!("set target = {success}");
            self.fault("metric.target", message, Some(hint));
        }
    }

    fn regex(&mut self, pattern: Option<&str>) {
        let Some(pattern) = pattern else { return };
        let at = "metric.pattern";
        match regex::Regex::new(pattern) {
            Ok(regex) => {
                let groups = regex.captures_len() - 1;
                let named = regex.capture_names().flatten().any(|name| name == "metric");
                if groups != 1 && !named {
                    let hint = "put the number in one group, or call its group (?<metric>…); (?:…) groups without capturing";
                    self.hinted(
                        at,
                        format!("`{at}` has {groups} capture groups; which one is the number?"),
                        hint,
                    );
                }
            }
            Err(error) => {
                // The last line of a syntax error says what it is; those before it draw it.
                let text = error.to_string();
                let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
                self.fault(at, format!("`{at}` is not a regular expression: {reason}"), None);
            }
        }
    }

    fn pointer(&mut self, pointer: Option<&str>) {
        let Some(pointer) = pointer else { return };
        let at = "metric.pointer";
        if !pointer.is_empty() && !pointer.starts_with('/') {
            let hint = format!("write {}", quoted(&format!("/{}", pointer.replace('.', "/"))));
            self.fault(at, format!("`{at}` must begin with /"), Some(hint));
        } else if pointer.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1'])) {
            self.hinted(at, format!("`{at}` has a ~ that stands for nothing"), "write ~0 for ~ and ~1 for /");
        }
    }

    fn sandbox(&mut self, terms: &Sandbox) {
        let allowed: Vec<_> = terms.allowed.iter().map(|it| format!("{it:?}").to_lowercase()).collect();
        self.no_twins("sandbox.allowed", &allowed);
        let needs = |adapter: &&Adapter| adapter.built().is_some_and(sandbox::Adapter::has_image);
        match (terms.allowed.iter().find(needs), &terms.image) {
            (Some(adapter), None) => {
                let message = format!("`{}` needs `sandbox.image`", adapter.as_str());
                self.hinted("sandbox.allowed", message, PINNED);
            }
            (None, Some(_)) => {
                let hint = "take it out, or allow \"docker\" or \"podman\"";
                self.hinted("sandbox.image", "`sandbox.image` is for `docker` and `podman`", hint);
            }
            (Some(_), Some(image)) if !sandbox::is_pinned(image) => {
                let message = format!("`sandbox.image = {}` is not pinned by its digest", quoted(image));
                self.hinted("sandbox.image", message, PINNED);
            }
            _ => {}
        }
        let presets: Vec<_> =
            terms.presets.iter().flatten().map(|it| format!("{it:?}").to_lowercase()).collect();
        self.no_twins("sandbox.presets", &presets);
        self.no_twins("sandbox.read_only", &terms.read_only);
        self.each("sandbox.read_only", &terms.read_only, read_only_fault);
        for (at, network) in [
            ("sandbox.worker.network.allow", &terms.worker.network),
            ("sandbox.check.network.allow", &terms.check.network),
        ] {
            if let Network::Allow(list) = network {
                self.each(at, &list.allow, rule_fault);
                self.no_twins(at, &list.allow);
            }
        }
    }

    fn roles(&mut self, roles: &Roles, class: Option<Class>) {
        for (role, list) in [
            ("approver", &roles.approver),
            ("runner", &roles.runner),
            ("operator", &roles.operator),
            ("reviewer", &roles.reviewer),
            ("promoter", &roles.promoter),
            ("verifier", &roles.verifier),
            ("people", &roles.people),
        ] {
            let list = list.as_deref().unwrap_or_default();
            self.each(&format!("roles.{role}"), list, principal_fault);
            self.no_twins(&format!("roles.{role}"), list);
        }
        if class != Some(Class::LastingCode) {
            return;
        }
        let Some(runners) = &roles.runner else { return };
        for (role, list) in [("approver", &roles.approver), ("reviewer", &roles.reviewer)] {
            if list.as_ref().is_some_and(|list| list.iter().all(|principal| runners.contains(principal))) {
                let message = format!("`lasting_code` needs a {role} other than the runner");
                self.hinted(
                    &format!("roles.{role}"),
                    message,
                    "name a principal that is not in roles.runner",
                );
            }
        }
    }

    fn class(&mut self, class: Class, lasting: &LastingDraft) {
        if class != Class::LastingCode {
            for key in &lasting.present {
                let span = self.walk.key_span(key);
                let message = format!("`{key}` belongs to `class = \"lasting_code\"` only");
                let hint = Some("take it out, or set class = \"lasting_code\"".to_owned());
                self.walk.fault(&span, key, message, hint);
            }
            return;
        }
        for key in LASTING_KEYS.iter().filter(|key| !lasting.present.contains(key)) {
            let span = self.walk.value_span("class");
            let message = format!("`class = \"lasting_code\"` needs `{key}`");
            let hint = Some("add it at the top level, above the first [table]".to_owned());
            self.walk.fault(&span, key, message, hint);
        }
        if lasting.human_promotion == Some(false) {
            let message = "`human_promotion_required` must be true: a person promotes lasting code";
            self.fault("human_promotion_required", message, None);
        }
    }

    fn lasting(&mut self, lasting: &LastingDraft) {
        for (key, list) in [
            ("invariant_boundaries", &lasting.invariants),
            ("machine_independence_requirements", &lasting.independence),
        ] {
            let list: &[NamedCommand] = list.as_deref().unwrap_or_default();
            let names: Vec<String> = list.iter().map(|entry| entry.name.clone()).collect();
            self.no_twins(key, &names);
            for (index, entry) in list.iter().enumerate() {
                self.one_line(&format!("{key}[{index}].name"), Some(&entry.name));
                self.command(&format!("{key}[{index}].command"), &entry.command);
            }
        }
        for (key, list) in [
            ("allowed_semantic_changes", &lasting.allowed),
            ("forbidden_semantic_changes", &lasting.forbidden),
            ("required_review_personas", &lasting.personas),
        ] {
            let list = list.as_deref().unwrap_or_default();
            self.each(key, list, line_fault);
            self.no_twins(key, list);
        }
        let forbidden = lasting.forbidden.as_deref().unwrap_or_default();
        for (index, change) in lasting.allowed.iter().flatten().enumerate() {
            if forbidden.contains(change) {
                let at = format!("allowed_semantic_changes[{index}]");
                self.fault(&at, format!("{} is both allowed and forbidden", quoted(change)), None);
            }
        }
    }

    fn command(&mut self, path: &str, command: &Command) {
        match command {
            Command::Shell(line) => {
                if line.trim().is_empty() {
                    self.fault(path, format!("`{path}` is empty"), None);
                } else if line.contains('\0') {
                    self.fault(path, format!("`{path}` has a NUL character"), None);
                }
            }
            Command::Args(words) => {
                // An empty array is a fault of form, and told as one.
                if words.first().is_some_and(|program| program.trim().is_empty()) {
                    self.hinted(path, format!("`{path}` names no program"), "the first entry is the program");
                }
                if words.iter().any(|word| word.contains('\0')) {
                    self.fault(path, format!("`{path}` has a NUL character"), None);
                }
            }
        }
    }

    /// The name of an environment variable that a contract may set or pass through.
    fn variable(&mut self, path: &str, name: &str) {
        let mut bytes = name.bytes();
        let well_formed = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !well_formed {
            let hint = if name.contains('=') {
                "give the name alone: the value comes from the runner's environment"
            } else {
                "use letters, digits and _, not beginning with a digit"
            };
            self.hinted(path, format!("{} is not the name of an environment variable", quoted(name)), hint);
        } else if is_reserved(name) {
            let message = format!("`{name}` cannot be given to a worker or a check");
            let hint =
                "variables that steer git, the loader, the shell or an agent, and HOME, are the runner's";
            self.hinted(path, message, hint);
        }
    }

    fn one_line(&mut self, path: &str, text: Option<&str>) {
        if let Some(Fault { message, hint }) = text.and_then(line_fault) {
            self.fault(path, format!("`{path}` {message}"), hint);
        }
    }

    fn each(&mut self, path: &str, list: &[String], fault: impl Fn(&str) -> Option<Fault>) {
        for (index, text) in list.iter().enumerate() {
            if let Some(Fault { message, hint }) = fault(text) {
                let at = format!("{path}[{index}]");
                self.fault(&at, format!("`{at} = {}` {message}", quoted(text)), hint);
            }
        }
    }

    fn no_twins(&mut self, path: &str, list: &[String]) {
        let mut seen = BTreeSet::new();
        for (index, text) in list.iter().enumerate() {
            if !seen.insert(text) {
                let at = format!("{path}[{index}]");
                self.hinted(&at, format!("`{path}` has {} twice", quoted(text)), "take one of them out");
            }
        }
    }
}

/// The fault of a text that is shown on one line.
fn line_fault(text: &str) -> Option<Fault> {
    let message = if text.trim().is_empty() {
        "is empty"
    } else if text.chars().any(char::is_control) {
        "has a control character"
    } else {
        return None;
    };
    Some(Fault { message: message.to_owned(), hint: None })
}

/// The fault of a principal. A role is a list of identities: a pattern in it would let a name in that its writer never saw.
fn principal_fault(principal: &str) -> Option<Fault> {
    let odd = |character: char| {
        character.is_whitespace()
            || character.is_control()
            || matches!(character, ',' | '"' | '*' | '?' | '!')
    };
    if !principal.is_empty() && !principal.contains(odd) {
        return None;
    }
    let hint = "name it as the trust file does, without spaces, commas, quotes or wildcards".to_owned();
    Some(Fault { message: "is not a principal".to_owned(), hint: Some(hint) })
}

/// The fault of a holdout's folder.
fn outside_fault(path: &str) -> Option<Fault> {
    let fault =
        |message: &str, hint: &str| Some(Fault { message: message.to_owned(), hint: Some(hint.to_owned()) });
    let Some(inner) = path.strip_prefix("~/").or_else(|| path.strip_prefix('/')) else {
        return fault("is not an absolute path", "begin with / or ~/; it lies outside of the repository");
    };
    if path.chars().any(char::is_control) {
        return fault("has a control character", "rename the folder");
    }
    let names: Vec<&str> = inner.split('/').filter(|name| !name.is_empty()).collect();
    if names.is_empty() || names.iter().any(|name| *name == "." || *name == "..") {
        return fault("is no folder of its own", "write the path out");
    }
    None
}

/// How an image is named that cannot change.
const PINNED: &str =
    "write name@sha256:digest; docker image inspect --format '{{.RepoDigests}}' NAME tells it";

/// The fault of an entry of an allow-list.
fn rule_fault(rule: &str) -> Option<Fault> {
    let message = Rule::parse(rule).err()?.to_owned();
    let hint =
        "write host:port, such as \"api.example.com:443\", \"*.example.com:443\" or \"127.0.0.1:8080\"";
    Some(Fault { message, hint: Some(hint.to_owned()) })
}

/// The fault of a folder outside the repository that is given read-only.
fn read_only_fault(path: &str) -> Option<Fault> {
    let fault = |message: &str, hint: &str| {
        Some(Fault { message: message.to_owned(), hint: (!hint.is_empty()).then(|| hint.to_owned()) })
    };
    if path.chars().any(char::is_control) {
        return fault("has a control character", "");
    }
    let Some(inner) = path.strip_prefix("~/").or_else(|| path.strip_prefix('/')) else {
        return fault(
            "is not an absolute path",
            "begin with / or ~/; what is in the repository needs no entry",
        );
    };
    let names: Vec<&str> = inner.split('/').filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return fault("is everything, keys included", "name the folders of the toolchain");
    }
    if names.iter().any(|name| *name == "." || *name == "..") {
        return fault("has a folder `.` or `..`", "write the path out");
    }
    if names.iter().any(|name| matches!(*name, ".ssh" | ".gnupg" | ".aws" | ".docker" | ".kube")) {
        return fault("is a folder of credentials", "a worker and a check never get any");
    }
    None
}

/// Whether a variable steers what must not be steered: git, the dynamic loader, the shell, an agent with keys.
fn is_reserved(name: &str) -> bool {
    // What the shell reads to decide what a line means; the rest is what the sandbox itself sets or keeps out.
    const SHELL: [&str; 3] = ["IFS", "SHELLOPTS", "BASHOPTS"];
    SHELL.contains(&name) || sandbox::environment::passable(name).is_err()
}
