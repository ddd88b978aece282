//! `worktreectl gc`, `reconcile` and `info`.

use worktreed_client::proto::{
    CollectGarbageRequest, GetServerInfoRequest, ReconcileRequest, collect_garbage_response::Part,
};

use crate::{
    args::{GcArgs, RepoScopeArgs},
    context::{Context, print},
    failure::Failure,
    progress::Bar,
    show,
    text::to_proto_duration,
};

pub(crate) async fn collect_garbage(context: &Context, arguments: GcArgs) -> Result<(), Failure> {
    let request = CollectGarbageRequest {
        repo: arguments.repo.resolve()?,
        max_age: arguments.max_age.map(to_proto_duration),
        max_count: arguments.max_count,
        active: arguments.active,
        dry_run: arguments.dry_run,
    };
    let bar = Bar::new(context, "sweeping");
    let mut parts = context.client.collect_garbage(request).await?;
    while let Some(message) = parts.message().await? {
        if let Some(Part::Progress(progress)) = &message.part {
            bar.update(progress);
        }
        if context.json {
            bar.suspend(|| context.show_json(&message))?;
            continue;
        }
        match &message.part {
            Some(Part::Item(item)) => bar.suspend(|| print(show::gc_item(item).as_bytes()))?,
            Some(Part::Summary(summary)) => {
                let reaped = if summary.dry_run {
                    "would be reaped"
                } else {
                    "reaped"
                };
                let line = format!(
                    "{} {reaped}, {} skipped, {} failed\n",
                    summary.reaped, summary.skipped, summary.failed
                );
                bar.suspend(|| print(line.as_bytes()))?;
            }
            Some(Part::Progress(_)) | None => {}
        }
    }
    Ok(())
}

pub(crate) async fn reconcile(context: &Context, arguments: &RepoScopeArgs) -> Result<(), Failure> {
    let answer = context
        .client
        .reconcile(ReconcileRequest {
            repo: arguments.resolve()?,
        })
        .await?;
    context.show(&answer, |answer| show::findings(&answer.findings))
}

pub(crate) async fn info(context: &Context) -> Result<(), Failure> {
    let answer = context
        .client
        .get_server_info(GetServerInfoRequest {})
        .await?;
    context.show(&answer, show::server_info)
}
