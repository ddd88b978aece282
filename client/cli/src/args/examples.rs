//! What the help teaches by example.

pub(super) const TOP: &str = "\
Exit codes:
  0  done
  1  any other error
  2  wrong usage, or an invalid argument
  3  not found
  4  not possible in this state (a lease is held, work cannot be saved, ...)
  5  conflict: it exists already, or somebody else was first
  6  not permitted
  7  the server cannot be reached, is going away, or did not answer in time
  8  a limit is reached, or the disk is full

Examples:
  # A worktree for a task, in the repository that you stand in
  worktreectl worktree provision fix-login --title 'Fix the login' --verify 'cargo test'

  # Clock in, and see what the last runtime left
  worktreectl lease acquire fix-login --runtime claude-code
  worktreectl handoff resume-state fix-login

  # Clock out; the next one starts from this
  worktreectl handoff write fix-login --epoch 1 --runtime claude-code --done 'Form' --next 'Tests'

  # What goes on, as it happens; and for a script, one JSON object a line
  worktreectl watch
  worktreectl --json watch --kind handed_off | jq .event.key.task_id

  # The paths of all worktrees of the repository
  worktreectl --json worktree list | jq -r '.worktrees[].path'";

pub(super) const PROVISION: &str = "\
Examples:
  # From HEAD of the repository that you stand in
  worktreectl worktree provision fix-login --title 'Fix the login'

  # From another branch, with all that the next runtime should know
  worktreectl worktree provision fix-login --base release-2 --title 'Fix the login' \\
    --criterion 'The form keeps the name' --gotcha 'Tests need a database' \\
    --install 'npm ci' --verify 'npm test'

  # The repository has a TASK.md of its own: keep ours beside it
  worktreectl worktree provision fix-login --sor-dir .task

  # Only the path, for a script
  cd \"$(worktreectl --json worktree provision fix-login | jq -r .worktree.path)\"";

pub(super) const PAUSE: &str = "\
Examples:
  # Commit the work to the task's branch, and drop the directory
  worktreectl worktree pause fix-login

  # Keep what is staged and what is not, for the resume
  worktreectl worktree pause fix-login --save snapshot

If something cannot be saved the directory stays, and each such file is named with its reason. --force drops it all the
same; what can be saved is then pinned first.";

pub(super) const DIFF: &str = "\
Examples:
  worktreectl worktree diff fix-login
  worktreectl worktree diff fix-login --patch | git apply --check";

pub(super) const ACQUIRE: &str = "\
The epoch in the answer goes into every later command, as --epoch or in WORKTREE_LEASE_EPOCH. The lease ends by itself
unless it is renewed in time.

Examples:
  export WORKTREE_LEASE_EPOCH=$(worktreectl --json lease acquire fix-login --ttl 1h | jq .lease.epoch)

  # The holder is gone, and you know it
  worktreectl lease acquire fix-login --takeover 'the machine was lost'";

pub(super) const HANDOFF: &str = "\
Examples:
  worktreectl handoff write fix-login --epoch 1 --runtime claude-code \\
    --done 'The form' --broken 'Two tests' --next 'Fix the session test'

  # From a file like AGENT_HANDOFF.json
  worktreectl handoff write fix-login --epoch 1 --file - < handoff.json";

pub(super) const WATCH: &str = "\
Goes on by itself when the connection is lost: no event is missed, none comes twice.

Examples:
  # What goes on from now
  worktreectl watch

  # The worktrees as they are, and then what changes
  worktreectl watch --state

  # Wait until a task is handed off
  worktreectl watch --task fix-login --kind handed_off --count 1

  # Everything that is kept, for a script
  worktreectl --json watch --from-beginning | jq -c '.event | {sequence, kind}'";

pub(super) const GC: &str = "\
Examples:
  # What would go
  worktreectl gc --dry-run

  # Whatever nobody worked in for a day, in all repositories
  worktreectl gc --all-repos --max-age 24h";
