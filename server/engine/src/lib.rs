//! The worktree lifecycle on git and files: blocking, without a server, a database or a network.
//!
//! Every task gets a git worktree of its own, on its own branch, outside the user's checkout, and the checkout describes itself, so
//! that whoever comes next can go on from its files alone. [`Engine`] makes, saves, drops and rebuilds such checkouts. It keeps no
//! state of its own: the caller stores a [`Checkout`](model::Checkout) and gives it back for every operation.
//!
//! # What it keeps
//!
//! 1. *Nothing an agent made is lost.* A step that could lose something saves it first, or is refused and says what stopped it.
//! 2. *Bystanders are untouched.* The user's checkout, index, HEAD, config and every other worktree stay as they are.
//! 3. *Unknown means keep.* A probe that fails never leads to deletion.
//! 4. *One writer.* A lease is the caller's affair; the engine mirrors it in git's own worktree lock ([`lock`]).
//! 5. *Whole or absent.* What is about to be done is handed to the [`Observer`](model::Observer) before disk or refs are touched, and
//!    [`Engine::recover`] brings a step that was cut short to one of its ends.
//! 6. *One ordered history.* The caller's affair: the engine reports, and stores no events.
//! 7. *Idempotent.* Recovery, drops and removals can be repeated from any point.
//! 8. *Bounded.* Every git process has a deadline and a process group ([`git`]); every wait for a lock ends.
//! 9. *The checkout alone is enough.* [`sor::resume_state`] reads the checkout's files and nothing else.
//! 10. *Stay inside.* Paths below a checkout are opened by handle and through no link ([`guard`]); no hook of the repository runs.
//!
//! # How to use it
//!
//! ```no_run
//! use worktree_engine::ids::WorktreeId;
//! use worktree_engine::model::{SaveMode, Unobserved};
//! use worktree_engine::provision::{Base, ProvisionRequest};
//! use worktree_engine::sor::{self, ScaffoldRequest};
//! use worktree_engine::{Engine, EngineConfig};
//!
//! # fn main() -> worktree_engine::Result<()> {
//! let engine = Engine::new(EngineConfig::new("/var/lib/worktrees", "my-instance"))?;
//! let repository = engine.open_repository("/home/me/project".as_ref())?;
//! let request = ProvisionRequest {
//!     id: WorktreeId::new(),
//!     task_id: "fix-42".parse()?,
//!     repo_id: repository.repo_id(),
//!     kind: "code".to_owned(),
//!     isolation: String::new(),
//!     base: Base::Head,
//!     scaffold: ScaffoldRequest { title: "Fix the parser".to_owned(), ..ScaffoldRequest::default() },
//!     sor_dir: "".parse()?,
//!     known_branch: None,
//! };
//! let plan = engine.plan_provision(&repository, &request)?;
//! let made = engine.provision(&repository, &plan, &mut Unobserved)?;
//!
//! let state = sor::resume_state(&made.checkout.path, &made.checkout.sor_dir, Some("codex"));
//! println!("run {} first, then go on with {:?}", state.commands.init, state.next);
//!
//! let saved = engine.pause(&made.checkout, SaveMode::Commit, false, "clawboo: pause", &mut Unobserved)?;
//! let back = engine.resume(&made.checkout, saved.recovery_point.as_ref(), &mut Unobserved)?;
//! println!("back at {}", back.checkout.path.display());
//! # Ok(())
//! # }
//! ```
//!
//! [`Unobserved`](model::Unobserved) has no journal: a caller that must survive a crash implements
//! [`Observer`](model::Observer), makes each step durable, and calls [`Engine::recover`] for what it finds at its next start.
//! All calls block, some for as long as a checkout takes; two operations on one worktree must not run at the same time.

pub mod branches;
pub mod diff;
mod drop;
pub mod engine;
pub mod error;
pub mod git;
pub mod guard;
pub mod identity;
pub mod ids;
pub mod lifecycle;
pub mod lock;
pub mod materialise;
pub mod model;
pub mod objects;
pub mod operations;
mod orphan;
pub mod probe;
pub mod provision;
pub mod rebuild;
mod recovery;
pub mod refs;
pub mod registration;
pub mod repository;
mod restore;
mod save;
pub mod sor;
pub mod trash;

pub use engine::{Engine, EngineConfig};
pub use error::{Error, Result};
