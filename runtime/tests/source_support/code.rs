//! Rust source as far as the rules need it: code without comments and texts, and its attributes.

/// The code, without comments and without what stands between quotes.
pub fn without_words(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let skipped = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            'r' if !code.ends_with(is_of_a_name) => raw_text(rest).unwrap_or(0),
            '"' => text(rest),
            '\'' => character(rest),
            _ => 0,
        };
        if skipped == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        if first == '"' || first == 'r' {
            code.push_str("\"\"");
        }
        rest = &rest[skipped..];
    }
    code
}

fn is_of_a_name(c: char) -> bool {
    // `br"..."` is a text too.
    c != 'b' && (c.is_alphanumeric() || c == '_')
}

/// The length of `r#"..."#` with any number of marks.
fn raw_text(rest: &str) -> Option<usize> {
    let marks = rest[1..].chars().take_while(|c| *c == '#').count();
    let body = rest[1 + marks..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(marks));
    let length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(1 + marks + 1 + length)
}

/// The length of `"..."`.
fn text(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of `'x'` or `'\x'`; 0 of a lifetime.
fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, escape))) => {
            let after = at + escape.len_utf8();
            rest[after..].find('\'').map_or(0, |end| after + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

/// What stands in `#[...]` and `#![...]`, in code without words.
pub fn attributes(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices('#') {
        let rest = &code[at + 1..];
        let rest = rest.strip_prefix('!').unwrap_or(rest);
        let Some(body) = rest.strip_prefix('[') else { continue };
        let mut depth = 1;
        for (end, c) in body.char_indices() {
            match c {
                '[' => depth += 1,
                ']' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                found.push(body[..end].trim());
                break;
            }
        }
    }
    found
}
