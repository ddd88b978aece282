//! A task of a repository, with the calls that a runner makes on it.

use std::path::{Path, PathBuf};

use worktreed_client::{
    Client, Code, Error,
    proto::{self as v1, ErrorReason, WorktreeKey, WorktreeState},
};

/// A worktree by its key.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) client: Client,
    pub(crate) key: WorktreeKey,
}

type Answer<T> = Result<T, Error>;

impl Task {
    pub(crate) fn new(client: &Client, repo: &Path, task_id: &str) -> Self {
        let key = WorktreeKey {
            repo: repo.to_str().unwrap().to_owned(),
            task_id: task_id.to_owned(),
        };
        Self {
            client: client.clone(),
            key,
        }
    }

    /// The same task, asked for over another connection.
    pub(crate) fn by(&self, client: &Client) -> Self {
        Self {
            client: client.clone(),
            key: self.key.clone(),
        }
    }

    fn key(&self) -> Option<WorktreeKey> {
        Some(self.key.clone())
    }

    pub(crate) fn provision_request(&self) -> v1::ProvisionWorktreeRequest {
        v1::ProvisionWorktreeRequest {
            key: self.key(),
            ..Default::default()
        }
    }

    /// Makes the worktree, and expects that it is made.
    pub(crate) async fn provision(&self) -> v1::Worktree {
        let answer = self.try_provision(|_| {}).await.unwrap();
        assert!(answer.created, "it was there already");
        answer.worktree.unwrap()
    }

    pub(crate) async fn try_provision(
        &self,
        change: impl FnOnce(&mut v1::ProvisionWorktreeRequest),
    ) -> Answer<v1::ProvisionWorktreeResponse> {
        let mut request = self.provision_request();
        change(&mut request);
        self.client.provision_worktree(request).await
    }

    pub(crate) async fn get(&self) -> v1::Worktree {
        self.try_get().await.unwrap()
    }

    pub(crate) async fn try_get(&self) -> Answer<v1::Worktree> {
        let name = self.key().map(v1::get_worktree_request::Name::Key);
        let answer = self
            .client
            .get_worktree(v1::GetWorktreeRequest { name })
            .await?;
        Ok(answer.worktree.unwrap())
    }

    /// Clocks in for a minute.
    pub(crate) async fn acquire(&self, holder: &str) -> Answer<v1::AcquireLeaseResponse> {
        self.acquire_with(holder, |_| {}).await
    }

    pub(crate) async fn acquire_with(
        &self,
        holder: &str,
        change: impl FnOnce(&mut v1::AcquireLeaseRequest),
    ) -> Answer<v1::AcquireLeaseResponse> {
        let mut request = v1::AcquireLeaseRequest {
            key: self.key(),
            holder: holder.to_owned(),
            runtime: "codex".to_owned(),
            ..Default::default()
        };
        change(&mut request);
        self.client.acquire_lease(request).await
    }

    /// Clocks in and returns the epoch.
    pub(crate) async fn clock_in(&self, holder: &str) -> i64 {
        self.acquire(holder).await.unwrap().lease.unwrap().epoch
    }

    pub(crate) async fn renew(&self, lease_epoch: i64) -> Answer<v1::RenewLeaseResponse> {
        self.client
            .renew_lease(v1::RenewLeaseRequest {
                key: self.key(),
                lease_epoch,
                ttl: None,
            })
            .await
    }

    pub(crate) async fn release(&self, lease_epoch: i64) -> Answer<v1::Worktree> {
        let answer = self
            .client
            .release_lease(v1::ReleaseLeaseRequest {
                key: self.key(),
                lease_epoch,
            })
            .await?;
        Ok(answer.worktree.unwrap())
    }

    pub(crate) async fn checkpoint(
        &self,
        lease_epoch: i64,
    ) -> Answer<v1::CheckpointWorktreeResponse> {
        self.client
            .checkpoint_worktree(v1::CheckpointWorktreeRequest {
                key: self.key(),
                lease_epoch,
                ..Default::default()
            })
            .await
    }

    pub(crate) async fn pause(&self, lease_epoch: i64) -> Answer<v1::PauseWorktreeResponse> {
        self.pause_with(|request| request.lease_epoch = lease_epoch)
            .await
    }

    pub(crate) async fn pause_with(
        &self,
        change: impl FnOnce(&mut v1::PauseWorktreeRequest),
    ) -> Answer<v1::PauseWorktreeResponse> {
        let mut request = v1::PauseWorktreeRequest {
            key: self.key(),
            ..Default::default()
        };
        change(&mut request);
        self.client.pause_worktree(request).await
    }

    pub(crate) async fn resume(&self) -> Answer<v1::Worktree> {
        let answer = self
            .client
            .resume_worktree(v1::ResumeWorktreeRequest {
                key: self.key(),
                ..Default::default()
            })
            .await?;
        Ok(answer.worktree.unwrap())
    }

    pub(crate) async fn complete(&self, lease_epoch: i64) -> Answer<v1::CompleteWorktreeResponse> {
        self.complete_with(|request| request.lease_epoch = lease_epoch)
            .await
    }

    pub(crate) async fn complete_with(
        &self,
        change: impl FnOnce(&mut v1::CompleteWorktreeRequest),
    ) -> Answer<v1::CompleteWorktreeResponse> {
        let mut request = v1::CompleteWorktreeRequest {
            key: self.key(),
            ..Default::default()
        };
        change(&mut request);
        self.client.complete_worktree(request).await
    }

