//! One look at a file that an agent keeps for itself.

use std::fmt;

use glob::Pattern;

/// An absolute path, some of whose components are patterns, in which `*` stands for any run of characters. A star never
/// stands for a `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePattern(Vec<PathComponent>);

/// One step of a [`FilePattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathComponent {
    /// Just this name.
    Name(String),
    /// Whatever name is like that.
    Like(Pattern),
}

/// A part of the text that a [`FilePattern`] is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternPart<'a> {
    /// Itself, whatever is in it. It may lead through several folders.
    Text(&'a str),
    /// Any run of characters of one component.
    Star,
}

impl FilePattern {
    /// From its parts, in order. None when they make no absolute path, or one that leads back (`..`).
    pub fn of<'a>(parts: impl IntoIterator<Item = PatternPart<'a>>) -> Option<Self> {
        let mut steps = vec![Vec::new()];
        for part in parts {
            let mut pieces = match part {
                PatternPart::Text(text) => text.split('/'),
                PatternPart::Star => {
                    steps.last_mut()?.push(part);
                    continue;
                }
            };
            steps.last_mut()?.extend(pieces.next().map(PatternPart::Text));
            steps.extend(pieces.map(|piece| vec![PatternPart::Text(piece)]));
        }
        let mut steps = steps.into_iter();
        let before_the_root = steps.next()?;
        if before_the_root.iter().any(|part| *part != PatternPart::Text("")) {
            return None;
        }
        let components: Option<Vec<_>> = steps.map(|parts| PathComponent::of(&parts)).collect();
        components.filter(|components| !components.is_empty()).map(Self)
    }

    /// The components below `/`: at least one.
    pub fn components(&self) -> &[PathComponent] {
        &self.0
    }

    /// Whether a path is as the pattern says.
    pub fn matches(&self, path: &str) -> bool {
        let Some(path) = path.strip_prefix('/') else { return false };
        let names: Vec<&str> = path.split('/').collect();
        names.len() == self.0.len() && self.0.iter().zip(names).all(|(c, name)| c.matches(name))
    }
}

impl PathComponent {
    fn of(parts: &[PatternPart<'_>]) -> Option<Self> {
        if parts.contains(&PatternPart::Star) {
            // `glob` reads its own signs in a text; escaped, only our stars are left of them.
            let signs = parts.iter().map(|part| match part {
                PatternPart::Text(text) => Pattern::escape(text),
                PatternPart::Star => "*".to_owned(),
            });
            return Pattern::new(&signs.collect::<String>()).ok().map(Self::Like);
        }
        let texts = parts.iter().map(|part| match part {
            PatternPart::Text(text) => *text,
            PatternPart::Star => "",
        });
        let name: String = texts.collect();
        let leads_on = !matches!(name.as_str(), "" | "." | "..") && !name.contains('\0');
        leads_on.then_some(Self::Name(name))
    }

    /// Whether a name is like it.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => own == name,
            Self::Like(pattern) => pattern.matches(name),
        }
    }
}

/// What the look gave.
#[derive(Clone, PartialEq, Eq)]
pub enum FileTail {
    /// No file is as the pattern says.
    Missing,
    /// More than one is, or it is no regular file, or it cannot be read or looked for: nothing can be said.
    Unreadable,
    /// Its last bytes.
    Read {
        /// At most as many as were asked for.
        bytes: Vec<u8>,
        /// They are all there are.
        whole: bool,
    },
}

impl fmt::Debug for FileTail {
    // What is in it are the words of persons and agents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("Missing"),
            Self::Unreadable => f.write_str("Unreadable"),
            Self::Read { bytes, whole } => {
                write!(f, "Read({} bytes, whole: {whole})", bytes.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PatternPart::{Star, Text};

    #[test]
    fn a_star_stays_inside_its_component() {
        let parts = [Text("/store/sessions/"), Star, Text("/"), Star, Text("_s1.jsonl")];
        let pattern = FilePattern::of(parts).expect("an absolute path");
        assert!(pattern.matches("/store/sessions/ws/2026_s1.jsonl"));
        assert!(!pattern.matches("/store/sessions/ws/deeper/2026_s1.jsonl"));
        assert!(!pattern.matches("/store/sessions/ws/2026_s2.jsonl"));
        assert!(!pattern.matches("store/sessions/ws/2026_s1.jsonl"));
    }

    #[test]
    fn what_is_no_star_is_itself() {
        let pattern = FilePattern::of([Text("/a[*]?/"), Star, Text("[b]"), Star]);
        let pattern = pattern.expect("an absolute path");
        assert!(pattern.matches("/a[*]?/x[b]y"));
        assert!(!pattern.matches("/a[*]?/xby"));
        assert!(!pattern.matches("/ax/x[b]y"));
    }

    #[test]
    fn a_path_that_is_not_absolute_or_leads_back_is_none() {
        for path in ["", "a", "a/b", "/", "/a/", "//a", "/a/../b", "/a/./b", "/a\0"] {
            assert_eq!(FilePattern::of([Text(path)]), None, "{path:?}");
        }
        assert_eq!(FilePattern::of([Star, Text("/a")]), None);
        assert_eq!(FilePattern::of([]), None);
        assert_eq!(FilePattern::of([Text("/a"), Text("/b")]), FilePattern::of([Text("/a/b")]));
    }
}
