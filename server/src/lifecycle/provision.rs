//! Making the worktree of a task, or answering the one that it has.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use worktree_engine::{
    Error as EngineError,
    ids::{SorDir, WorktreeId, branch_name_for_task},
    lifecycle::{Operation, State, isolation_for_task, needs_worktree},
    model::{DropPlan, Warning},
    provision::{Base, ProvisionRequest},
    repository::{Located, Repository},
    sor::ScaffoldRequest,
};
use worktree_proto::v1::{EventKind, ProvisionedDetail, event::Detail};

use super::{
    Answer, Call, Error, Key, Lifecycle, Result, begin::Intent, event, lookup::Held,
    repository::path_text,
};
use crate::{
    api::convert::save,
    registry::{Change, JournalChange, Origin, RepositoryRow, WorktreeRow},
};

/// A wish for a worktree.
#[derive(Debug, Clone)]
pub(crate) struct ProvisionWish {
    /// The repository and the task.
    pub(crate) key: Key,
    /// The task's kind; may be empty.
    pub(crate) kind: String,
    /// The isolation's name; may be empty.
    pub(crate) isolation: &'static str,
    /// What the branch is cut from.
    pub(crate) base: Base,
    /// What goes into the system of record.
    pub(crate) scaffold: ScaffoldRequest,
    /// Where that lives.
    pub(crate) sor_dir: SorDir,
    /// Labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Kind and id of the owner.
    pub(crate) owner: Option<(String, String)>,
    /// A name for people; may be empty.
    pub(crate) display_name: String,
}

/// The worktree of the task.
#[derive(Debug)]
pub(crate) struct ProvisionOutcome {
    /// Its row.
    pub(crate) row: WorktreeRow,
    /// Whether it was made just now.
    pub(crate) created: bool,
    /// What the caller should know.
    pub(crate) warnings: Vec<Warning>,
}

impl Lifecycle {
    /// Makes the worktree of a task, or answers the one that it has.
    pub(crate) async fn provision(
        self: &Arc<Self>,
        call: Call<ProvisionOutcome>,
        wish: ProvisionWish,
    ) -> Result<Answer<ProvisionOutcome>> {
        self.mutate(call, move |this, call| async move {
            Box::pin(this.provision_now(call, wish)).await
        })
        .await
    }

    async fn provision_now(
        &self,
        call: Call<ProvisionOutcome>,
        wish: ProvisionWish,
    ) -> Result<ProvisionOutcome> {
        refuse_unwanted(&wish)?;
        let located = self.locate(&wish.key.repo).await?;
        let stored = self.repository_row(&located).await?;
        if let Some(stored) = &stored {
            let lock = self.lock(&stored.repo_id, wish.key.task.as_str()).await?;
            if let Some(row) = self.registry.live(&stored.repo_id, &wish.key.task).await? {
                let row = self.end_expired_lease(row).await?;
                return self.repeat(call, wish, located, Held { row, lock }).await;
            }
        }
        let repository = self.open(&located).await?;
        let stored = match stored {
            Some(stored) => stored,
            None => first_sight(&repository)?,
        };
        // Taken anew: what is seen from here on cannot change before the row is reserved.
        let lock = self.lock(&stored.repo_id, wish.key.task.as_str()).await?;
        if let Some(row) = self.registry.live(&stored.repo_id, &wish.key.task).await? {
            return self.repeat(call, wish, located, Held { row, lock }).await;
        }
        let outcome = self.make(&call, wish, located, repository, stored).await;
        drop(lock);
        outcome
    }

    async fn make(
        &self,
        call: &Call<ProvisionOutcome>,
        wish: ProvisionWish,
        located: Located,
        repository: Repository,
        stored: RepositoryRow,
    ) -> Result<ProvisionOutcome> {
        let namespace = &self.engine.config().namespace;
        let branch = branch_name_for_task(namespace, &wish.key.task);
        let known = self
            .registry
            .branch_owner(&stored.repo_id, &wish.key.task, branch.as_str())
            .await?;
        let request = ProvisionRequest {
            id: WorktreeId::new(),
            task_id: wish.key.task.clone(),
            repo_id: stored.repo_id.clone(),
            kind: wish.kind.clone(),
            isolation: wish.isolation.to_owned(),
            base: wish.base.clone(),
            scaffold: wish.scaffold.clone(),
            sor_dir: wish.sor_dir.clone(),
            known_branch: known.map(|row| row.checkout),
        };
        let reattached = request.known_branch.clone();
        let (repository, plan) = self
            .block(move |engine| {
                let plan = engine.plan_provision(&repository, &request)?;
                Ok((repository, plan))
            })
            .await?;
        let mut row = self.new_row(&wish, &stored, plan.checkout.clone());
        row.base_ref = base_name(&wish.base, &located.git_dir);
        let intent = Intent::new(Operation::Provision, State::Failed, State::Failed);
        let running = self
            .begin(
                row,
                intent,
                Some(EventKind::ProvisionStarted),
                Some(stored),
                &call.trace_id,
            )
            .await?;
        let mut warnings = plan.warnings.clone();
        let unexpected = |_: DropPlan| Err(EngineError::Internal("a provision dropped".to_owned()));
        let made = self
            .work(
                &running,
                Some(EventKind::ProvisionFailed),
                unexpected,
                move |engine, journal| Ok(Ok(engine.provision(&repository, &plan, journal)?)),
            )
            .await??;
        warnings.extend(made.warnings);
        let mut row = running.row.clone();
        row.checkout = made.checkout;
        row.head = Some(made.head);
        row.head_time = Some(Self::now().as_second());
        row.state = State::Provisioned;
        row.pending_operation = None;
        row.owns_branch = true;
        touch(&mut row);
        let detail = Detail::Provisioned(ProvisionedDetail {
            warnings: save::warnings(&warnings),
            branch_reattached: reattached
                .is_some_and(|known| known.base_commit == row.checkout.base_commit),
        });
        let outcome = ProvisionOutcome {
            row: row.as_committed(),
            created: true,
            warnings,
        };
        let change = Change {
            events: vec![event::about(
                EventKind::Provisioned,
                &row,
                Some(detail),
                &call.trace_id,
            )],
            journal: JournalChange::End(running.id),
            reply: call.reply(&outcome),
            rows: vec![row],
            ..Change::default()
        };
        self.registry.commit(change).await?;
        Ok(outcome)
    }