    pub(crate) async fn remove_with(
        &self,
        change: impl FnOnce(&mut v1::RemoveWorktreeRequest),
    ) -> Answer<v1::RemoveWorktreeResponse> {
        let mut request = v1::RemoveWorktreeRequest {
            key: self.key(),
            ..Default::default()
        };
        change(&mut request);
        self.client.remove_worktree(request).await
    }

    pub(crate) async fn write_handoff(
        &self,
        lease_epoch: i64,
        handoff: v1::Handoff,
    ) -> Answer<v1::WriteHandoffResponse> {
        let request = v1::WriteHandoffRequest {
            key: self.key(),
            lease_epoch,
            handoff: Some(handoff),
            ..Default::default()
        };
        self.client.write_handoff(request).await
    }

    pub(crate) async fn get_handoff(&self) -> Answer<v1::GetHandoffResponse> {
        self.client
            .get_handoff(v1::GetHandoffRequest { key: self.key() })
            .await
    }

    pub(crate) async fn handoffs(&self) -> Vec<v1::HandoffEntry> {
        self.client
            .list_handoffs(v1::ListHandoffsRequest {
                key: self.key(),
                ..Default::default()
            })
            .await
            .unwrap()
            .entries
    }

    pub(crate) async fn resume_state(&self, runtime: &str) -> Answer<v1::ResumeState> {
        let request = v1::GetResumeStateRequest {
            key: self.key(),
            runtime: runtime.to_owned(),
        };
        Ok(self
            .client
            .get_resume_state(request)
            .await?
            .resume_state
            .unwrap())
    }

    pub(crate) async fn scaffold(&self) -> Answer<Vec<v1::ScaffoldFile>> {
        Ok(self
            .client
            .get_scaffold(v1::GetScaffoldRequest { key: self.key() })
            .await?
            .files)
    }

    pub(crate) async fn diff_stat(&self) -> Answer<v1::DiffStat> {
        Ok(self.diff(false, false).await?.0)
    }

    /// The size of the work and its patch.
    pub(crate) async fn diff(
        &self,
        include_patch: bool,
        include_sor: bool,
    ) -> Answer<(v1::DiffStat, Vec<u8>)> {
        use v1::get_diff_response::Part;
        let request = v1::GetDiffRequest {
            key: self.key(),
            include_patch,
            include_sor,
        };
        let mut parts = self.client.get_diff(request).await?;
        let (mut stat, mut patch) = (None, Vec::new());
        while let Some(message) = parts.message().await? {
            match message.part.unwrap() {
                Part::DiffStat(one) => {
                    assert!(
                        stat.is_none() && patch.is_empty(),
                        "the size comes first, and once"
                    );
                    stat = Some(one);
                }
                Part::PatchChunk(chunk) => patch.extend(chunk),
            }
        }
        Ok((stat.unwrap(), patch))
    }

    pub(crate) async fn review(
        &self,
        reviewer: &str,
        change: impl FnOnce(&mut v1::CreateReviewRequest),
    ) -> Answer<v1::CreateReviewResponse> {
        let mut request = v1::CreateReviewRequest {
            key: self.key(),
            reviewer: reviewer.to_owned(),
            ..Default::default()
        };
        change(&mut request);
        self.client.create_review(request).await
    }
}

/// A path in a worktree.
pub(crate) fn at(worktree: &v1::Worktree, name: &str) -> PathBuf {
    Path::new(&worktree.path).join(name)
}

/// A handoff with the least that is required.
pub(crate) fn handoff(next: &str) -> v1::Handoff {
    v1::Handoff {
        handoff_from: "agent-a".to_owned(),
        runtime: "codex".to_owned(),
        next_best_step: next.to_owned(),
        ..Default::default()
    }
}

/// Expects a refusal of this code and reason, and returns it.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(
    answer: Result<T, Error>,
    code: Code,
    reason: ErrorReason,
) -> Error {
    let error = answer.expect_err("it was expected to be refused");
    let seen = (error.code(), error.reason());
    assert_eq!(seen, (code, Some(reason)), "{error} {:?}", error.metadata());
    assert!(
        !error.message().is_empty(),
        "{reason:?} says nothing to people"
    );
    error
}

/// Expects `INVALID_FIELD` that names the field.
#[track_caller]
pub(crate) fn refused_field<T: std::fmt::Debug>(answer: Result<T, Error>, field: &str) -> Error {
    let error = refused(answer, Code::InvalidArgument, ErrorReason::InvalidField);
    let fields: Vec<_> = error
        .field_violations()
        .iter()
        .map(|violation| violation.field.as_str())
        .collect();
    assert!(fields.contains(&field), "{field} is not among {fields:?}");
    error
}

#[track_caller]
pub(crate) fn assert_state(worktree: &v1::Worktree, state: WorktreeState) {
    assert_eq!(worktree.state(), state, "{worktree:?}");
}

/// A value of an error's metadata.
#[track_caller]
pub(crate) fn metadata<'a>(error: &'a Error, name: &str) -> &'a str {
    error
        .metadata()
        .get(name)
        .unwrap_or_else(|| panic!("no {name} in {:?}", error.metadata()))
}
