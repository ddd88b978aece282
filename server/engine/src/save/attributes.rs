//! Which files git converts on their way in or out: for these, "status is clean" says nothing about their bytes.

use std::collections::HashMap;

/// The attributes that make git convert a file.
pub(crate) const CONVERTING: [&str; 6] = [
    "filter",
    "text",
    "eol",
    "crlf",
    "ident",
    "working-tree-encoding",
];

/// How far a file's bytes can differ from the blob that git has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Conversion {
    /// Not at all: the same bytes both ways.
    #[default]
    None,
    /// `git add` may change them; a checkout writes the blob as it is.
    OnAdd,
    /// A checkout may write other bytes than the blob's.
    Both,
}

/// What the repository's configuration says about line endings.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LineEndings {
    /// `core.autocrlf=true`: a checkout writes CRLF.
    pub(crate) autocrlf: bool,
    /// `core.autocrlf=input`: `git add` takes CRs out.
    pub(crate) input: bool,
    /// `core.eol=crlf`: what is text is written with CRLF.
    pub(crate) eol_crlf: bool,
}

impl LineEndings {
    /// What holds for a file without attributes.
    pub(crate) fn conversion(self) -> Conversion {
        if self.autocrlf {
            Conversion::Both
        } else if self.input {
            Conversion::OnAdd
        } else {
            Conversion::None
        }
    }
}

/// The conversion of each path that `git check-attr -z --stdin` answered for.
pub(crate) fn parse(output: &[u8], endings: LineEndings) -> HashMap<Vec<u8>, Conversion> {
    let mut found: HashMap<Vec<u8>, Conversion> = HashMap::new();
    let mut fields = output.split(|&byte| byte == 0);
    while let (Some(path), Some(attribute), Some(value)) =
        (fields.next(), fields.next(), fields.next())
    {
        let conversion = conversion(attribute, value, endings);
        if conversion != Conversion::None {
            let known = found.entry(path.to_vec()).or_default();
            *known = (*known).max(conversion);
        }
    }
    found
}

fn conversion(attribute: &[u8], value: &[u8], endings: LineEndings) -> Conversion {
    if matches!(value, b"unspecified" | b"unset") {
        return Conversion::None;
    }
    match attribute {
        b"filter" | b"ident" | b"working-tree-encoding" => Conversion::Both,
        b"eol" if value == b"crlf" => Conversion::Both,
        // `text`, its old name `crlf`, and `eol=lf`: in force on the way in, on the way out only with CRLF configured.
        _ if endings.autocrlf || endings.eol_crlf => Conversion::Both,
        _ => Conversion::OnAdd,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_attribute_decides() {
        let output = b"a\0text\0set\0a\0filter\0lfs\0b\0text\0auto\0c\0text\0unset\0d\0eol\0crlf\0";
        let found = parse(output, LineEndings::default());
        assert_eq!(found.get(&b"a"[..]), Some(&Conversion::Both));
        assert_eq!(found.get(&b"b"[..]), Some(&Conversion::OnAdd));
        assert_eq!(found.get(&b"c"[..]), None);
        assert_eq!(found.get(&b"d"[..]), Some(&Conversion::Both));
        let crlf = LineEndings {
            eol_crlf: true,
            ..LineEndings::default()
        };
        assert_eq!(parse(output, crlf).get(&b"b"[..]), Some(&Conversion::Both));
    }
}
