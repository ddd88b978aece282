//! `WorktreeService`.

use std::{collections::BTreeMap, pin::Pin};

use futures::Stream;
use prost::Message as _;
use tonic::{Request, Response, Status};
use worktree_engine::{
    ids::SorDir,
    lifecycle::State,
    provision::Base,
    sor::{ScaffoldCommands, ScaffoldFile, ScaffoldRequest},
};
use worktree_proto::v1::{
    self, provision_worktree_request::Base as WantedBase, worktree_service_server::WorktreeService,
};

use super::{
    Api,
    convert::{count, outcome, save, worktree},
    error::to_status,
    page, plain, request, respond,
};
use crate::lifecycle::{
    Diff, Error, Guards, Lifecycle, ProvisionOutcome, ProvisionWish, RemoveWish, Result,
    ResumeOutcome,
};

type Stream_<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl WorktreeService for Api {
    type GetDiffStream = Stream_<v1::GetDiffResponse>;

    async fn provision_worktree(
        &self,
        request: Request<v1::ProvisionWorktreeRequest>,
    ) -> Result<Response<v1::ProvisionWorktreeResponse>, Status> {
        let (_, extensions, message) = request.into_parts();
        let answer = async {
            let call = request::call(
                &extensions,
                "worktree.v1.WorktreeService/ProvisionWorktree",
                &message.request_id,
                &message,
                |outcome| provisioned(outcome).encode_to_vec(),
            )?;
            self.lifecycle.provision(call, wish(message)?).await
        };
        respond(answer.await, provisioned)
    }

    async fn get_worktree(
        &self,
        request: Request<v1::GetWorktreeRequest>,
    ) -> Result<Response<v1::GetWorktreeResponse>, Status> {
        let answer = async {
            let row = match request.into_inner().name {
                Some(v1::get_worktree_request::Name::Key(key)) => {
                    self.lifecycle.find(&request::key(Some(key))?).await?
                }
                Some(v1::get_worktree_request::Name::Id(id)) => {
                    let id = Lifecycle::parse_id(&id)
                        .ok_or_else(|| Error::invalid("id", "must be a UUID"))?;
                    self.lifecycle.find_id(id).await?
                }
                None => return Err(Error::invalid("name", "is required: a key or an id")),
            };
            Ok(v1::GetWorktreeResponse {
                worktree: Some(worktree::worktree(&row)),
            })
        };
        plain(answer.await)
    }

    async fn list_worktrees(
        &self,
        request: Request<v1::ListWorktreesRequest>,
    ) -> Result<Response<v1::ListWorktreesResponse>, Status> {
        plain(self.list(request.into_inner()).await)
    }

    async fn checkpoint_worktree(
        &self,
        request: Request<v1::CheckpointWorktreeRequest>,
    ) -> Result<Response<v1::CheckpointWorktreeResponse>, Status> {
        let (_, extensions, message) = request.into_parts();
        let answer = async {
            let call = request::call(
                &extensions,
                "worktree.v1.WorktreeService/CheckpointWorktree",
                &message.request_id,
                &message,
                |outcome| outcome::checkpointed(outcome).encode_to_vec(),
            )?;
            request::at_most("message", &message.message, request::TEXT_CHARS)?;
            let guards = guards(message.lease_epoch, message.etag)?;
            let key = request::key(message.key)?;
            self.lifecycle
                .checkpoint(call, key, guards, message.message)
                .await
        };
        respond(answer.await, outcome::checkpointed)
    }

    async fn pause_worktree(
        &self,
        request: Request<v1::PauseWorktreeRequest>,
    ) -> Result<Response<v1::PauseWorktreeResponse>, Status> {
        let (_, extensions, message) = request.into_parts();
        let answer = async {
            let call = request::call(
                &extensions,
                "worktree.v1.WorktreeService/PauseWorktree",
                &message.request_id,
                &message,
                |outcome| outcome::paused(outcome).encode_to_vec(),
            )?;
            let mode = v1::SaveMode::try_from(message.save)
                .map_err(|_| Error::invalid("save", "is not a known way to save"))?;
            let guards = guards(message.lease_epoch, message.etag)?;
            let key = request::key(message.key)?;
            let mode = save::save_mode(mode);
            self.lifecycle
                .pause(call, key, guards, mode, message.force)
                .await
        };
        respond(answer.await, outcome::paused)
    }

    async fn resume_worktree(
        &self,
        request: Request<v1::ResumeWorktreeRequest>,
    ) -> Result<Response<v1::ResumeWorktreeResponse>, Status> {
        let (_, extensions, message) = request.into_parts();
        let answer = async {
            let call = request::call(
                &extensions,
                "worktree.v1.WorktreeService/ResumeWorktree",
                &message.request_id,
                &message,
                |outcome| resumed(outcome).encode_to_vec(),
            )?;
            let key = request::key(message.key)?;
            self.lifecycle.resume(call, key).await
        };
        respond(answer.await, resumed)
    }

    async fn complete_worktree(
        &self,
        request: Request<v1::CompleteWorktreeRequest>,
    ) -> Result<Response<v1::CompleteWorktreeResponse>, Status> {
        let (_, extensions, message) = request.into_parts();
        let answer = async {
            let call = request::call(
                &extensions,
                "worktree.v1.WorktreeService/CompleteWorktree",
                &message.request_id,
                &message,
                |outcome| outcome::completed(outcome).encode_to_vec(),
            )?;
            let guards = guards(message.lease_epoch, message.etag)?;
            let key = request::key(message.key)?;
            self.lifecycle
                .complete(call, key, guards, message.force)
                .await
        };
        respond(answer.await, outcome::completed)
    }

    async fn remove_worktree(
        &self,
        request: Request<v1::RemoveWorktreeRequest>,
    ) -> Result<Response<v1::RemoveWorktreeResponse>, Status> {
        let (_, extensions, message) = request.into_parts();
        let answer = async {
            let call = request::call(
                &extensions,
                "worktree.v1.WorktreeService/RemoveWorktree",
                &message.request_id,
                &message,
                |outcome| outcome::removed(outcome).encode_to_vec(),
            )?;
            let guards = guards(message.lease_epoch, message.etag)?;
            let key = request::key(message.key)?;
            let wish = RemoveWish {
                discard_changes: message.discard_changes,
                keep_branch: message.keep_branch,
                complete_task: message.complete_task,
            };
            self.lifecycle.remove(call, key, guards, wish).await
        };
        respond(answer.await, outcome::removed)
    }

    async fn get_diff(
        &self,
        request: Request<v1::GetDiffRequest>,
    ) -> Result<Response<Self::GetDiffStream>, Status> {
        let message = request.into_inner();
        let answer = async {
            let key = request::key(message.key)?;
            let (sor, patch) = (message.include_sor, message.include_patch);
            self.lifecycle.diff(&key, sor, patch).await
        };
        plain(answer.await.map(diff_stream))
    }

    async fn get_scaffold(
        &self,
        request: Request<v1::GetScaffoldRequest>,
    ) -> Result<Response<v1::GetScaffoldResponse>, Status> {
        let answer = async {
            let key = request::key(request.into_inner().key)?;
            let files = self.lifecycle.scaffold(&key).await?;
            Ok(v1::GetScaffoldResponse {
                files: files.into_iter().map(scaffold_file).collect(),
            })
        };
        plain(answer.await)
    }

    async fn list_branches(
        &self,
        request: Request<v1::ListBranchesRequest>,
    ) -> Result<Response<v1::ListBranchesResponse>, Status> {
        plain(self.branches(request.into_inner()).await)
    }
}

