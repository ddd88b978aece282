//! What the admin directory of a checkout says: operations in progress, foreign locks, commits that only it names.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// What git leaves in the admin directory while an operation is under way, and what people call it.
const OPERATIONS: &[(&str, &str)] = &[
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase or am"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("sequencer", "cherry-pick or revert sequence"),
    ("BISECT_LOG", "bisect"),
    ("BISECT_START", "bisect"),
];

/// The most of one admin file that is kept: a longer one is no state of git's.
const ADMIN_FILE_CAP: u64 = 64 << 20;

/// Refuses while git is in the middle of something: its state is more than HEAD, index and files.
pub(crate) fn refuse_operation(admin: &Path, checkout: &Path) -> Result<()> {
    for (name, operation) in OPERATIONS {
        if exists(&admin.join(name))? {
            return Err(Error::OperationInProgress {
                path: checkout.to_owned(),
                operation: (*operation).to_owned(),
            });
        }
    }
    Ok(())
}

/// Refuses a checkout whose admin directory is the home of a submodule's repository.
pub(crate) fn refuse_submodule(admin: &Path, checkout: &Path) -> Result<()> {
    let modules = admin.join("modules");
    let mut entries = match std::fs::read_dir(&modules) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("list", &modules, error)),
    };
    match entries.next() {
        None => Ok(()),
        Some(Ok(entry)) => Err(Error::SubmoduleRepository {
            path: checkout.to_owned(),
            submodule: entry.file_name().to_string_lossy().into_owned(),
        }),
        Some(Err(error)) => Err(Error::io("list", &modules, error)),
    }
}

/// Refuses a drop while any lock is held in the admin directory. It is never ours to take away.
pub(crate) fn refuse_held_lock(admin: &Path) -> Result<()> {
    let entries = std::fs::read_dir(admin).map_err(|error| Error::io("list", admin, error))?;
    for entry in entries {
        let name = entry
            .map_err(|error| Error::io("list", admin, error))?
            .file_name();
        if name.as_bytes().ends_with(b".lock") {
            return Err(Error::Busy {
                path: admin.join(&name),
                problem: "git holds this lock, or left it behind; remove it by hand if no git runs"
                    .to_owned(),
            });
        }
    }
    Ok(())
}

fn exists(path: &Path) -> Result<bool> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("look at", path, error)),
    }
}

/// A file of the admin directory that is worth keeping: its path below it, and its content.
pub(crate) type AdminFile = (Vec<u8>, Vec<u8>);

/// Every regular file of the admin directory but locks, what the registration itself is made of, and submodules.
pub(crate) fn files(admin: &Path) -> Result<Vec<AdminFile>> {
    let mut found = Vec::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(relative) = pending.pop() {
        let directory = admin.join(&relative);
        let entries =
            std::fs::read_dir(&directory).map_err(|error| Error::io("list", &directory, error))?;
        for entry in entries {
            let entry = entry.map_err(|error| Error::io("list", &directory, error))?;
            let path = relative.join(entry.file_name());
            let bytes = path.as_os_str().as_bytes();
            let registration = matches!(bytes, b"gitdir" | b"commondir" | b"locked" | b"modules");
            let new_index = bytes == super::lock::NEW_INDEX.as_bytes();
            if registration || new_index || bytes.ends_with(b".lock") {
                continue;
            }
            let kind = entry
                .file_type()
                .map_err(|error| Error::io("look at", &admin.join(&path), error))?;
            if kind.is_dir() {
                pending.push(path);
            } else if kind.is_file()
                && let Some(content) = read_capped(&admin.join(&path))?
            {
                found.push((bytes.to_vec(), content));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn read_capped(path: &Path) -> Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    match File::open(path).and_then(|file| file.take(ADMIN_FILE_CAP + 1).read_to_end(&mut content))
    {
        Ok(read) if read as u64 > ADMIN_FILE_CAP => Err(Error::RepositoryUnsupported {
            path: path.to_owned(),
            problem: "a file of the checkout's registration is larger than 64 MiB".to_owned(),
        }),
        Ok(_) => Ok(Some(content)),
        // git replaces its files by rename; what went away between listing and reading was temporary.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path, error)),
    }
}

/// Every object id in the admin files that can name a commit nobody else names: pseudo-refs, own refs, HEAD's log.
pub(crate) fn named_objects(files: &[AdminFile], hash: gix::hash::Kind) -> BTreeSet<gix::ObjectId> {
    let digits = hash.len_in_hex();
    files
        .iter()
        .filter(|(path, _)| {
            path.ends_with(b"_HEAD")
                || path.starts_with(b"refs/")
                || path.starts_with(b"logs/")
                || path.starts_with(b"rebase-")
                || path == b"MERGE_AUTOSTASH"
                || path == b"HEAD"
        })
        .flat_map(|(_, content)| content.split(|&byte| byte == b'\n'))
        // A log line begins with the old and the new id; a ref and a pseudo-ref with theirs.
        .flat_map(|line| line.splitn(3, |&byte| byte == b' ').take(2))
        .filter_map(|word| {
            let word = word.split(|&byte| byte == b'\t').next().unwrap_or(word);
            (word.len() == digits).then(|| gix::ObjectId::from_hex(word).ok())?
        })
        .filter(|id| !id.is_null())
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_found_in_refs_logs_and_pseudo_refs() {
        let id = |digit: &str| digit.repeat(40);
        let log = format!("{} {} A <a@b> 1 +0000\tcommit\n", id("0"), id("a"));
        let files = vec![
            (b"logs/HEAD".to_vec(), log.into_bytes()),
            (b"ORIG_HEAD".to_vec(), format!("{}\n", id("b")).into_bytes()),
            (
                b"FETCH_HEAD".to_vec(),
                format!("{}\tnot-for-merge\tx\n", id("c")).into_bytes(),
            ),
            (
                b"refs/worktree/keep".to_vec(),
                format!("{}\n", id("d")).into_bytes(),
            ),
            (b"index".to_vec(), id("e").into_bytes()),
        ];
        let found: Vec<String> = named_objects(&files, gix::hash::Kind::Sha1)
            .iter()
            .map(|id| id.to_hex().to_string())
            .collect();
        assert_eq!(found, [id("a"), id("b"), id("c"), id("d")]);
    }

    #[test]
    fn a12_operation_in_progress_is_named() {
        let admin = tempfile::tempdir().unwrap();
        assert!(refuse_operation(admin.path(), Path::new("/x")).is_ok());
        std::fs::create_dir(admin.path().join("rebase-merge")).unwrap();
        let error = refuse_operation(admin.path(), Path::new("/x")).unwrap_err();
        assert!(error.to_string().contains("rebase"), "{error}");
    }
}
