//! `MaintenanceService`.

use std::{pin::Pin, time::Duration};

use futures::{Stream, stream};
use tonic::{Request, Response, Status};
use worktree_proto::v1::{
    self, collect_garbage_response::Part, maintenance_service_server::MaintenanceService,
};

use super::{
    Api,
    convert::{count, duration, timestamp, worktree},
    plain, request, trace,
};
use crate::lifecycle::{Error, Result, Sweep, SweepItem};

#[tonic::async_trait]
impl MaintenanceService for Api {
    type CollectGarbageStream =
        Pin<Box<dyn Stream<Item = Result<v1::CollectGarbageResponse, Status>> + Send>>;

    async fn collect_garbage(
        &self,
        request: Request<v1::CollectGarbageRequest>,
    ) -> Result<Response<Self::CollectGarbageStream>, Status> {
        let (_, extensions, message) = request.into_parts();
        let answer = async {
            let trace_id = trace::trace_id(&extensions);
            let sweep = sweep(message, self.lifecycle.default_sweep())?;
            let items = self.lifecycle.collect(sweep, trace_id).await?;
            let items = stream::unfold(items, |mut items| async {
                let item = items.recv().await?;
                Some((Ok(part(item)), items))
            });
            Ok(Box::pin(items) as Self::CollectGarbageStream)
        };
        plain(answer.await)
    }

    async fn reconcile(
        &self,
        request: Request<v1::ReconcileRequest>,
    ) -> Result<Response<v1::ReconcileResponse>, Status> {
        let (_, extensions, message) = request.into_parts();
        let trace_id = trace::trace_id(&extensions);
        let findings = self.lifecycle.reconcile(message.repo, trace_id).await;
        plain(findings.map(|findings| v1::ReconcileResponse { findings }))
    }

    async fn get_server_info(
        &self,
        _request: Request<v1::GetServerInfoRequest>,
    ) -> Result<Response<v1::GetServerInfoResponse>, Status> {
        Ok(Response::new(self.info()))
    }
}

impl Api {
    fn info(&self) -> v1::GetServerInfoResponse {
        let lifecycle = &self.lifecycle;
        let settings = &lifecycle.settings;
        let limits = &settings.limits;
        let config = lifecycle.engine.config();
        v1::GetServerInfoResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instance_id: lifecycle.instance_id().to_string(),
            namespace: config.namespace.to_string(),
            git_version: lifecycle.engine.git_version().to_owned(),
            features: Vec::new(),
            limits: Some(v1::ServerLimits {
                lease_ttl_default: Some(duration(limits.lease_ttl_default)),
                lease_ttl_min: Some(duration(limits.lease_ttl_min)),
                lease_ttl_max: Some(duration(limits.lease_ttl_max)),
                lock_wait: Some(duration(limits.lock_wait)),
                page_size_default: i32::try_from(limits.page_size_default).unwrap_or(i32::MAX),
                page_size_max: i32::try_from(limits.page_size_max).unwrap_or(i32::MAX),
                sor_file_max_bytes: count(worktree_engine::sor::MAX_FILE_BYTES),
                saved_file_max_bytes: count(config.max_saved_file),
                title_max_chars: i32::try_from(limits.title_max_chars).unwrap_or(i32::MAX),
                text_max_chars: i32::try_from(limits.text_max_chars).unwrap_or(i32::MAX),
                event_retention: Some(duration(limits.event_retention)),
                event_retention_count: count(limits.event_retention_count),
                reply_retention: Some(duration(limits.reply_retention)),
                message_max_bytes: count(limits.message_max_bytes),
            }),
            worktree_root: config.root.to_string_lossy().into_owned(),
            state_dir: settings.state_dir.to_string_lossy().into_owned(),
            start_time: Some(timestamp(lifecycle.start_time)),
            warnings: settings.warnings.clone(),
        }
    }
}

fn sweep(message: v1::CollectGarbageRequest, default: Sweep) -> Result<Sweep> {
    if message.active.len() > 10_000 {
        return Err(Error::invalid("active", "must be at most 10,000"));
    }
    for (index, task) in message.active.iter().enumerate() {
        request::task(&format!("active[{index}]"), task)?;
    }
    let most = Duration::from_secs(100 * 366 * 24 * 60 * 60);
    let max_age = request::duration("max_age", message.max_age, Duration::ZERO, most)?;
    let max_count = match message.max_count {
        Some(max) => {
            usize::try_from(max).map_err(|_| Error::invalid("max_count", "must not be negative"))?
        }
        None => default.max_count,
    };
    Ok(Sweep {
        repo: message.repo,
        max_age: max_age.unwrap_or(default.max_age),
        max_count,
        active: message.active.into_iter().collect(),
        dry_run: message.dry_run,
        idle: default.idle,
    })
}

fn part(item: SweepItem) -> v1::CollectGarbageResponse {
    let part = match item {
        SweepItem::Item(item) => Part::Item(*item),
        SweepItem::Progress(update) => Part::Progress(v1::Progress {
            key: Some(v1::WorktreeKey {
                repo: update.repo,
                task_id: update.task_id,
            }),
            operation: worktree::operation(update.operation) as i32,
            stage: update.stage.to_owned(),
            done: count(update.done),
            total: count(update.total),
            unit: update.unit.to_owned(),
            time: Some(timestamp(update.time)),
        }),
        SweepItem::Summary(summary) => Part::Summary(summary),
    };
    v1::CollectGarbageResponse { part: Some(part) }
}
