//! A server that dies at the worst instants: after its restart a task is there whole, or not at all.
