//! The files that a new checkout is born with.

use serde::{Deserialize, Serialize};

use super::init::{self, default_init};
use super::text::{list_item, one_line, quoted};
use super::{
    DECISIONS_FILE, INIT_FILE, MAX_FILE_BYTES, PROGRESS_FILE, TASK_FILE, VERIFICATION_FILE,
};
use crate::error::{Error, Result};
use crate::ids::{SorDir, TaskId};

const MAX_TITLE_CHARS: usize = 200;
const MAX_TEXT_CHARS: usize = 64 << 10;
/// Criteria and gotchas together.
const MAX_LIST_ITEMS: usize = 1_000;

/// What the caller says about a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaffoldRequest {
    /// One line; the task id if empty.
    pub title: String,
    /// What is wanted and why, in any number of lines.
    pub description: String,
    /// What must hold for the task to be done, one line each.
    pub acceptance_criteria: Vec<String>,
    /// What to beware of, one line each.
    pub known_gotchas: Vec<String>,
    /// How the checkout is brought to life.
    pub commands: ScaffoldCommands,
    /// The team that the task belongs to; may be empty.
    pub team_name: String,
}

/// The slots of `init.sh`; an empty one is not configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaffoldCommands {
    /// Installs what the work needs.
    pub install: String,
    /// Checks the work.
    pub verify: String,
    /// Starts what is being built.
    pub start: String,
}

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SorFile {
    /// Its name, without `sor_dir`.
    pub name: &'static str,
    /// Its bytes.
    pub content: Vec<u8>,
    /// Whether its mode is 100755 rather than 100644.
    pub executable: bool,
}

/// Refuses what cannot be written into the scaffold, naming the field.
pub fn validate(request: &ScaffoldRequest) -> Result<()> {
    limit("scaffold.title", &request.title, MAX_TITLE_CHARS)?;
    limit("scaffold.team_name", &request.team_name, MAX_TITLE_CHARS)?;
    limit("scaffold.description", &request.description, MAX_TEXT_CHARS)?;
    let items = request.acceptance_criteria.len() + request.known_gotchas.len();
    if items > MAX_LIST_ITEMS {
        return Err(Error::invalid(
            "scaffold.acceptance_criteria",
            format!("has {items} entries with the gotchas; at most {MAX_LIST_ITEMS} are allowed"),
        ));
    }
    for criterion in &request.acceptance_criteria {
        limit("scaffold.acceptance_criteria", criterion, MAX_TEXT_CHARS)?;
    }
    for gotcha in &request.known_gotchas {
        limit("scaffold.known_gotchas", gotcha, MAX_TEXT_CHARS)?;
    }
    command("scaffold.commands.install", &request.commands.install)?;
    command("scaffold.commands.verify", &request.commands.verify)?;
    command("scaffold.commands.start", &request.commands.start)?;
    // A reader stops at the cap: a longer file could be written and never be read whole.
    let lists = request
        .acceptance_criteria
        .iter()
        .chain(&request.known_gotchas);
    let list_bytes: usize = lists.map(|item| item.len() + 16).sum();
    // A quoted line grows by two bytes, and the headings come on top.
    let bytes = list_bytes + 3 * request.description.len() + 8 * request.title.len() + 4096;
    if bytes as u64 > MAX_FILE_BYTES {
        return Err(Error::invalid(
            "scaffold",
            format!("would make {TASK_FILE} larger than {MAX_FILE_BYTES} bytes; say less"),
        ));
    }
    Ok(())
}

fn limit(field: &'static str, text: &str, most: usize) -> Result<()> {
    let length = text.chars().count();
    if length > most {
        return Err(Error::invalid(
            field,
            format!("has {length} characters; at most {most} are allowed"),
        ));
    }
    Ok(())
}

fn command(field: &'static str, text: &str) -> Result<()> {
    limit(field, text, MAX_TEXT_CHARS)?;
    // bash cannot hold NUL, and a slot is one line for every reader of init.sh.
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Err(Error::invalid(
            field,
            "must be one line without control characters",
        ));
    }
    Ok(())
}

