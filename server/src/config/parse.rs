//! Texts to values.

use std::{path::PathBuf, time::Duration};

use super::{
    Error, Result,
    layers::{Value, Values},
};

pub(super) struct Parser<'a> {
    pub(super) values: &'a Values,
}

impl<'a> Parser<'a> {
    fn value(&self, name: &'static str) -> Result<&'a Value> {
        self.values.get(name).ok_or_else(|| Error::Unknown {
            name: name.to_owned(),
            place: "the list of settings".to_owned(),
        })
    }

    pub(super) fn invalid(&self, name: &'static str, problem: impl Into<String>) -> Error {
        let source = self.values.get(name).map(|value| value.source.to_string());
        Error::Invalid {
            name,
            source_name: source.unwrap_or_default(),
            problem: problem.into(),
        }
    }

    pub(super) fn list(&self, name: &'static str) -> Result<&'a [String]> {
        Ok(&self.value(name)?.texts)
    }

    pub(super) fn text(&self, name: &'static str) -> Result<Option<&'a str>> {
        match self.list(name)? {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            _ => Err(self.invalid(name, "takes one value")),
        }
    }

    fn required(&self, name: &'static str) -> Result<&'a str> {
        self.text(name)?
            .ok_or_else(|| self.invalid(name, "is empty"))
    }

    pub(super) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
        &self,
        name: &'static str,
    ) -> Result<T> {
        let text = self.required(name)?;
        text.parse()
            .map_err(|error| self.invalid(name, format!("cannot be {text:?}: {error}")))
    }

    pub(super) fn path(&self, name: &'static str) -> Result<Option<PathBuf>> {
        self.text(name)?
            .map(|text| self.absolute(name, text))
            .transpose()
    }

    pub(super) fn absolute(&self, name: &'static str, text: &str) -> Result<PathBuf> {
        if text.is_empty() {
            return Err(self.invalid(name, "has an empty path"));
        }
        std::path::absolute(text).map_err(|error| self.invalid(name, error.to_string()))
    }

    pub(super) fn number(&self, name: &'static str, min: u64, max: u64) -> Result<u64> {
        let number: u64 = self.parsed(name)?;
        if (min..=max).contains(&number) {
            Ok(number)
        } else {
            Err(self.invalid(name, format!("must be {min} to {max}, and is {number}")))
        }
    }

    pub(super) fn count(&self, name: &'static str, min: u64, max: u64) -> Result<usize> {
        let number = self.number(name, min, max)?;
        usize::try_from(number).map_err(|error| self.invalid(name, error.to_string()))
    }

    pub(super) fn size(&self, name: &'static str) -> Result<u64> {
        let text = self.required(name)?;
        parse_size(text).ok_or_else(|| {
            self.invalid(
                name,
                format!("{text:?} is no size such as 4096, 1MiB or 2GiB"),
            )
        })
    }

    pub(super) fn duration(&self, name: &'static str, min: Duration) -> Result<Duration> {
        let text = self.required(name)?;
        let duration = parse_duration(text).ok_or_else(|| {
            self.invalid(
                name,
                format!("{text:?} is no length of time such as 500ms, 60s, 30m, 24h or 7d"),
            )
        })?;
        if duration < min {
            return Err(self.invalid(name, format!("must be {min:?} at least, and is {text}")));
        }
        Ok(duration)
    }
}

fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim()))
}

pub(super) fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text.trim())?;
    let factor: u64 = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number
        .checked_mul(factor)
        .filter(|&size| i64::try_from(size).is_ok())
}

pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(text.trim())?;
    let millis: u64 = match unit {
        "" if number == 0 => 1,
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    // A century is for ever, and leaves room to add it to any time.
    number
        .checked_mul(millis)
        .filter(|&total| total <= 36_525 * 86_400_000)
        .map(Duration::from_millis)
}