impl Api {
    async fn list(&self, message: v1::ListWorktreesRequest) -> Result<v1::ListWorktreesResponse> {
        let size = request::page_size(message.page_size, self.limits())?;
        let states = message
            .states
            .iter()
            .enumerate()
            .map(|(index, number)| {
                worktree::state_from(*number)
                    .ok_or_else(|| Error::invalid(format!("states[{index}]"), "is not a state"))
            })
            .collect::<Result<Vec<State>>>()?;
        let query = format!("worktrees {} {:?}", message.repo, message.states);
        let after = match page::cursor(&query, &message.page_token)? {
            Some(cursor) => Some(Lifecycle::parse_id(&cursor).ok_or(Error::PageTokenInvalid)?),
            None => None,
        };
        let mut rows = self
            .lifecycle
            .list_worktrees(&message.repo, states, after, size + 1)
            .await?;
        let more = rows.len() > size;
        rows.truncate(size);
        let next = rows.last().filter(|_| more);
        Ok(v1::ListWorktreesResponse {
            next_page_token: next
                .map(|row| page::token(&query, &row.id().to_string()))
                .unwrap_or_default(),
            worktrees: rows.iter().map(worktree::worktree).collect(),
        })
    }

    async fn branches(&self, message: v1::ListBranchesRequest) -> Result<v1::ListBranchesResponse> {
        let size = request::page_size(message.page_size, self.limits())?;
        let repo = request::repo("repo", message.repo)?;
        let query = format!("branches {repo}");
        let after = page::cursor(&query, &message.page_token)?;
        let (mut branches, rows, current) = self.lifecycle.list_branches(&repo).await?;
        branches.sort_by(|a, b| a.name.cmp(&b.name));
        // Names are bytes and tokens are text: the cursor is the name in hexadecimal.
        let hex = |name: &[u8]| name.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let mut page: Vec<_> = branches
            .into_iter()
            .filter(|branch| {
                after
                    .as_ref()
                    .is_none_or(|after| hex(&branch.name) > *after)
            })
            .take(size + 1)
            .collect();
        let more = page.len() > size;
        page.truncate(size);
        let prefix = format!("{}/task-", self.lifecycle.engine.config().namespace);
        let show = |branch: &worktree_engine::branches::Branch| {
            let name = String::from_utf8_lossy(&branch.name).into_owned();
            let row = rows.iter().find(|row| row.checkout.branch.as_str() == name);
            let task_id = row
                .map(|row| row.task_id().to_string())
                .or_else(|| name.strip_prefix(&prefix).map(ToOwned::to_owned));
            v1::Branch {
                head: branch.tip.to_string(),
                commit_time: branch
                    .commit_time
                    .map(|seconds| prost_types::Timestamp { seconds, nanos: 0 }),
                current: current.as_deref() == Some(&*name),
                owned: row.is_some() || name.starts_with(&prefix),
                task_id: task_id.unwrap_or_default(),
                checked_out_path: branch
                    .checked_out_at
                    .as_ref()
                    .map(|path| path.to_string_lossy().into_owned())
                    .unwrap_or_default(),
                name,
            }
        };
        Ok(v1::ListBranchesResponse {
            next_page_token: page
                .last()
                .filter(|_| more)
                .map(|branch| page::token(&query, &hex(&branch.name)))
                .unwrap_or_default(),
            branches: page.iter().map(show).collect(),
        })
    }
}

