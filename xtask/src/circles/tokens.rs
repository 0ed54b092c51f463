//! What a file imports and names: a scan of words, which knows no more of Rust than that takes.

/// A fact of a module, code under `#[cfg(test)]` left out.
#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    /// `use path`, under a name; for `path::*` the name is `*`.
    Import(String, Vec<String>),
    /// A path in code that begins with `crate`, `self` or `super`.
    Named(Vec<String>),
    /// `mod name;`.
    File(String),
    /// `mod name { … }`.
    Inline(String, Vec<Item>),
}

/// The facts of the module with this text.
pub fn items(text: &str) -> Vec<Item> {
    scan(&words(text))
}

fn scan(words: &[&str]) -> Vec<Item> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let after = &words[at + 1..];
        at = match (words[at], after) {
            ("#", ["[", "cfg", "(", "test", ")", "]", ..]) => item_end(words, at + 7),
            ("pub", ["(", "in", ..]) => closed(words, at + 1),
            ("mod", [name, ";", ..]) => {
                found.push(Item::File(name.to_string()));
                at + 3
            }
            ("mod", [name, "{", ..]) => {
                let end = closed(words, at + 2);
                found.push(Item::Inline(name.to_string(), scan(&words[at + 3..end - 1])));
                end
            }
            // Not the `use<'a>` of a type.
            ("use", [next, ..]) if *next != "<" => import(words, at + 1, &[], &mut found),
            ("crate" | "self" | "super", ["::", ..]) => {
                let (path, end) = path(words, at);
                found.push(Item::Named(path));
                end
            }
            _ => at + 1,
        };
    }
    found
}

/// Reads one tree of an import, and returns where it ends.
fn import(words: &[&str], at: usize, before: &[String], found: &mut Vec<Item>) -> usize {
    let (path, mut at) = path(words, at);
    let mut path = [before, &path].concat();
    match words.get(at) {
        Some(&"{") => {
            at += 1;
            while words.get(at).is_some_and(|it| *it != "}") {
                at = import(words, at, &path, found);
                at += usize::from(words.get(at) == Some(&","));
            }
            return at + 1;
        }
        Some(&"*") => {
            found.push(Item::Import("*".into(), path));
            return at + 1;
        }
        _ => {}
    }
    if path.last().is_some_and(|it| it == "self") && path.len() > 1 {
        path.pop();
    }
    let renamed = words.get(at) == Some(&"as");
    let name = if renamed { words.get(at + 1).map(|it| it.to_string()) } else { path.last().cloned() };
    found.extend(name.map(|name| Item::Import(name, path)));
    at + if renamed { 2 } else { 0 }
}

/// The names from `at` on that `::` joins, and where they end.
fn path(words: &[&str], mut at: usize) -> (Vec<String>, usize) {
    let mut names = Vec::new();
    at += usize::from(words.get(at) == Some(&"::"));
    while let Some(name) = words.get(at).filter(|it| it.starts_with(is_name)) {
        names.push(name.to_string());
        at += 1;
        match words.get(at) {
            Some(&"::") => at += 1,
            _ => break,
        }
    }
    (names, at)
}

/// Where the bracket at `at` has been closed.
fn closed(words: &[&str], at: usize) -> usize {
    let mut depth = 0;
    for (n, word) in words.iter().enumerate().skip(at) {
        depth += match *word {
            "(" | "[" | "{" => 1,
            ")" | "]" | "}" => -1,
            _ => 0,
        };
        if depth <= 0 {
            return n + 1;
        }
    }
    words.len()
}

/// Where the item, the field or the statement at `at` ends.
fn item_end(words: &[&str], mut at: usize) -> usize {
    let mut is_item = false;
    while at < words.len() {
        match words[at] {
            "{" => return closed(words, at),
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            ")" | "]" | "}" => return at,
            "(" | "[" => at = closed(words, at),
            word => {
                is_item |= ["fn", "struct", "enum", "impl", "trait", "type", "use"].contains(&word);
                at += 1;
            }
        }
    }
    at
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The words and signs of `text`, without comments and literals.
fn words(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = word_bytes(rest, first);
        let (word, after) = rest.split_at(word);
        if !first.is_whitespace() && !is_silent(word) {
            found.push(word);
        }
        rest = after;
    }
    found
}

/// Whether the word is a comment or a literal.
fn is_silent(word: &str) -> bool {
    let is_raw = word.len() > 1 && word.ends_with('#');
    is_raw || word.ends_with(['"', '\'']) || word.starts_with("//") || word.starts_with("/*")
}

/// How many bytes the word has that `text` begins with.
fn word_bytes(text: &str, first: char) -> usize {
    let until = |end: &str, from: usize| text[from..].find(end).map_or(text.len(), |n| from + n + end.len());
    match first {
        '/' if text.starts_with("//") => until("\n", 2),
        '/' if text.starts_with("/*") => until("*/", 2),
        '"' => quoted(text, 1),
        ':' if text.starts_with("::") => 2,
        '\'' => character(text),
        _ if is_name(first) => {
            let name = text.find(|c| !is_name(c)).unwrap_or(text.len());
            let hashes = text[name..].len() - text[name..].trim_start_matches('#').len();
            match (&text[..name], text[name + hashes..].starts_with('"')) {
                ("r" | "br" | "cr", true) => until(&format!("\"{}", "#".repeat(hashes)), name + hashes + 1),
                ("b" | "c", true) if hashes == 0 => quoted(text, name + 1),
                _ => name,
            }
        }
        _ => first.len_utf8(),
    }
}

/// Where the literal ends whose quotes are open before `at`.
fn quoted(text: &str, at: usize) -> usize {
    let mut is_escaped = false;
    for (n, c) in text[at..].char_indices() {
        match c {
            '"' if !is_escaped => return at + n + 1,
            _ => is_escaped = c == '\\' && !is_escaped,
        }
    }
    text.len()
}

/// The bytes of a character, or of the sign of a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((n, escaped))) => {
            let from = n + escaped.len_utf8();
            text[from..].find('\'').map_or(text.len(), |n| from + n + 1)
        }
        (Some(_), Some((n, '\''))) => n + 1,
        _ => 1,
    }
}
