//! Tables for people.

use crate::text::plain;

/// A table whose columns are as wide as they must be.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self {
            rows: vec![header.iter().map(|&cell| cell.to_owned()).collect()],
        }
    }

    /// Adds a row. Text that could steer a terminal is made harmless.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows
            .push(cells.iter().map(|cell| plain(cell)).collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.rows
                    .iter()
                    .filter_map(|row| row.get(column))
                    .map(|cell| width(cell))
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, column) in row.iter().zip(&widths) {
                line += cell;
                line.extend(std::iter::repeat_n(
                    ' ',
                    column.saturating_sub(width(cell)) + 2,
                ));
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// Shows names and values one under the other; those without a value are left out.
pub(crate) fn details(pairs: &[(&str, String)]) -> String {
    let set: Vec<_> = pairs
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let longest = set.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
    set.iter()
        .map(|(name, value)| format!("{name:<longest$}  {}\n", plain(value)))
        .collect()
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let mut table = Table::new(&["TASK", "STATE"]);
        assert!(table.is_empty());
        table.row(["fix-login".into(), "working".into()]);
        table.row(["ü\n".into(), String::new()]);
        assert_eq!(
            table.render(),
            "TASK       STATE\nfix-login  working\nü\u{fffd}\n"
        );
    }

    #[test]
    fn details_leave_out_what_is_empty() {
        let pairs = [
            ("task", "t".to_owned()),
            ("lease", String::new()),
            ("branch", "b".to_owned()),
        ];
        assert_eq!(details(&pairs), "task    t\nbranch  b\n");
    }
}