fn guards(epoch: i64, etag: String) -> Result<Guards> {
    Ok(Guards {
        epoch: request::epoch(epoch)?,
        etag,
    })
}

fn wish(message: v1::ProvisionWorktreeRequest) -> Result<ProvisionWish> {
    let key = request::key(message.key)?;
    request::at_most("kind", &message.kind, 64)?;
    let isolation = worktree::isolation_name(message.isolation)
        .ok_or_else(|| Error::invalid("isolation", "is not a known isolation"))?;
    request::at_most("display_name", &message.display_name, request::NAME_CHARS)?;
    let sor_dir: SorDir = message
        .sor_dir
        .parse()
        .map_err(|invalid| Error::invalid_id("sor_dir", &invalid))?;
    let owner = match message.owner {
        Some(owner) => {
            request::at_most("owner.kind", &owner.kind, request::NAME_CHARS)?;
            request::at_most("owner.id", &owner.id, request::NAME_CHARS)?;
            Some((owner.kind, owner.id))
        }
        None => None,
    };
    Ok(ProvisionWish {
        key,
        kind: message.kind,
        isolation,
        base: base(message.base)?,
        scaffold: scaffold(message.scaffold.unwrap_or_default()),
        sor_dir,
        labels: labels(message.labels.into_iter().collect())?,
        owner,
        display_name: message.display_name,
    })
}

