//! Where values come from: flags over environment over file over default.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{
    Error, Result,
    settings::{self, Kind, SETTINGS, Setting},
};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nobody set it.
    Default,
    /// The file.
    File(PathBuf),
    /// The environment variable.
    Environment(String),
    /// A flag.
    Flag,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// A value as text, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) texts: Vec<String>,
    pub(super) source: Source,
}

pub(super) type Values = BTreeMap<&'static str, Value>;

/// What the environment is to the configuration; a parameter so that tests need not change the process's own.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The values in force. `flags` are pairs of a setting's name and a text; a name may come again.
pub(super) fn resolve(
    flags: &[(String, String)],
    environment: Environment<'_>,
    file: Option<&Path>,
) -> Result<Values> {
    let mut values = defaults();
    if let Some(file) = file_to_read(file, environment) {
        apply_file(&mut values, &file)?;
    }
    for setting in SETTINGS {
        let name = format!("WORKTREED_{}", setting.name.to_ascii_uppercase());
        // An empty variable is one that somebody meant to unset.
        if let Some(text) = environment(&name).filter(|text| !text.is_empty()) {
            let value = Value {
                texts: split(setting, &text),
                source: Source::Environment(name),
            };
            values.insert(setting.name, value);
        }
    }
    apply_flags(&mut values, flags)?;
    Ok(values)
}

fn defaults() -> Values {
    let value = |setting: &Setting| Value {
        texts: Some(setting.default)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
            .into_iter()
            .collect(),
        source: Source::Default,
    };
    SETTINGS
        .iter()
        .map(|setting| (setting.name, value(setting)))
        .collect()
}

fn apply_flags(values: &mut Values, flags: &[(String, String)]) -> Result<()> {
    let mut given: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for (name, text) in flags {
        let setting = settings::find(name).ok_or_else(|| Error::Unknown {
            name: name.clone(),
            place: "the command line".to_owned(),
        })?;
        let texts = given.entry(setting.name).or_default();
        if !matches!(setting.kind, Kind::Paths | Kind::List) {
            texts.clear();
        }
        texts.push(text.clone());
    }
    for (name, texts) in given {
        let source = Source::Flag;
        values.insert(name, Value { texts, source });
    }
    Ok(())
}

fn split(setting: &Setting, text: &str) -> Vec<String> {
    let separator = match setting.kind {
        Kind::Paths => ':',
        Kind::List => ',',
        _ => return vec![text.to_owned()],
    };
    text.split(separator)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The file that was asked for, else the one in its usual place if it is there.
fn file_to_read(file: Option<&Path>, environment: Environment<'_>) -> Option<PathBuf> {
    if let Some(file) = file {
        return Some(file.to_owned());
    }
    let absolute = |name: &str| {
        environment(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let directory = absolute("XDG_CONFIG_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
    Some(directory.join("worktreed/config.toml")).filter(|path| path.exists())
}

fn apply_file(values: &mut Values, path: &Path) -> Result<()> {
    let unreadable = |problem: String| Error::File {
        path: path.to_owned(),
        problem,
    };
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| unreadable(error.to_string()))?;
    for (name, value) in &table {
        let setting = settings::find(name).ok_or_else(|| Error::Unknown {
            name: name.clone(),
            place: path.display().to_string(),
        })?;
        let texts = texts_of(value).ok_or_else(|| {
            unreadable(format!(
                "{name} must be a text, a number, a switch or a list of texts"
            ))
        })?;
        let source = Source::File(path.to_owned());
        values.insert(setting.name, Value { texts, source });
    }
    Ok(())
}

fn texts_of(value: &toml::Value) -> Option<Vec<String>> {
    let scalar = |value: &toml::Value| match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(switch) => Some(switch.to_string()),
        _ => None,
    };
    match value {
        toml::Value::Array(items) => items.iter().map(scalar).collect(),
        // `[repository]` with `name = "path"` lines.
        toml::Value::Table(table) => table
            .iter()
            .map(|(name, path)| scalar(path).map(|path| format!("{name}={path}")))
            .collect(),
        value => scalar(value).map(|text| vec![text]),
    }
}
