//! Words that stay out of the code, because they hide what acts, or what is absent.

/// Names, comments and messages name the guest, the request, the file instead of these.
const PERSONS: [&str; 4] = ["nobody", "somebody", "whoever", "whomever"];
/// A comment says `None` where it means that, else what is missing ("no slot").
const ABSENCE: &str = "none";
/// Where [`ABSENCE`] stands for a noun that has just been named.
const PRONOUNS: [&str; 9] = [
    "and none",
    "or none",
    "none of",
    "has none",
    "have none",
    "had none",
    "there is none",
    "there are none",
    "there was none",
];
/// Files that are not looked at: this one, and tests of the access lists of archives, where `nobody` is the name of a user.
const LEFT_OUT: [&str; 2] = ["xtask/src/words", "crates/quietus/src/vault/transfer/tar/acl.rs"];

/// A complaint for each line of the file `name` that has such a word.
pub fn check(name: &str, text: &str) -> Vec<String> {
    if LEFT_OUT.iter().any(|path| name.starts_with(path)) {
        return Vec::new();
    }
    let lines = text.lines().enumerate();
    lines.filter_map(|(n, line)| Some(format!("{name}:{}: {}", n + 1, fault(line)?))).collect()
}

fn fault(line: &str) -> Option<String> {
    let lower = line.to_lowercase();
    if let Some(word) = PERSONS.iter().find(|word| lower.contains(**word)) {
        return Some(format!(
            "\"{word}\" names no subject: name what acts, such as the guest, a request, an attacker"
        ));
    }
    let prose = PRONOUNS.iter().fold(prose(line)?, |prose, pronoun| prose.replace(pronoun, ""));
    let has_absence = prose.split(|it: char| !it.is_alphanumeric() && it != '_').any(|word| word == ABSENCE);
    has_absence.then(|| format!("\"{ABSENCE}\" in a comment: write `None`, or what is missing"))
}

/// The comment of the line, without code in backticks.
fn prose(line: &str) -> Option<String> {
    let start = line.match_indices("//").map(|(at, _)| at).find(|at| is_comment(&line[..*at]))?;
    Some(line[start..].split('`').step_by(2).collect())
}

/// Whether slashes behind `before` begin a comment: they are not part of a string or an address.
fn is_comment(before: &str) -> bool {
    !before.ends_with(':') && before.matches('"').count().is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_hide_the_subject_are_found_in_comments_messages_and_names() {
        for line in ["/// Nobody waits.", "    \"held by somebody\"", "fn told_to_whoever_asks() {"] {
            assert!(fault(line).is_some(), "{line}");
        }
    }

    #[test]
    fn an_absence_is_found_in_comments_alone() {
        for line in
            ["/// The slot; none if it is free.", "let a = b; // none: all of it", "//! What is none."]
        {
            assert!(fault(line).is_some(), "{line}");
        }
        for line in [
            "/// The slot; `None` if it is free, and the seal `none`.",
            "/// Whether there is none, or none of these.",
            "let none = \"none\";",
            "let address = \"nbd://none\";",
            "/// An `is_none`, a nonet.",
        ] {
            assert_eq!(fault(line), None, "{line}");
        }
    }

    #[test]
    fn the_words_of_files_that_are_left_out_are_not_looked_at() {
        assert_eq!(check("xtask/src/words.rs", "/// Nobody.\n"), [""; 0]);
        assert!(
            check("crates/core/src/log.rs", "\n/// Nobody.\n")[0].starts_with("crates/core/src/log.rs:2: ")
        );
    }
}
