//! `worktreectl worktree`.

use worktreed_client::proto::{
    BasePolicy, CheckpointWorktreeRequest, CompleteWorktreeRequest, GetDiffRequest,
    GetScaffoldRequest, GetWorktreeRequest, Isolation, ListBranchesRequest, ListBranchesResponse,
    ListWorktreesRequest, ListWorktreesResponse, PauseWorktreeRequest, ProvisionWorktreeRequest,
    RemoveWorktreeRequest, ResumeWorktreeRequest, SaveMode, Scaffold, ScaffoldCommands,
    ScaffoldFile, WorktreeKey, get_diff_response::Part, get_worktree_request::Name,
    provision_worktree_request::Base,
};

use crate::{
    args::{
        BaseArgs, BasePolicyName, BranchesArgs, CheckpointArgs, CompleteArgs, DiffArgs, GetArgs,
        IsolationName, ListWorktreesArgs, PauseArgs, ProvisionArgs, RemoveArgs, ResumeArgs,
        SaveName, ScaffoldArgs, ScaffoldFilesArgs, WorktreeCommand,
    },
    context::{Context, print},
    failure::Failure,
    progress::Bar,
    show,
    text::plain_lines,
};

pub(crate) async fn run(context: &Context, command: WorktreeCommand) -> Result<(), Failure> {
    match command {
        WorktreeCommand::Provision(arguments) => provision(context, *arguments).await,
        WorktreeCommand::Get(arguments) => get(context, arguments).await,
        WorktreeCommand::List(arguments) => list(context, arguments).await,
        WorktreeCommand::Checkpoint(arguments) => checkpoint(context, arguments).await,
        WorktreeCommand::Pause(arguments) => pause(context, arguments).await,
        WorktreeCommand::Resume(arguments) => resume(context, arguments).await,
        WorktreeCommand::Complete(arguments) => complete(context, arguments).await,
        WorktreeCommand::Remove(arguments) => remove(context, arguments).await,
        WorktreeCommand::Diff(arguments) => diff(context, arguments).await,
        WorktreeCommand::Scaffold(arguments) => scaffold(context, arguments).await,
        WorktreeCommand::Branches(arguments) => branches(context, arguments).await,
    }
}

async fn get(context: &Context, arguments: GetArgs) -> Result<(), Failure> {
    let name = match (arguments.id, arguments.task) {
        (Some(id), _) => Name::Id(id),
        (None, task) => Name::Key(WorktreeKey {
            repo: arguments.repo.resolve()?,
            task_id: task.unwrap_or_default(),
        }),
    };
    let answer = context
        .client
        .get_worktree(GetWorktreeRequest { name: Some(name) })
        .await?;
    context.show(&answer, |answer| {
        show::worktree_or_nothing(answer.worktree.as_ref())
    })
}

async fn checkpoint(context: &Context, arguments: CheckpointArgs) -> Result<(), Failure> {
    let request = CheckpointWorktreeRequest {
        key: Some(arguments.key.resolve()?),
        request_id: arguments.mutation.request_id,
        lease_epoch: arguments.mutation.epoch,
        etag: arguments.mutation.etag,
        message: arguments.message,
    };
    let answer = context.client.checkpoint_worktree(request).await?;
    context.warn(&answer.warnings);
    context.show(&answer, |answer| {
        show::save(
            &answer.head,
            answer.committed,
            &answer.recovery_point,
            &answer.not_saved,
        )
    })
}

async fn pause(context: &Context, arguments: PauseArgs) -> Result<(), Failure> {
    let save = match arguments.save {
        SaveName::Commit => SaveMode::Commit,
        SaveName::Snapshot => SaveMode::Snapshot,
    };
    let request = PauseWorktreeRequest {
        key: Some(arguments.key.resolve()?),
        request_id: arguments.mutation.request_id,
        lease_epoch: arguments.mutation.epoch,
        etag: arguments.mutation.etag,
        save: save.into(),
        force: arguments.force,
    };
    let answer = context.client.pause_worktree(request).await?;
    context.warn(&answer.warnings);
    context.show(&answer, |answer| {
        show::save(
            &answer.head,
            answer.committed,
            &answer.recovery_point,
            &answer.not_saved,
        )
    })
}