fn base(base: Option<WantedBase>) -> Result<Base> {
    match base {
        None => Ok(Base::Head),
        Some(WantedBase::BaseSha(sha)) => sha
            .parse()
            .map(Base::Sha)
            .map_err(|invalid| Error::invalid_id("base_sha", &invalid)),
        Some(WantedBase::BaseRef(name)) => {
            if name.is_empty() || name.len() > 1024 {
                return Err(Error::invalid("base_ref", "must have 1 to 1,024 bytes"));
            }
            if name.starts_with('-') || name.contains(char::is_control) {
                return Err(Error::invalid("base_ref", "is not the name of a ref"));
            }
            Ok(Base::Ref(name))
        }
        Some(WantedBase::BasePolicy(number)) => match v1::BasePolicy::try_from(number) {
            Ok(v1::BasePolicy::Unspecified | v1::BasePolicy::Head) => Ok(Base::Head),
            Ok(v1::BasePolicy::Fresh) => Err(Error::NotImplemented {
                feature: "base policy FRESH",
            }),
            Err(_) => Err(Error::invalid("base_policy", "is not a known policy")),
        },
    }
}

fn scaffold(scaffold: v1::Scaffold) -> ScaffoldRequest {
    let commands = scaffold.commands.unwrap_or_default();
    ScaffoldRequest {
        title: scaffold.title,
        description: scaffold.description,
        acceptance_criteria: scaffold.acceptance_criteria,
        known_gotchas: scaffold.known_gotchas,
        commands: ScaffoldCommands {
            install: commands.install,
            verify: commands.verify,
            start: commands.start,
        },
        team_name: scaffold.team_name,
    }
}

fn labels(labels: BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    if labels.len() > 64 {
        return Err(Error::invalid("labels", "must be at most 64"));
    }
    for (key, value) in &labels {
        if key.is_empty() {
            return Err(Error::invalid("labels", "must not have an empty key"));
        }
        request::at_most("labels", key, 63)?;
        request::at_most("labels", value, 256)?;
    }
    Ok(labels)
}

fn provisioned(outcome: &ProvisionOutcome) -> v1::ProvisionWorktreeResponse {
    v1::ProvisionWorktreeResponse {
        worktree: Some(worktree::worktree(&outcome.row)),
        created: outcome.created,
        warnings: save::warnings(&outcome.warnings),
    }
}

fn resumed(outcome: &ResumeOutcome) -> v1::ResumeWorktreeResponse {
    v1::ResumeWorktreeResponse {
        worktree: Some(worktree::worktree(&outcome.row)),
        warnings: save::warnings(&outcome.warnings),
    }
}

fn scaffold_file(file: ScaffoldFile) -> v1::ScaffoldFile {
    v1::ScaffoldFile {
        name: file.name,
        content: file.content,
        mode: file.mode,
        size_bytes: count(file.size_bytes),
        truncated: file.truncated,
        modify_time: file.modified.map(prost_types::Timestamp::from),
    }
}

fn diff_stream(diff: Diff) -> Stream_<v1::GetDiffResponse> {
    use futures::{StreamExt as _, stream};
    use v1::get_diff_response::Part;
    let part = |part| v1::GetDiffResponse { part: Some(part) };
    let first = part(Part::DiffStat(save::diff_stat(&diff.stat)));
    let pieces = stream::unfold(diff.patch, |patch| async {
        let mut patch = patch?;
        let piece = patch.recv().await?;
        Some((piece, Some(patch)))
    });
    let pieces = pieces.map(move |piece| match piece {
        Ok(bytes) => Ok(part(Part::PatchChunk(bytes))),
        Err(error) => Err(to_status(&Error::Internal(format!(
            "the patch cannot be read: {error}"
        )))),
    });
    Box::pin(stream::iter([Ok(first)]).chain(pieces))
}
