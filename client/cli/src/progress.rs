//! A progress bar, where a person looks at it.

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;
use worktreed_client::{
    Client, WatchItem,
    proto::{EventFilter, Operation, Progress, WatchEventsRequest, WorktreeKey},
};

use crate::{
    context::Context,
    text::{enum_name, plain},
};

const TICK: Duration = Duration::from_millis(120);
const TEMPLATE: &str = "{spinner} {msg} {wide_bar} {pos}/{len} {elapsed}";
const TEMPLATE_WITHOUT_TOTAL: &str = "{spinner} {msg} {elapsed}";

/// A bar on stderr that is gone when it is dropped. Shows nothing where stderr is no terminal.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
    follower: Option<JoinHandle<()>>,
}

impl Bar {
    /// Shows a bar for an operation whose progress the caller reports.
    pub(crate) fn new(context: &Context, message: &'static str) -> Self {
        let bar = if is_wanted(context) {
            ProgressBar::new_spinner()
        } else {
            ProgressBar::hidden()
        };
        style(&bar, TEMPLATE_WITHOUT_TOTAL);
        bar.set_message(message);
        bar.enable_steady_tick(TICK);
        Self {
            bar,
            follower: None,
        }
    }

    /// Shows a bar for an operation on a worktree, from the progress that the server streams.
    pub(crate) fn follow(context: &Context, message: &'static str, key: &WorktreeKey) -> Self {
        let mut shown = Self::new(context, message);
        if is_wanted(context) {
            shown.follower = Some(tokio::spawn(follow(
                context.client.clone(),
                shown.bar.clone(),
                key.clone(),
            )));
        }
        shown
    }

    pub(crate) fn update(&self, progress: &Progress) {
        update(&self.bar, progress);
    }

    /// Prints a line of output without breaking the bar.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(follower) = &self.follower {
            follower.abort();
        }
        self.bar.finish_and_clear();
    }
}

fn is_wanted(context: &Context) -> bool {
    context.show_progress && io::stderr().is_terminal()
}

/// Follows until it is aborted. That the progress cannot be had is no reason to say anything: the operation itself
/// will tell.
async fn follow(client: Client, bar: ProgressBar, key: WorktreeKey) {
    let filter = EventFilter {
        repo: key.repo,
        task_ids: vec![key.task_id],
        kinds: Vec::new(),
    };
    let request = WatchEventsRequest {
        filter: Some(filter),
        include_progress: true,
        ..Default::default()
    };
    let mut watch = client.watch(request);
    while let Ok(item) = watch.next().await {
        if let WatchItem::Progress(progress) = item {
            update(&bar, &progress);
        }
    }
}

fn update(bar: &ProgressBar, progress: &Progress) {
    let operation = Operation::try_from(progress.operation).ok();
    let operation = enum_name(
        operation.map(|known| known.as_str_name()),
        "OPERATION_",
        progress.operation,
    );
    bar.set_message(format!("{operation}: {}", plain(&progress.stage)));
    match u64::try_from(progress.total) {
        Ok(total) if total > 0 => {
            bar.set_length(total);
            bar.set_position(u64::try_from(progress.done).unwrap_or(0));
            style(bar, TEMPLATE);
        }
        Ok(_) | Err(_) => style(bar, TEMPLATE_WITHOUT_TOTAL),
    }
}

fn style(bar: &ProgressBar, template: &str) {
    // The templates are ours, and a test reads them; a bar in another style is better than none.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
        assert!(ProgressStyle::with_template(TEMPLATE_WITHOUT_TOTAL).is_ok());
    }

    #[test]
    fn progress_moves_the_bar() {
        let bar = ProgressBar::hidden();
        let progress = Progress {
            operation: Operation::Provision.into(),
            stage: "checkout".into(),
            done: 3,
            total: 9,
            ..Default::default()
        };
        update(&bar, &progress);
        assert_eq!((bar.position(), bar.length()), (3, Some(9)));
        assert_eq!(bar.message(), "provision: checkout");
    }
}
