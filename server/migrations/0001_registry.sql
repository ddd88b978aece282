-- Times are in nanoseconds since 1970, UTC.

-- One row that says which log and which installation this is; positions and lock reasons carry them.
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    log_id TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    create_time BIGINT NOT NULL
);

-- The last sequence given out. Taken inside the transaction of the change: a serial column would leave gaps after a
-- rollback, and is not commit order on every database.
CREATE TABLE event_counter (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    last_sequence BIGINT NOT NULL
);
INSERT INTO event_counter (one, last_sequence) VALUES (1, 0);

CREATE TABLE repositories (
    repo_id TEXT PRIMARY KEY,
    common_dir TEXT NOT NULL UNIQUE,
    path TEXT NOT NULL,
    origin_url TEXT,
    first_seen_time BIGINT NOT NULL
);

CREATE TABLE worktrees (
    id TEXT PRIMARY KEY,
    repo TEXT NOT NULL,
    repo_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    live INTEGER NOT NULL,
    state TEXT NOT NULL,
    pending_operation TEXT,
    display_name TEXT NOT NULL DEFAULT '',
    kind TEXT NOT NULL,
    isolation TEXT NOT NULL,
    origin TEXT NOT NULL DEFAULT 'CREATED',
    owner_kind TEXT,
    owner_id TEXT,
    labels TEXT NOT NULL DEFAULT '{}',
    path TEXT NOT NULL,
    branch TEXT NOT NULL,
    base_ref TEXT NOT NULL,
    base_policy TEXT NOT NULL DEFAULT 'HEAD',
    checkout TEXT NOT NULL,
    checkout_policy TEXT NOT NULL DEFAULT '',
    head TEXT,
    head_time BIGINT,
    parent_id TEXT,
    work_dir TEXT NOT NULL DEFAULT '',
    host_id TEXT NOT NULL,
    ledger TEXT NOT NULL DEFAULT '[]',
    restore TEXT,
    task_completed INTEGER NOT NULL DEFAULT 0,
    owns_branch INTEGER NOT NULL DEFAULT 0,
    last_epoch BIGINT NOT NULL DEFAULT 0,
    version BIGINT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL,
    last_active_time BIGINT NOT NULL
);
-- Law 4: one live worktree per repository and task, whatever the code above it believes.
CREATE UNIQUE INDEX worktrees_live ON worktrees (repo_id, task_id) WHERE live = 1;
CREATE INDEX worktrees_by_task ON worktrees (repo_id, task_id, id);
CREATE INDEX worktrees_by_branch ON worktrees (repo_id, branch, id);

CREATE TABLE leases (
    worktree_id TEXT PRIMARY KEY REFERENCES worktrees (id),
    holder TEXT NOT NULL,
    runtime TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    ttl_millis BIGINT NOT NULL,
    acquire_time BIGINT NOT NULL,
    expire_time BIGINT NOT NULL,
    holder_process TEXT
);
CREATE INDEX leases_by_expiry ON leases (expire_time);

CREATE TABLE handoffs (
    worktree_id TEXT NOT NULL REFERENCES worktrees (id),
    number BIGINT NOT NULL,
    origin TEXT NOT NULL,
    digest TEXT NOT NULL,
    handoff TEXT NOT NULL,
    create_time BIGINT NOT NULL,
    PRIMARY KEY (worktree_id, number)
);

CREATE TABLE reviews (
    id TEXT PRIMARY KEY,
    repo TEXT NOT NULL,
    repo_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    worktree_id TEXT,
    sha TEXT NOT NULL,
    reviewer TEXT NOT NULL,
    checkout TEXT NOT NULL,
    create_time BIGINT NOT NULL,
    expire_time BIGINT NOT NULL
);
CREATE INDEX reviews_by_task ON reviews (repo_id, task_id, id);
CREATE INDEX reviews_by_expiry ON reviews (expire_time);

CREATE TABLE recovery_points (
    ref_name TEXT NOT NULL,
    repo_id TEXT NOT NULL,
    worktree_id TEXT,
    commit_id TEXT NOT NULL,
    operation TEXT NOT NULL,
    create_time BIGINT NOT NULL,
    PRIMARY KEY (repo_id, ref_name)
);
CREATE INDEX recovery_points_by_worktree ON recovery_points (worktree_id);

-- What is being done to git and disk: on start, whatever stands here was cut short.
CREATE TABLE journal (
    id TEXT PRIMARY KEY,
    worktree_id TEXT,
    operation TEXT NOT NULL,
    payload TEXT NOT NULL,
    create_time BIGINT NOT NULL,
    update_time BIGINT NOT NULL
);

CREATE TABLE replies (
    principal TEXT NOT NULL,
    method TEXT NOT NULL,
    request_id TEXT NOT NULL,
    request_digest BLOB NOT NULL,
    response BLOB NOT NULL,
    create_time BIGINT NOT NULL,
    PRIMARY KEY (principal, method, request_id)
);
CREATE INDEX replies_by_time ON replies (create_time);

CREATE TABLE events (
    sequence BIGINT PRIMARY KEY,
    time BIGINT NOT NULL,
    kind INTEGER NOT NULL,
    repo_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    payload BLOB NOT NULL
);
CREATE INDEX events_by_time ON events (time);
