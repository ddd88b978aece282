//! `worktreectl lease`.

use std::{env, fs};

use worktreed_client::proto::{
    AcquireLeaseRequest, HolderProcess, ReleaseLeaseRequest, RenewLeaseRequest,
};

use crate::{
    args::{AcquireArgs, LeaseCommand},
    context::Context,
    failure::Failure,
    progress::Bar,
    show,
    text::to_proto_duration,
};

pub(crate) async fn run(context: &Context, command: LeaseCommand) -> Result<(), Failure> {
    match command {
        LeaseCommand::Acquire(arguments) => acquire(context, arguments).await,
        LeaseCommand::Renew(arguments) => {
            let request = RenewLeaseRequest {
                key: Some(arguments.key.resolve()?),
                lease_epoch: arguments.epoch,
                ttl: arguments.ttl.map(to_proto_duration),
            };
            let answer = context.client.renew_lease(request).await?;
            context.show(&answer, |answer| {
                answer.lease.as_ref().map_or_else(String::new, |lease| {
                    format!("{}\n", crate::text::plain(&show::lease(lease)))
                })
            })
        }
        LeaseCommand::Release(arguments) => {
            let request = ReleaseLeaseRequest {
                key: Some(arguments.key.resolve()?),
                lease_epoch: arguments.epoch,
            };
            let answer = context.client.release_lease(request).await?;
            context.show(&answer, |answer| {
                show::worktree_or_nothing(answer.worktree.as_ref())
            })
        }
    }
}

async fn acquire(context: &Context, arguments: AcquireArgs) -> Result<(), Failure> {
    let key = arguments.key.resolve()?;
    let bar = Bar::follow(context, "clocking in", &key);
    let request = AcquireLeaseRequest {
        key: Some(key),
        request_id: arguments.request_id,
        holder: arguments.holder.unwrap_or_else(default_holder),
        runtime: arguments.runtime,
        ttl: arguments.ttl.map(to_proto_duration),
        takeover_reason: arguments.takeover,
        holder_process: arguments.pid.map(holder_process),
    };
    let answer = context.client.acquire_lease(request).await?;
    drop(bar);
    context.show(&answer, |answer| {
        let worktree = show::worktree_or_nothing(answer.worktree.as_ref());
        let resume = answer
            .resume_state
            .as_ref()
            .map_or_else(String::new, show::resume_state);
        format!("{worktree}\n{resume}")
    })
}

fn default_holder() -> String {
    let user = env::var("USER")
        .ok()
        .filter(|user| !user.is_empty())
        .unwrap_or_else(|| "someone".to_owned());
    format!("{user}@{}", host())
}

fn holder_process(pid: i64) -> HolderProcess {
    HolderProcess {
        pid,
        start_ticks: start_ticks(pid).unwrap_or(0),
        host: host(),
    }
}

fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() {
        "localhost".to_owned()
    } else {
        name.to_owned()
    }
}

/// Reads when a process started. The name of the process, in brackets, may hold blanks and brackets itself: what counts
/// begins after the last one.
fn start_ticks(pid: i64) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    // Field 22 of all, of which the first two are gone.
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_this_process_is_known_where_there_is_a_proc() {
        let pid = i64::from(std::process::id());
        assert_eq!(
            start_ticks(pid).is_some(),
            std::path::Path::new("/proc/self/stat").exists()
        );
        assert_eq!(start_ticks(-1), None);
    }
}
