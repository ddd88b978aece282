//! Which repositories may be reached, and how a caller's spelling leads to one.

use std::path::{Path, PathBuf};

use worktree_engine::repository::{Located, Repository, locate};

use super::{Error, Lifecycle, Result};
use crate::registry::RepositoryRow;

impl Lifecycle {
    /// Finds the repository that `repo` names, if it is allowed. Starts no process.
    pub(crate) async fn locate(&self, repo: &str) -> Result<Located> {
        let settings = self.settings.clone();
        let repo = repo.to_owned();
        self.block(move |_| Ok(resolve(&repo, &settings))).await?
    }

    /// Opens it for an operation that will touch it: one git process.
    pub(crate) async fn open(&self, located: &Located) -> Result<Repository> {
        let path = located.path.clone();
        self.block(move |engine| engine.open_repository(&path))
            .await
    }

    /// The stored row of a repository; none while nothing was made in it.
    pub(crate) async fn repository_row(&self, located: &Located) -> Result<Option<RepositoryRow>> {
        let common_dir = path_text(&located.common_dir)?;
        Ok(self.registry.repository(&common_dir).await?)
    }

    /// The id of the repository that `repo` names; none while nothing was made in it.
    pub(crate) async fn repo_id(&self, repo: &str) -> Result<Option<String>> {
        let located = self.locate(repo).await?;
        let row = self.repository_row(&located).await?;
        Ok(row.map(|row| row.repo_id))
    }
}

/// The path as the registry keys it. A name that is not UTF-8 is spelled so that no two are alike.
pub(crate) fn path_text(path: &Path) -> Result<String> {
    match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Ok(format!("{path:?}")),
    }
}

fn resolve(repo: &str, settings: &super::Settings) -> Result<Located> {
    let path = match settings.repositories.get(repo) {
        Some(path) => path.clone(),
        None if repo.starts_with('/') => PathBuf::from(repo),
        None => {
            return Err(Error::RepositoryUnknown {
                name: repo.to_owned(),
            });
        }
    };
    let refused = || Error::RepositoryNotAllowed {
        repo: repo.to_owned(),
        hint: hint(settings),
    };
    // What lies outside is refused before it is looked at: an answer must not tell what is there.
    let canonical = match std::fs::canonicalize(&path) {
        Ok(canonical) => canonical,
        Err(_) if is_allowed(&nearest_existing(&path), settings) => path.clone(),
        Err(_) => return Err(refused()),
    };
    if !is_allowed(&canonical, settings) {
        return Err(refused());
    }
    let located = locate(&path)?;
    if is_allowed(&located.path, settings) && is_allowed(&located.common_dir, settings) {
        Ok(located)
    } else {
        Err(refused())
    }
}

fn is_allowed(path: &Path, settings: &super::Settings) -> bool {
    settings
        .allow_roots
        .iter()
        .chain(settings.repositories.values())
        .any(|root| path.starts_with(root))
}

/// The nearest directory above a path that is missing, with every link resolved.
fn nearest_existing(path: &Path) -> PathBuf {
    path.ancestors()
        .find_map(|ancestor| std::fs::canonicalize(ancestor).ok())
        .unwrap_or_default()
}

fn hint(settings: &super::Settings) -> String {
    if settings.allow_roots.is_empty() && settings.repositories.is_empty() {
        "no repository is allowed yet; start the server with `--allow-root DIR`, a directory above it"
            .to_owned()
    } else {
        "it lies under none of the allowed directories; start the server with `--allow-root DIR` for one above it, or configure it by name"
            .to_owned()
    }
}