/// The five files of a new checkout. The request must have passed [`validate`].
pub fn render(task: &TaskId, request: &ScaffoldRequest, sor_dir: &SorDir) -> Vec<SorFile> {
    let title = match one_line(&request.title) {
        title if title.is_empty() => task.to_string(),
        title => title,
    };
    let file = |name, content: String| SorFile {
        name,
        content: content.into_bytes(),
        executable: name == INIT_FILE,
    };
    vec![
        file(TASK_FILE, task_page(task, &title, request, sor_dir)),
        file(PROGRESS_FILE, progress_page(task, &title)),
        file(DECISIONS_FILE, DECISIONS.to_owned()),
        file(INIT_FILE, init::script(&request.commands, sor_dir)),
        file(
            VERIFICATION_FILE,
            verification_page(&title, &request.commands, sor_dir),
        ),
    ]
}

fn list(items: &[String], mark: &str, none: &str) -> String {
    let lines: Vec<String> = items
        .iter()
        .map(|item| list_item(item))
        .filter(|item| !item.is_empty())
        .map(|item| format!("{mark} {item}\n"))
        .collect();
    if lines.is_empty() {
        format!("{none}\n")
    } else {
        lines.concat()
    }
}

fn task_page(task: &TaskId, title: &str, request: &ScaffoldRequest, sor_dir: &SorDir) -> String {
    let team = match one_line(&request.team_name) {
        team if team.is_empty() => String::new(),
        team => format!("- Team: {team}\n"),
    };
    let why = if request.description.trim().is_empty() {
        "_No description was given._\n".to_owned()
    } else {
        quoted(&request.description)
    };
    let criteria = list(&request.acceptance_criteria, "- [ ]", "_None were given._");
    let gotchas = list(&request.known_gotchas, "-", "_None are known._");
    let init = default_init(sor_dir);
    let progress = sor_dir.join(PROGRESS_FILE);
    let decisions = sor_dir.join(DECISIONS_FILE);
    let verification = sor_dir.join(VERIFICATION_FILE);
    let handoff = sor_dir.join(super::HANDOFF_FILE);
    format!(
        "# Task: {title}\n\n- Task id: `{task}`\n{team}\n## What & why\n\n{why}\n## Acceptance criteria\n\n{criteria}\n\
         ## Known gotchas\n\n{gotchas}\n## How to work this task\n\n\
         1. Read this file, `{progress}` and, if it is there, `{handoff}`.\n\
         2. Run `bash {init}`: it installs what is needed and checks the starting point.\n\
         3. Work in this checkout only, on the branch it is on.\n\
         4. Keep `{progress}` up to date, and write what you decide and why into `{decisions}`.\n\
         5. Write what you ran to check the work, and what came of it, into `{verification}`.\n\
         6. When you stop, finished or not, clock out: leave `{handoff}` for the next runtime.\n"
    )
}

fn progress_page(task: &TaskId, title: &str) -> String {
    format!(
        "# Progress — {title}\n\n## Current verified state\n\n- Task: `{task}`\n- Nothing is verified yet.\n\n\
         ## Done\n\n- _Nothing yet._\n\n## In progress\n\n- _Nothing yet._\n\n## Blocked\n\n- _None._\n\n\
         ## Clock-in / clock-out\n\n\
         Clock in: read this file, then say under \"In progress\" what you take up.\n\
         Clock out: move what is finished to \"Done\" and what you could not solve to \"Blocked\".\n"
    )
}

const DECISIONS: &str = r#"{
  "$schema": "clawboo/decisions@1",
  "note": "One entry a decision: {date, decision, why, rejectedAlternative?, constraint?}. Append, never rewrite.",
  "decisions": []
}
"#;

fn verification_page(title: &str, commands: &ScaffoldCommands, sor_dir: &SorDir) -> String {
    let slot = |command: &str| match one_line(command) {
        command if command.is_empty() => "_Not configured._".to_owned(),
        // `$` in front: whatever the command starts with, the line is code.
        command => format!("    $ {command}"),
    };
    let (install, verify, start) = (
        slot(&commands.install),
        slot(&commands.verify),
        slot(&commands.start),
    );
    let init = default_init(sor_dir);
    format!(
        "# Verification — {title}\n\n## Commands\n\nEverything at once:\n\n    $ bash {init}\n\n\
         Install:\n\n{install}\n\nVerify:\n\n{verify}\n\nStart:\n\n{start}\n\n\
         ## Evidence\n\n_Nothing yet: what was run, when, at which commit, and what came of it._\n"
    )
}
