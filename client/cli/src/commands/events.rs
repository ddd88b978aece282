//! `worktreectl events` and `worktreectl watch`.

use worktreed_client::{
    WatchItem,
    proto::{
        EventFilter, FromBeginning, FromNow, ListEventsRequest, ListEventsResponse,
        WatchEventsRequest, WatchEventsResponse, WithInitialState, watch_events_request::Start,
        watch_events_response::Item,
    },
};

use crate::{
    args::{FilterArgs, ListEventsArgs, WatchArgs, resolve_repo},
    context::{Context, print},
    failure::Failure,
    show,
    text::{plain, to_proto_duration},
};

pub(crate) async fn watch(context: &Context, arguments: WatchArgs) -> Result<(), Failure> {
    let request = WatchEventsRequest {
        filter: filter(&arguments.filter)?,
        start: Some(start(&arguments)),
        bookmark_interval: arguments.bookmark_interval.map(to_proto_duration),
        include_progress: arguments.progress,
    };
    let mut watch = context.client.watch(request);
    let mut left = arguments.count;
    while left != Some(0) {
        let item = watch.next().await?;
        let is_event = matches!(item, WatchItem::Event(_));
        if matches!(item, WatchItem::Bookmark(_)) && !arguments.bookmarks {
            continue;
        }
        if context.json {
            show_json(context, item)?
        } else {
            print(to_text(&item).as_bytes())?
        }
        if is_event {
            left = left.map(|left| left - 1);
        }
    }
    Ok(())
}

pub(crate) async fn list(context: &Context, arguments: ListEventsArgs) -> Result<(), Failure> {
    let mut request = ListEventsRequest {
        filter: filter(&arguments.filter)?,
        after: arguments.after.clone(),
        ..Default::default()
    };
    let mut all = ListEventsResponse::default();
    while let Some(size) = arguments.page.next_size(all.events.len()) {
        request.page_size = size;
        let page = context.client.list_events(request.clone()).await?;
        request.after.clone_from(&page.next_position);
        all.events.extend(page.events);
        all.next_position = page.next_position;
        all.has_more = page.has_more;
        if !page.has_more {
            break;
        }
    }
    context.show(&all, |all| all.events.iter().map(show::event).collect())
}

fn start(arguments: &WatchArgs) -> Start {
    match &arguments.after {
        Some(position) => Start::After(position.clone()),
        None if arguments.from_beginning => Start::FromBeginning(FromBeginning {}),
        None if arguments.state => Start::WithInitialState(WithInitialState {}),
        None => Start::FromNow(FromNow {}),
    }
}

fn filter(arguments: &FilterArgs) -> Result<Option<EventFilter>, Failure> {
    let filter = EventFilter {
        repo: arguments
            .repo
            .as_deref()
            .map(resolve_repo)
            .transpose()?
            .unwrap_or_default(),
        task_ids: arguments.tasks.clone(),
        kinds: arguments.kinds.iter().map(|kind| (*kind).into()).collect(),
    };
    Ok((filter != EventFilter::default()).then_some(filter))
}

/// Shows an item as the message that it came in. Only the note of a restart is ours.
fn show_json(context: &Context, item: WatchItem) -> Result<(), Failure> {
    let item = match item {
        WatchItem::Event(event) => Item::Event(*event),
        WatchItem::Bookmark(bookmark) => Item::Bookmark(bookmark),
        WatchItem::State(worktree) => Item::State(*worktree),
        WatchItem::EndOfState(end) => Item::EndOfState(end),
        WatchItem::Progress(progress) => Item::Progress(progress),
        WatchItem::StateRestarted => return print(b"{\"state_restarted\":{}}\n"),
    };
    context.show_json(&WatchEventsResponse { item: Some(item) })
}

fn to_text(item: &WatchItem) -> String {
    match item {
        WatchItem::Event(event) => show::event(event),
        WatchItem::Bookmark(bookmark) => format!("-- position {}\n", plain(&bookmark.position)),
        WatchItem::State(worktree) => show::state_line(worktree),
        WatchItem::EndOfState(end) => format!("-- {} worktrees; events follow\n", end.count),
        WatchItem::Progress(progress) => show::progress(progress),
        WatchItem::StateRestarted => {
            "-- the connection was lost; the worktrees again from the start\n".to_owned()
        }
    }
}
