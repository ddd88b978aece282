//! What the service decides: engine, registry and events brought together, one file an operation.

mod begin;
mod checkpoint;
mod complete;
mod error;
mod event;
mod gc;
mod handoff;
mod lease;
mod locks;
mod lookup;
mod pause;
mod provision;
mod read;
mod reconcile;
mod recover;
mod remove;
mod repository;
mod resume;
mod review;
mod run;
mod timers;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;
use worktree_engine::{Engine, ids::TaskId};

pub(crate) use complete::CompleteOutcome;
pub(crate) use error::{Error, Result};
pub(crate) use gc::{Sweep, SweepItem};
pub(crate) use handoff::{HandoffOutcome, recorded};
pub(crate) use lease::{AcquireOutcome, AcquireRequest};
pub(crate) use pause::SavedOutcome;
pub(crate) use provision::{ProvisionOutcome, ProvisionWish};
pub(crate) use read::Diff;
pub(crate) use remove::RemoveWish;
pub(crate) use resume::ResumeOutcome;
pub(crate) use review::{ReviewOutcome, ReviewWish};
pub(crate) use run::{Answer, Call};

use crate::{config::Limits, events::EventHub, registry::Registry};
use locks::Locks;

/// The numbers and names that the service runs with.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The host that checkouts are on.
    pub(crate) host_id: String,
    /// Where registry and socket are.
    pub(crate) state_dir: PathBuf,
    /// Directories whose repositories are allowed; canonical.
    pub(crate) allow_roots: Vec<PathBuf>,
    /// Repositories by name; canonical.
    pub(crate) repositories: BTreeMap<String, PathBuf>,
    /// The numbers.
    pub(crate) limits: Limits,
    /// What an operator should know.
    pub(crate) warnings: Vec<String>,
}

/// Which worktree: the repository as the caller spells it, and the task.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    /// An absolute path, or a configured name.
    pub(crate) repo: String,
    /// The task.
    pub(crate) task: TaskId,
}

/// What a caller says the worktree must be for its mutation to happen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guards {
    /// The epoch of the live lease; 0 for none.
    pub(crate) epoch: u64,
    /// The etag; empty for any.
    pub(crate) etag: String,
}

/// The service's decisions. One value, shared by all handlers and timers.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    pub(crate) engine: Arc<Engine>,
    pub(crate) registry: Registry,
    pub(crate) settings: Settings,
    pub(crate) start_time: Timestamp,
    pub(crate) hub: EventHub,
    locks: Locks,
    blocking: Arc<Semaphore>,
    drain: CancellationToken,
    tasks: TaskTracker,
}

/// How many blocking operations run at a time for each core: they wait for disks more than for cores.
const BLOCKING_PER_CORE: usize = 4;

impl Lifecycle {
    /// Brings engine and registry together. [`recover`](Self::recover) comes next, before anything is served.
    pub(crate) fn new(
        engine: Arc<Engine>,
        registry: Registry,
        hub: EventHub,
        settings: Settings,
        drain: CancellationToken,
    ) -> Arc<Self> {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Arc::new(Self {
            engine,
            registry,
            hub,
            settings,
            start_time: Timestamp::now(),
            locks: Locks::default(),
            blocking: Arc::new(Semaphore::new(cores * BLOCKING_PER_CORE)),
            drain,
            tasks: TaskTracker::new(),
        })
    }

    /// Ends when every running mutation has ended. No new one begins once the drain token is cancelled.
    pub(crate) async fn wait_idle(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// The time, as exact as the registry keeps it: an answer and a later read must show the same.
    fn now() -> Timestamp {
        let now = Timestamp::now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }

    /// The id that positions and lock reasons carry.
    pub(crate) fn instance_id(&self) -> Uuid {
        self.registry.instance_id()
    }
}
