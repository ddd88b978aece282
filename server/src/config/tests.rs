#![allow(clippy::unwrap_used)]

use std::{collections::HashMap, time::Duration};

use super::{
    Config, Error, ListenAddress, Source,
    parse::{parse_duration, parse_size},
    settings::SETTINGS,
};

fn load(
    flags: &[(&str, &str)],
    environment: &[(&str, &str)],
    file: Option<&str>,
) -> Result<Config, Error> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.toml");
    if let Some(text) = file {
        std::fs::write(&path, text).unwrap();
    }
    let mut variables: HashMap<&str, &str> = environment.iter().copied().collect();
    variables.entry("HOME").or_insert("/home/anna");
    let flags: Vec<_> = flags
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect();
    Config::load(
        &flags,
        &|name| variables.get(name).map(|text| (*text).to_owned()),
        file.map(|_| path.as_path()),
    )
}

fn source(config: &Config, name: &str) -> Source {
    let found = config.report.iter().find(|line| line.0 == name);
    found.unwrap().2.clone()
}

#[test]
fn flags_go_over_environment_over_file_over_default() {
    let file =
        "namespace = \"file\"\nlock_wait = \"1s\"\nlease_ttl_max = \"2h\"\nallow_root = [\"/f\"]";
    let environment = [
        ("WORKTREED_NAMESPACE", "env"),
        ("WORKTREED_LOCK_WAIT", "2s"),
        ("WORKTREED_ALLOW_ROOT", "/a:/b"),
    ];
    let config = load(&[("namespace", "flag")], &environment, Some(file)).unwrap();
    assert_eq!(config.namespace.as_str(), "flag");
    assert_eq!(source(&config, "namespace"), Source::Flag);
    assert_eq!(config.limits.lock_wait, Duration::from_secs(2));
    assert_eq!(
        source(&config, "lock_wait"),
        Source::Environment("WORKTREED_LOCK_WAIT".to_owned())
    );
    assert_eq!(config.limits.lease_ttl_max, Duration::from_secs(7200));
    assert!(matches!(source(&config, "lease_ttl_max"), Source::File(_)));
    assert_eq!(config.limits.lease_ttl_min, Duration::from_secs(5));
    assert_eq!(source(&config, "lease_ttl_min"), Source::Default);
    assert_eq!(config.allow_roots.len(), 2);
}

#[test]
fn b10_state_is_kept_at_home_unless_told_otherwise() {
    let config = load(&[], &[], None).unwrap();
    assert_eq!(
        config.state_dir.to_str(),
        Some("/home/anna/.local/state/worktreed")
    );
    assert_eq!(config.worktree_root, config.state_dir.join("worktrees"));
    let config = load(&[], &[("XDG_STATE_HOME", "/x")], None).unwrap();
    assert_eq!(config.state_dir.to_str(), Some("/x/worktreed"));
    let config = load(&[], &[("XDG_STATE_HOME", "relative")], None).unwrap();
    assert!(config.state_dir.starts_with("/home/anna"));
    let config = load(&[("state_dir", "/tmp/x")], &[], None).unwrap();
    assert!(
        config
            .warnings()
            .iter()
            .any(|one| one.contains("temporary"))
    );
    assert!(matches!(
        load(&[], &[("HOME", "")], None),
        Err(Error::NoHome)
    ));
}

#[test]
fn every_default_is_legal_and_every_name_is_once() {
    load(&[], &[], None).unwrap();
    let names: std::collections::BTreeSet<_> =
        SETTINGS.iter().map(|setting| setting.name).collect();
    assert_eq!(names.len(), SETTINGS.len());
}

#[test]
fn nonsense_is_named_with_its_place() {
    for (flags, environment, file, words) in [
        (
            &[("lock_wait", "5")][..],
            &[][..],
            None,
            ["lock_wait", "flag"],
        ),
        (
            &[],
            &[("WORKTREED_PAGE_SIZE_MAX", "0")],
            None,
            ["page_size_max", "WORKTREED_PAGE"],
        ),
        (&[], &[], Some("nonsense = 1"), ["nonsense", "config.toml"]),
        (&[], &[], Some("= ["), ["config.toml", "file"]),
        (&[("namespace", "heads")], &[], None, ["namespace", "flag"]),
        (
            &[("lease_ttl_default", "1s")],
            &[],
            None,
            ["lease_ttl_min", "lease_ttl_max"],
        ),
        (
            &[("repository", "x")],
            &[],
            None,
            ["repository", "NAME=PATH"],
        ),
        (
            &[("listen", "0.0.0.0:1")],
            &[],
            None,
            ["listen", "loopback"],
        ),
        (
            &[("listen", "example.org:1")],
            &[],
            None,
            ["listen", "loopback"],
        ),
    ] {
        let said = load(flags, environment, file).unwrap_err().to_string();
        for word in words {
            assert!(said.contains(word), "{said}");
        }
    }
}

#[test]
fn repositories_have_names_and_addresses_their_kinds() {
    let file = "[repository]\nmain = \"/srv/main\"\n";
    let config = load(&[], &[], Some(file)).unwrap();
    assert_eq!(config.repositories["main"].to_str(), Some("/srv/main"));
    let flags = [
        ("listen", "localhost:7420"),
        ("listen", "[::1]:1"),
        ("listen", "unix:/x/y"),
    ];
    let config = load(&flags, &[], None).unwrap();
    assert!(matches!(
        config.listen[..],
        [
            ListenAddress::Tcp(_),
            ListenAddress::Tcp(_),
            ListenAddress::Unix(_)
        ]
    ));
}

#[test]
fn sizes_and_times_have_units() {
    assert_eq!(parse_size("1MiB"), Some(1 << 20));
    assert_eq!(parse_size("12"), Some(12));
    assert_eq!(parse_duration("0"), Some(Duration::ZERO));
    assert_eq!(parse_duration("3d"), Some(Duration::from_secs(259_200)));
    for text in ["", "x", "1 MB", "-1", "99999999999GiB", "1.5"] {
        assert_eq!(parse_size(text), None, "{text:?}");
    }
    for text in ["", "5", "h", "1w", "-1s", "99999999999d"] {
        assert_eq!(parse_duration(text), None, "{text:?}");
    }
}
