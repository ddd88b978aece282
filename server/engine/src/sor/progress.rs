//! `task-progress.md`, as far as a cold runtime needs it.

/// The bullets of two sections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Under `## Done`; an item with an empty box is not done and is left out.
    pub done: Vec<String>,
    /// Under `## Blocked`.
    pub blocked: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Done,
    Blocked,
    Other,
}

/// Reads the bullets. CRLF, `*` and check boxes are understood, placeholders in `_…_` are skipped.
pub fn parse_progress(text: &str) -> Progress {
    let mut progress = Progress::default();
    let mut section = Section::Other;
    for line in text.lines() {
        if let Some(heading) = heading(line) {
            section = match heading.to_lowercase().as_str() {
                "done" => Section::Done,
                "blocked" => Section::Blocked,
                _ => Section::Other,
            };
        } else if let Some((item, ticked)) = bullet(line) {
            match section {
                Section::Done if ticked != Some(false) => progress.done.push(item.to_owned()),
                Section::Blocked => progress.blocked.push(item.to_owned()),
                _ => {}
            }
        }
    }
    progress
}

/// The text of a heading that begins a section; deeper ones divide it further, and `# ` may be a comment in an example.
fn heading(line: &str) -> Option<&str> {
    line.strip_prefix("## ").map(str::trim)
}

/// The text of a list item, and its box if it has one.
fn bullet(line: &str) -> Option<(&str, Option<bool>)> {
    let line = line.trim();
    let item = line
        .strip_prefix("- ")
        .or_else(|| line.strip_prefix("* "))?
        .trim();
    let boxed = |mark: &str| {
        item.strip_prefix(mark)
            .filter(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let (text, ticked) = if let Some(rest) = boxed("[x]").or_else(|| boxed("[X]")) {
        (rest.trim(), Some(true))
    } else if let Some(rest) = boxed("[ ]") {
        (rest.trim(), Some(false))
    } else {
        (item, None)
    };
    let placeholder = text.len() > 1 && text.starts_with('_') && text.ends_with('_');
    (!text.is_empty() && !placeholder).then_some((text, ticked))
}
