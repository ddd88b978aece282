//! `worktreectl handoff`.

use std::{fs, io::Read as _, path::Path};

use worktreed_client::proto::{
    Evidence, GetHandoffRequest, GetResumeStateRequest, Handoff, ListHandoffsRequest,
    ListHandoffsResponse, WriteHandoffRequest,
};

use crate::{
    args::{HandoffCommand, ListHandoffsArgs, WriteHandoffArgs},
    context::Context,
    failure::Failure,
    handoff_file, show,
    text::plain,
};

/// More than the service takes (1 MiB): what is larger is refused there, with its reason.
const LARGEST_FILE: u64 = 2 << 20;

pub(crate) async fn run(context: &Context, command: HandoffCommand) -> Result<(), Failure> {
    match command {
        HandoffCommand::Write(arguments) => write(context, *arguments).await,
        HandoffCommand::Get(key) => {
            let answer = context
                .client
                .get_handoff(GetHandoffRequest {
                    key: Some(key.resolve()?),
                })
                .await?;
            context.show(&answer, |answer| {
                let mut text = answer
                    .handoff
                    .as_ref()
                    .map_or_else(|| "no handoff\n".to_owned(), show::handoff);
                if answer.from_history {
                    text += "\n(the checkout is away; this is the one recorded last)\n";
                }
                if !answer.problem.is_empty() {
                    text += &format!(
                        "\nthe file in the checkout cannot be read: {}\n",
                        plain(&answer.problem)
                    );
                }
                text
            })
        }
        HandoffCommand::List(arguments) => list(context, arguments).await,
        HandoffCommand::ResumeState(arguments) => {
            let request = GetResumeStateRequest {
                key: Some(arguments.key.resolve()?),
                runtime: arguments.runtime,
            };
            let answer = context.client.get_resume_state(request).await?;
            context.show(&answer, |answer| {
                answer
                    .resume_state
                    .as_ref()
                    .map_or_else(String::new, show::resume_state)
            })
        }
    }
}

async fn write(context: &Context, arguments: WriteHandoffArgs) -> Result<(), Failure> {
    let key = arguments.key.resolve()?;
    let (lease_epoch, keep_lease) = (arguments.epoch, arguments.keep_lease);
    let request_id = arguments.request_id.clone();
    let handoff = compose(arguments)?;
    let request = WriteHandoffRequest {
        key: Some(key),
        request_id,
        lease_epoch,
        handoff: Some(handoff),
        keep_lease,
    };
    let answer = context.client.write_handoff(request).await?;
    context.warn(&answer.warnings);
    context.show(&answer, |answer| {
        let handoff = answer
            .handoff
            .as_ref()
            .map_or_else(String::new, show::handoff);
        format!("handoff {}\n{handoff}", answer.number)
    })
}

/// Makes the handoff: the file if there is one, and over it what was typed.
pub(crate) fn compose(arguments: WriteHandoffArgs) -> Result<Handoff, Failure> {
    let mut handoff = match &arguments.file {
        Some(file) => handoff_file::parse(&read(file)?)?,
        None => Handoff::default(),
    };
    if let Some(runtime) = arguments.runtime {
        handoff.runtime = runtime;
    }
    if handoff.runtime.is_empty() {
        handoff.runtime = "human".to_owned();
    }
    if let Some(from) = arguments.from {
        handoff.handoff_from = from;
    }
    if handoff.handoff_from.is_empty() {
        handoff.handoff_from.clone_from(&handoff.runtime);
    }
    handoff.completed_subtasks.extend(arguments.done);
    handoff.broken_or_unverified.extend(arguments.broken);
    handoff.warnings.extend(arguments.warnings);
    if let Some(next) = arguments.next {
        handoff.next_best_step = next;
    }
    handoff.why_blocked = arguments.why_blocked.or(handoff.why_blocked);
    handoff.native_session_id = arguments.session.or(handoff.native_session_id);
    if arguments.test_results.is_some() || arguments.lint_results.is_some() {
        let evidence = handoff.evidence.get_or_insert_with(Evidence::default);
        evidence.test_results = arguments
            .test_results
            .or_else(|| evidence.test_results.take());
        evidence.lint_results = arguments
            .lint_results
            .or_else(|| evidence.lint_results.take());
    }
    Ok(handoff)
}

fn read(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin()
            .take(LARGEST_FILE)
            .read_to_string(&mut text)?;
    } else {
        let with_name = |error| Failure::usage(format!("{}: {error}", file.display()));
        fs::File::open(file)
            .map_err(with_name)?
            .take(LARGEST_FILE)
            .read_to_string(&mut text)
            .map_err(with_name)?;
    }
    Ok(text)
}

async fn list(context: &Context, arguments: ListHandoffsArgs) -> Result<(), Failure> {
    let mut request = ListHandoffsRequest {
        key: Some(arguments.key.resolve()?),
        ..Default::default()
    };
    let mut all = ListHandoffsResponse::default();
    while let Some(size) = arguments.page.next_size(all.entries.len()) {
        request.page_size = size;
        let page = context.client.list_handoffs(request.clone()).await?;
        all.entries.extend(page.entries);
        all.next_page_token.clone_from(&page.next_page_token);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    context.show(&all, |all| show::handoffs(&all.entries))
}
