//! Words of agents and persons, made fit for one line of a terminal.

/// `text` on one line: runs of spaces and line ends become one space, controls that could drive the terminal
/// are dropped, and what is longer than `chars_max` is cut.
pub fn one_line(text: &str, chars_max: usize) -> String {
    let mut line = String::new();
    let mut room = chars_max;
    for c in text.trim().chars() {
        let c = if c.is_whitespace() { ' ' } else { c };
        if drives_a_terminal(c) || (c == ' ' && line.ends_with(' ')) {
            continue;
        }
        if room == 0 {
            line.push_str("...");
            break;
        }
        line.push(c);
        room -= 1;
    }
    line
}

/// `text` for a terminal: without control characters that are neither a line end nor a tab.
pub fn for_terminal(text: &str) -> String {
    text.chars().filter(|c| !drives_a_terminal(*c) || matches!(c, '\n' | '\t')).collect()
}

/// Controls, and the marks by which a text is shown in another order than it has or on other lines: what is read would not be
/// what is there.
fn drives_a_terminal(c: char) -> bool {
    let reorders = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || reorders || matches!(c, '\u{2028}' | '\u{2029}')
}

/// `sentence` as the later half of another: no capital at its start, no period at its end.
pub fn clause(sentence: &str) -> String {
    let sentence = sentence.trim().trim_end_matches('.');
    let mut chars = sentence.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// A stretch of time, in whole seconds.
pub fn seconds(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// `count` things.
pub fn counted(count: usize, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        _ => format!("{count} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line_and_drives_no_terminal() {
        assert_eq!(one_line("a\nb\r\n\u{1b}[31mred\u{7}", 80), "a b [31mred");
        assert_eq!(one_line("12345", 5), "12345");
        assert_eq!(one_line("123456", 5), "12345...");
        assert_eq!(for_terminal("a\n\tb\u{1b}[2J"), "a\n\tb[2J");
        // What would be read is `rm -rf`, what would run is not.
        assert_eq!(one_line("ls \u{202e}fr- mr\u{202c}\u{2066}", 80), "ls fr- mr");
        assert_eq!(for_terminal("a\u{2028}b\u{200f}\u{61c}c"), "abc");
        assert_eq!(one_line("a\u{2028}b", 80), "a b", "a line end of another kind is one as well");
    }

    #[test]
    fn a_sentence_becomes_a_clause() {
        assert_eq!(clause("Send it again."), "send it again");
        assert_eq!(clause(""), "");
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(counted(2, "row"), "2 rows");
    }

    #[test]
    fn time_is_told_as_a_person_would() {
        assert_eq!(
            [999, 59_999, 60_000, 3_661_000].map(seconds),
            ["0 s", "59 s", "1 min 0 s", "1 h 1 min"]
        );
    }
}
