//! `worktreed`: the server's binary.

fn main() {}
