//! The form that a reviewer fills in with an editor. What is attested has to be written: the form holds no line that only needs to be
//! left as it is.

use super::policy::ATTESTATIONS;

/// What a filled-in form says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Form {
    /// Whether it approves; none if the reviewer wrote no verdict.
    pub approve: Option<bool>,
    /// In which personas the reviewer looked.
    pub personas: Vec<String>,
    /// The attestations, as `NAME` or `NAME=false`.
    pub attest: Vec<String>,
    /// What the reviewer says.
    pub comment: Option<String>,
}

/// An empty form below `page`, which becomes comments line by line.
pub fn empty(page: &str) -> String {
    let mut text = String::new();
    for line in page.lines() {
        text.push_str("# ");
        text.push_str(line);
        text.push('\n');
    }
    text.push_str("#\n# Lines that begin with # say nothing. Without a verdict nothing is recorded.\n");
    text.push_str("# verdict: write approve or reject\nverdict:\n");
    text.push_str("# persona: as what you looked; a line for each\npersona:\ncomment:\n");
    text.push_str("# Write a line `attest: NAME` for each that you put your name to, or `attest: NAME=false`; of lasting code all:\n");
    for name in ATTESTATIONS {
        text.push_str("#   ");
        text.push_str(name);
        text.push('\n');
    }
    text
}

/// Reads a form. An error names the line.
pub fn parse(text: &str) -> Result<Form, String> {
    let mut form = Form::default();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = |why: &str| format!("line {number} of the form {why}");
        let Some((key, value)) = line.split_once(':') else {
            return Err(bad("is neither `key: value` nor a comment"));
        };
        let value = value.trim();
        if value.is_empty() {
            continue;
        }
        match key.trim() {
            "verdict" if form.approve.is_some() => return Err(bad("is a second verdict")),
            "verdict" => {
                form.approve = Some(match value {
                    "approve" => true,
                    "reject" => false,
                    _ => return Err(bad("is neither `approve` nor `reject`")),
                });
            }
            "persona" => form.personas.push(value.to_owned()),
            "attest" => form.attest.push(value.to_owned()),
            "comment" => {
                let before = form.comment.take().map_or_else(String::new, |text| text + "\n");
                form.comment = Some(before + value);
            }
            _ => return Err(bad("has none of the keys verdict, persona, comment and attest")),
        }
    }
    Ok(form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_that_nobody_fills_in_says_nothing() {
        let form = empty("a page\nattest: ownership_accepted\nverdict: approve");
        assert_eq!(parse(&form), Ok(Form::default()));
    }

    #[test]
    fn what_is_written_is_what_counts() {
        let text = "verdict: approve\npersona: a\npersona: b c\n# attest: x\nattest: y\nattest: z=false\ncomment: one\ncomment: two: 2\n";
        let form = Form {
            approve: Some(true),
            personas: vec!["a".to_owned(), "b c".to_owned()],
            attest: vec!["y".to_owned(), "z=false".to_owned()],
            comment: Some("one\ntwo: 2".to_owned()),
        };
        assert_eq!(parse(text), Ok(form));
        for (bad, why) in [
            ("verdict: yes", "line 1 of the form is neither `approve` nor `reject`"),
            ("\nverdict: approve\nverdict: reject", "line 3 of the form is a second verdict"),
            ("fine", "line 1 of the form is neither `key: value` nor a comment"),
            ("approve: yes", "line 1 of the form has none of the keys verdict, persona, comment and attest"),
        ] {
            assert_eq!(parse(bad), Err(why.to_owned()));
        }
    }
}
