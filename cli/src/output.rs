//! What a command prints on stdout.

use std::io::Write;

use anyhow::Context;
use serde::Serialize;

use crate::error::Verdict;

/// Prints `text`, and nothing more is to be done. A reader that has gone (`| head`) is no failure.
pub fn print(text: &str) -> anyhow::Result<Verdict> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("the output cannot be written; check where stdout goes")
        }
        _ => Ok(Verdict::Holds),
    }
}

/// Prints one JSON document.
pub fn print_json(document: &impl Serialize) -> anyhow::Result<Verdict> {
    let text = serde_json::to_string_pretty(document).context("the answer is no JSON")?;
    print(&format!("{text}\n"))
}

/// Rows of a table, with as much room in each column as its widest cell needs. The last column is not padded.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let line: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_table_lines_up() {
        let rows = [vec!["A".to_owned(), "LONG".to_owned()], vec!["wide".to_owned(), "x".into()]];
        assert_eq!(super::table(&rows), "A     LONG\nwide  x\n");
    }
}