async fn resume(context: &Context, arguments: ResumeArgs) -> Result<(), Failure> {
    let key = arguments.key.resolve()?;
    let bar = Bar::follow(context, "resuming", &key);
    let request = ResumeWorktreeRequest {
        key: Some(key),
        request_id: arguments.request_id,
    };
    let answer = context.client.resume_worktree(request).await?;
    drop(bar);
    context.warn(&answer.warnings);
    context.show(&answer, |answer| {
        show::worktree_or_nothing(answer.worktree.as_ref())
    })
}

async fn complete(context: &Context, arguments: CompleteArgs) -> Result<(), Failure> {
    let request = CompleteWorktreeRequest {
        key: Some(arguments.key.resolve()?),
        request_id: arguments.mutation.request_id,
        lease_epoch: arguments.mutation.epoch,
        etag: arguments.mutation.etag,
        force: arguments.force,
    };
    let answer = context.client.complete_worktree(request).await?;
    context.warn(&answer.warnings);
    context.show(&answer, |answer| {
        let outcome = if answer.cleaned {
            "nothing changed: directory, registration and branch are gone"
        } else {
            "kept for review"
        };
        let stat = answer
            .diff_stat
            .as_ref()
            .map_or_else(String::new, show::diff_stat);
        format!(
            "{outcome}\n{stat}{}{}",
            recovery(&answer.recovery_point),
            show::not_saved(&answer.not_saved)
        )
    })
}

async fn remove(context: &Context, arguments: RemoveArgs) -> Result<(), Failure> {
    let request = RemoveWorktreeRequest {
        key: Some(arguments.key.resolve()?),
        request_id: arguments.mutation.request_id,
        lease_epoch: arguments.mutation.epoch,
        etag: arguments.mutation.etag,
        discard_changes: arguments.discard_changes,
        keep_branch: arguments.keep_branch,
        complete_task: arguments.complete_task,
    };
    let answer = context.client.remove_worktree(request).await?;
    context.warn(&answer.warnings);
    context.show(&answer, |answer| {
        format!(
            "removed\n{}{}",
            recovery(&answer.recovery_point),
            show::not_saved(&answer.not_saved)
        )
    })
}

async fn provision(context: &Context, arguments: ProvisionArgs) -> Result<(), Failure> {
    let key = arguments.key.resolve()?;
    let bar = Bar::follow(context, "provisioning", &key);
    let isolation = match arguments.isolation {
        None => Isolation::Unspecified,
        Some(IsolationName::None) => Isolation::None,
        Some(IsolationName::Worktree) => Isolation::Worktree,
        Some(IsolationName::Container) => Isolation::Container,
    };
    let request = ProvisionWorktreeRequest {
        key: Some(key),
        request_id: arguments.request_id,
        kind: arguments.kind,
        isolation: isolation.into(),
        base: base(arguments.base),
        scaffold: scaffold_of(arguments.scaffold),
        sor_dir: arguments.sor_dir,
        labels: arguments.labels.into_iter().collect(),
        owner: arguments.owner,
        display_name: arguments.display_name,
    };
    let answer = context.client.provision_worktree(request).await?;
    drop(bar);
    context.warn(&answer.warnings);
    context.show(&answer, |answer| {
        let created = if answer.created {
            "created"
        } else {
            "there already, left as it is"
        };
        format!(
            "{created}\n{}",
            show::worktree_or_nothing(answer.worktree.as_ref())
        )
    })
}

