//! Locks by name, with a bounded wait: giving the wait up never frees the holder, and a failed holder poisons nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::{Error, Result};

/// One lock for each name that somebody holds or waits for.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    by_name: Mutex<HashMap<String, Weak<AsyncMutex<()>>>>,
}

/// Above so many names those that nobody uses are swept out.
const SWEEP_ABOVE: usize = 1024;

impl Locks {
    /// Takes the lock of `name`, or says what is busy.
    pub(crate) async fn take(
        &self,
        name: &str,
        what: &str,
        wait: Duration,
    ) -> Result<OwnedMutexGuard<()>> {
        tokio::time::timeout(wait, self.of(name).lock_owned())
            .await
            .map_err(|_| Error::Busy {
                what: what.to_owned(),
            })
    }

    /// Takes the lock of `name` however long it takes: for those that want to join the holder.
    pub(crate) async fn join(&self, name: &str) -> OwnedMutexGuard<()> {
        self.of(name).lock_owned().await
    }

    fn of(&self, name: &str) -> Arc<AsyncMutex<()>> {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = by_name.get(name).and_then(Weak::upgrade) {
            return lock;
        }
        if by_name.len() > SWEEP_ABOVE {
            by_name.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = Arc::new(AsyncMutex::new(()));
        by_name.insert(name.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_is_bounded_and_leaves_the_holder_alone() {
        let locks = Locks::default();
        let held = locks.take("a", "a", Duration::from_secs(1)).await.unwrap();
        let busy = locks.take("a", "a", Duration::from_millis(5)).await;
        assert!(matches!(busy, Err(Error::Busy { .. })));
        assert!(locks.take("b", "b", Duration::ZERO).await.is_ok());
        drop(held);
        assert!(locks.take("a", "a", Duration::from_secs(1)).await.is_ok());
    }
}