    /// Answers the worktree that the task has: as it is, or resumed.
    async fn repeat(
        &self,
        call: Call<ProvisionOutcome>,
        wish: ProvisionWish,
        located: Located,
        held: Held,
    ) -> Result<ProvisionOutcome> {
        let Held { row, lock } = held;
        let mut warnings = Vec::new();
        if let Some(base) = self.other_base(&wish.base, &located, &row).await? {
            warnings.push(Warning::new(
                "BASE_MISMATCH",
                format!(
                    "the worktree was cut from {}, not from {base}; it was left as it is",
                    row.checkout.base_sha
                ),
            ));
        }
        let row = match row.state {
            State::Provisioning | State::Completing => {
                return Err(Error::Busy {
                    what: format!("the worktree of task {}", row.task_id()),
                });
            }
            State::Paused | State::Reaped => {
                let resumed = self.rebuild_held(row, &call.trace_id).await?;
                warnings.extend(resumed.warnings);
                resumed.row
            }
            _ => row,
        };
        let outcome = ProvisionOutcome {
            row,
            created: false,
            warnings,
        };
        if let Some(reply) = call.reply(&outcome) {
            let change = Change {
                reply: Some(reply),
                ..Change::default()
            };
            self.registry.commit(change).await?;
        }
        drop(lock);
        Ok(outcome)
    }

    /// The base asked for, where it is another than the worktree's.
    async fn other_base(
        &self,
        base: &Base,
        located: &Located,
        row: &WorktreeRow,
    ) -> Result<Option<String>> {
        let wanted = match base {
            Base::Head => return Ok(None),
            Base::Ref(name) if *name == row.base_ref => return Ok(None),
            Base::Sha(sha) => sha.clone(),
            Base::Ref(_) => {
                let repository = self.open(located).await?;
                let base = base.clone();
                self.block(move |engine| engine.resolve_base(&repository, &base))
                    .await?
            }
        };
        Ok((wanted != row.checkout.base_sha).then(|| wanted.to_string()))
    }

    fn new_row(
        &self,
        wish: &ProvisionWish,
        stored: &RepositoryRow,
        checkout: worktree_engine::model::Checkout,
    ) -> WorktreeRow {
        let now = Self::now();
        let kind = if wish.kind.is_empty() {
            "code".to_owned()
        } else {
            wish.kind.clone()
        };
        let named = [&wish.display_name, &wish.scaffold.title]
            .into_iter()
            .find(|name| !name.is_empty());
        WorktreeRow {
            repo: stored.path.clone(),
            repo_id: stored.repo_id.clone(),
            display_name: named
                .cloned()
                .unwrap_or_else(|| wish.key.task.to_string())
                .split(['\r', '\n'])
                .collect::<Vec<_>>()
                .join(" "),
            base_ref: String::new(),
            head: None,
            head_time: None,
            state: State::Provisioning,
            pending_operation: None,
            isolation: isolation_for_task(&kind).to_owned(),
            kind,
            origin: Origin::Created,
            owner: wish.owner.clone(),
            labels: wish.labels.clone(),
            host_id: self.settings.host_id.clone(),
            version: 0,
            create_time: now,
            update_time: now,
            last_active_time: now,
            lease: None,
            last_epoch: 0,
            restore: None,
            task_completed: false,
            owns_branch: false,
            checkout,
        }
    }
}

/// Somebody worked: moves both times.
pub(crate) fn touch(row: &mut WorktreeRow) {
    row.update_time = Lifecycle::now();
    row.last_active_time = row.update_time;
}

fn refuse_unwanted(wish: &ProvisionWish) -> Result<()> {
    if !needs_worktree(&wish.kind) {
        return Err(EngineError::TaskNeedsNoWorktree {
            kind: wish.kind.clone(),
        }
        .into());
    }
    if !matches!(wish.isolation, "" | "worktree") {
        return Err(EngineError::IsolationNotProvisioned {
            isolation: wish.isolation.to_owned(),
        }
        .into());
    }
    Ok(worktree_engine::sor::validate(&wish.scaffold)?)
}

fn first_sight(repository: &Repository) -> Result<RepositoryRow> {
    Ok(RepositoryRow {
        repo_id: repository.repo_id(),
        common_dir: path_text(&repository.common_dir)?,
        path: repository.path.to_string_lossy().into_owned(),
        origin_url: repository.origin_url.clone(),
    })
}

/// The base as it was given, or the branch that HEAD was on.
fn base_name(base: &Base, git_dir: &Path) -> String {
    match base {
        Base::Ref(name) => name.clone(),
        Base::Sha(_) => String::new(),
        Base::Head => std::fs::read_to_string(git_dir.join("HEAD"))
            .ok()
            .and_then(|head| {
                let branch = head.trim_end().strip_prefix("ref: refs/heads/")?;
                Some(branch.to_owned())
            })
            .unwrap_or_default(),
    }
}