/// Decides whether a base is a commit's full id or the name of a ref: no ref of that look can be meant.
pub(crate) fn base(arguments: BaseArgs) -> Option<Base> {
    let is_full_id = |base: &str| {
        matches!(base.len(), 40 | 64)
            && base
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    match (arguments.base, arguments.base_policy) {
        (Some(base), _) if is_full_id(&base) => Some(Base::BaseSha(base)),
        (Some(base), _) => Some(Base::BaseRef(base)),
        (None, Some(BasePolicyName::Head)) => Some(Base::BasePolicy(BasePolicy::Head.into())),
        (None, Some(BasePolicyName::Fresh)) => Some(Base::BasePolicy(BasePolicy::Fresh.into())),
        (None, None) => None,
    }
}

fn scaffold_of(arguments: ScaffoldArgs) -> Option<Scaffold> {
    let commands = ScaffoldCommands {
        install: arguments.install,
        verify: arguments.verify,
        start: arguments.start,
    };
    let scaffold = Scaffold {
        title: arguments.title,
        description: arguments.description,
        acceptance_criteria: arguments.criteria,
        known_gotchas: arguments.gotchas,
        commands: (commands != ScaffoldCommands::default()).then_some(commands),
        team_name: arguments.team,
    };
    (scaffold != Scaffold::default()).then_some(scaffold)
}

async fn list(context: &Context, arguments: ListWorktreesArgs) -> Result<(), Failure> {
    let mut request = ListWorktreesRequest {
        repo: arguments.repo.resolve()?,
        states: arguments
            .states
            .iter()
            .map(|state| (*state).into())
            .collect(),
        ..Default::default()
    };
    let mut all = ListWorktreesResponse::default();
    while let Some(size) = arguments.page.next_size(all.worktrees.len()) {
        request.page_size = size;
        let page = context.client.list_worktrees(request.clone()).await?;
        all.worktrees.extend(page.worktrees);
        all.next_page_token.clone_from(&page.next_page_token);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    context.show(&all, |all| show::worktrees(&all.worktrees))
}

async fn branches(context: &Context, arguments: BranchesArgs) -> Result<(), Failure> {
    let mut request = ListBranchesRequest {
        repo: arguments.repo.resolve()?,
        ..Default::default()
    };
    let mut all = ListBranchesResponse::default();
    while let Some(size) = arguments.page.next_size(all.branches.len()) {
        request.page_size = size;
        let page = context.client.list_branches(request.clone()).await?;
        all.branches.extend(page.branches);
        all.next_page_token.clone_from(&page.next_page_token);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    context.show(&all, |all| show::branches(&all.branches))
}

async fn diff(context: &Context, arguments: DiffArgs) -> Result<(), Failure> {
    let only_patch = arguments.patch;
    let request = GetDiffRequest {
        key: Some(arguments.key.resolve()?),
        include_patch: arguments.patch,
        include_sor: arguments.include_sor,
    };
    let mut parts = context.client.get_diff(request).await?;
    while let Some(message) = parts.message().await? {
        if context.json {
            context.show_json(&message)?;
            continue;
        }
        match message.part {
            Some(Part::DiffStat(stat)) if !only_patch => print(show::diff_stat(&stat).as_bytes())?,
            // As it is: a patch is made to be applied.
            Some(Part::PatchChunk(chunk)) => print(&chunk)?,
            Some(Part::DiffStat(_)) | None => {}
        }
    }
    Ok(())
}

async fn scaffold(context: &Context, arguments: ScaffoldFilesArgs) -> Result<(), Failure> {
    let request = GetScaffoldRequest {
        key: Some(arguments.key.resolve()?),
    };
    let mut answer = context.client.get_scaffold(request).await?;
    if let Some(name) = &arguments.file {
        answer.files.retain(|known| known.name == *name);
        let Some(only) = answer.files.first() else {
            return Err(Failure::usage(format!("the checkout has no {name}")));
        };
        if !context.json {
            return print(&only.content);
        }
    }
    context.show(&answer, |answer| {
        let show = |file: &ScaffoldFile| {
            let cut = if file.truncated { "\n(cut off)\n" } else { "" };
            format!(
                "== {} ==\n{}{cut}\n",
                file.name,
                plain_lines(&String::from_utf8_lossy(&file.content))
            )
        };
        answer.files.iter().map(show).collect()
    })
}

fn recovery(recovery_point: &str) -> String {
    if recovery_point.is_empty() {
        String::new()
    } else {
        format!("recovery point  {recovery_point}\n")
    }
}
