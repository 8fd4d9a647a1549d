//! A report as JUnit XML, which CI services show.

use std::fmt::Write;

use super::report::{SweepFailure, SweepReport};

/// A report as JUnit XML: one test case a row, and one for the marks where they must all be met. `replay` is the line that
/// shows a failure again.
pub fn junit(report: &SweepReport, replay: impl Fn(&SweepFailure) -> String) -> String {
    let missing = report.missing();
    let lacks_marks = report.is_full() && !missing.is_empty();
    let failing =
        report.rows.iter().filter(|row| row.failed > 0).count() + usize::from(lacks_marks);
    let cases = report.rows.len() + usize::from(report.is_full());
    let seconds = format!("{}.{:03}", report.wall_ms / 1_000, report.wall_ms % 1_000);
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let totals = format!("tests=\"{cases}\" failures=\"{failing}\" errors=\"0\"");
    let mut line = |text: &str| {
        xml.push_str(text);
        xml.push('\n');
    };
    line(&format!("<testsuites name=\"moored sweep\" {totals} time=\"{seconds}\">"));
    line(&format!("  <testsuite name=\"moored sweep\" {totals} skipped=\"0\" time=\"{seconds}\">"));
    for row in &report.rows {
        let name = match row.kernel {
            Some(kernel) => format!("{} on {kernel}", row.scenario),
            None => row.scenario.clone(),
        };
        let case = format!("    <testcase classname=\"moored.sweep\" name=\"{}\"", escaped(&name));
        let of_row = |f: &&SweepFailure| f.scenario == row.scenario && f.row_kernel == row.kernel;
        let failures: Vec<&SweepFailure> = report.failures.iter().filter(of_row).collect();
        let Some(first) = failures.first() else {
            line(&format!("{case}/>"));
            continue;
        };
        line(&format!("{case}>"));
        let message =
            format!("{} of {} runs failed; the first: {}", row.failed, row.runs, words(first));
        let mut text = String::new();
        for failure in &failures {
            // Writing into a text cannot fail.
            let _ = writeln!(text, "{}\n  {}", words(failure), replay(failure));
        }
        let kind = escaped(&first.violation.oracle);
        line(&format!("      <failure type=\"{kind}\" message=\"{}\">", escaped(&message)));
        line(&format!("{}      </failure>\n    </testcase>", escaped(&text)));
    }
    if report.is_full() {
        let case = "    <testcase classname=\"moored.sweep\" name=\"coverage marks\"";
        if lacks_marks {
            let names: Vec<&str> = missing.iter().map(|mark| mark.name.as_str()).collect();
            let message = format!("never met: {}", names.join(", "));
            line(&format!(
                "{case}>\n      <failure type=\"coverage\" message=\"{}\"/>",
                escaped(&message)
            ));
            line("    </testcase>");
        } else {
            line(&format!("{case}/>"));
        }
    }
    line("  </testsuite>\n</testsuites>");
    xml
}

fn words(failure: &SweepFailure) -> String {
    let SweepFailure { seed, violation, kernel, .. } = failure;
    format!(
        "seed {seed} on {kernel}: {} ({}): {}",
        violation.oracle, violation.rule, violation.words
    )
}

/// Text for XML 1.0, also inside quotation marks. What XML cannot hold becomes a replacement character.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            c if c < ' ' || matches!(c, '\u{7f}' | '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_of_a_text_is_markup_and_everything_is_xml() {
        assert_eq!(
            super::escaped("a<b> & \"c\" 'd'\n"),
            "a&lt;b&gt; &amp; &quot;c&quot; &apos;d&apos;&#10;"
        );
        assert_eq!(super::escaped("]]>\u{1b}[0m\0"), "]]&gt;\u{fffd}[0m\u{fffd}");
    }
}
