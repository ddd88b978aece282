//! Text from callers, made harmless for the line-oriented formats of the system of record.

/// Whether a reader somewhere takes `c` for the end of a line.
fn ends_line(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// One line: runs of white space and control characters become one space.
pub(super) fn one_line(text: &str) -> String {
    let blank = |c: char| c.is_whitespace() || c.is_control() || ends_line(c);
    text.split(blank)
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// One line that is safe at the beginning of a list item: a leading mark that would open a list, a heading or a quote is escaped.
pub(super) fn list_item(text: &str) -> String {
    let line = one_line(text);
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = number.len() < line.len() && number.starts_with(['.', ')']);
    if line.starts_with(['#', '-', '*', '+', '>', '_', '`', '~', '=', '|', '<', '[']) {
        format!("\\{line}")
    } else if numbered {
        let digits = line.len() - number.len();
        format!("{}\\{number}", &line[..digits])
    } else {
        line
    }
}

/// Any number of lines as a block quote: whatever a line holds, it starts with `>`, and so is no heading and no bullet of ours.
pub(super) fn quoted(text: &str) -> String {
    let unix = text.replace("\r\n", "\n");
    let mut quoted = String::with_capacity(unix.len() + 64);
    for line in unix.trim_matches(ends_line).split(ends_line) {
        let clean: String = line
            .chars()
            .map(|c| if c.is_control() && c != '\t' { ' ' } else { c })
            .collect();
        let clean = clean.trim_end();
        quoted.push('>');
        if !clean.is_empty() {
            quoted.push(' ');
            quoted.push_str(clean);
        }
        quoted.push('\n');
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_and_escapes() {
        assert_eq!(one_line(" a\n## Done\u{2028}- b\0c "), "a ## Done - b c");
        assert_eq!(list_item("- [x] forged"), "\\- [x] forged");
        assert_eq!(list_item("12. forged"), "12\\. forged");
        assert_eq!(list_item("12 plain"), "12 plain");
        assert_eq!(list_item("größer"), "größer");
    }

    #[test]
    fn quotes_every_line() {
        assert_eq!(
            quoted("a\r\n\r\n## Done\r- x\u{85}y\n"),
            "> a\n>\n> ## Done\n> - x\n> y\n"
        );
    }
}
