//! The command line.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand};

/// A git worktree for every coding task, over gRPC.
#[derive(Debug, Parser)]
#[command(
    name = "worktreed",
    version,
    arg_required_else_help = true,
    max_term_width = 120
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve until SIGTERM or SIGINT; a second one ends at once
    #[command(after_help = SERVE_HELP)]
    Serve(Settings),
    /// Print the configuration in force, and where each value comes from
    Config(Settings),
    /// Show the service at work on a real repository, and clean up afterwards
    Demo(Demo),
}

const SERVE_HELP: &str = "\
Examples:
  worktreed serve --allow-root ~/src
  worktreed serve --repository main=/srv/main.git --listen 127.0.0.1:7420
  worktreed serve --set lock_wait=5s --set gc_interval=0

Every setting can also be given as WORKTREED_<NAME> in the environment, or in the TOML file; `worktreed config` lists all.";

/// Settings given as flags.
#[derive(Debug, Clone, Default, Args)]
pub struct Settings {
    /// Read this file instead of $XDG_CONFIG_HOME/worktreed/config.toml
    #[arg(long, value_name = "FILE", env = "WORKTREED_CONFIG")]
    pub config: Option<PathBuf>,
    /// Keep registry, socket and lock here
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<OsString>,
    /// Let the repositories below this directory be used; may be repeated
    #[arg(long, value_name = "DIR")]
    pub allow_root: Vec<OsString>,
    /// Let this repository be used, by name; may be repeated
    #[arg(long, value_name = "NAME=PATH")]
    pub repository: Vec<OsString>,
    /// Listen here too: HOST:PORT (loopback) or unix:PATH; may be repeated
    #[arg(long, value_name = "ADDR")]
    pub listen: Vec<OsString>,
    /// Prefix of branches, commit messages and private refs
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<OsString>,
    /// Set any other setting; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
}

/// How the demo runs.
#[derive(Debug, Clone, Args)]
pub struct Demo {
    /// The repository; the one you stand in if absent
    #[arg(long, value_name = "PATH")]
    pub repo: Option<PathBuf>,
}

impl Settings {
    /// The flags as pairs of a setting's name and its text.
    pub fn pairs(&self) -> anyhow::Result<Vec<(String, String)>> {
        let named = [
            ("state_dir", self.state_dir.as_slice()),
            ("allow_root", &self.allow_root),
            ("repository", &self.repository),
            ("listen", &self.listen),
            ("namespace", self.namespace.as_slice()),
        ];
        let mut pairs = Vec::new();
        for (name, values) in named {
            for value in values {
                // Replies carry paths as text, so a path has to be one.
                let text = value
                    .to_str()
                    .ok_or_else(|| anyhow::anyhow!("{name}: {value:?} is not UTF-8"))?;
                pairs.push((name.to_owned(), text.to_owned()));
            }
        }
        for text in &self.set {
            let (name, value) = text
                .split_once('=')
                .ok_or_else(|| anyhow::anyhow!("--set {text:?} is not NAME=VALUE"))?;
            pairs.push((name.to_owned(), value.to_owned()));
        }
        Ok(pairs)
    }

    /// The configuration in force with these flags.
    pub fn load(&self) -> anyhow::Result<crate::config::Config> {
        let environment = |name: &str| std::env::var(name).ok();
        let config =
            crate::config::Config::load(&self.pairs()?, &environment, self.config.as_deref())?;
        Ok(config)
    }
}
