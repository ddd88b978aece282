//! A registry that cannot be trusted: the server refuses to start and touches nothing.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::scene::{Scene, Start, refused_start, text};

/// The SQLite file in the state directory.
fn registry(state: &Path) -> PathBuf {
    let found = fs::read_dir(state)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.is_file() && fs::read(path).unwrap().starts_with(b"SQLite format 3\0"));
    found.expect("the registry is a SQLite file in the state directory")
}

/// The files of the registry: the database and what stands beside it.
fn files(registry: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let name = registry.file_name().unwrap().to_str().unwrap().to_owned();
    let beside = fs::read_dir(registry.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let ours = beside.filter(|path| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(&name)
            && path.is_file()
    });
    ours.map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

async fn stopped() -> (Scene, PathBuf) {
    let mut scene = Scene::with(3, Start::default()).await;
    scene.task("t1").provision().await;
    assert!(scene.server.sigterm().await.0.success());
    let registry = registry(&scene.path().join("state"));
    (scene, registry)
}

fn refuses_and_leaves(scene: &Scene, registry: &Path, word: &str) {
    let (before, refs, worktrees) = (files(registry), scene.repo.refs(), scene.repo.registered());
    let said = text(&refused_start(scene.path(), &Start::default()));
    assert!(said.contains(word), "{said}");
    assert!(
        files(registry) == before,
        "the files of the registry were touched"
    );
    assert_eq!(
        (scene.repo.refs(), scene.repo.registered()),
        (refs, worktrees)
    );
}

#[tokio::test]
async fn a_corrupt_registry_is_refused_and_left_as_it_is() {
    let (scene, registry) = stopped().await;
    let whole = fs::read(&registry).unwrap();
    let name = registry.file_name().unwrap().to_str().unwrap().to_owned();
    fs::write(
        &registry,
        b"this is not a database, it is a note of some length about one that was here before\n"
            .repeat(60),
    )
    .unwrap();
    refuses_and_leaves(&scene, &registry, &name);
    // The header is whole, and what follows is not.
    let mut torn = whole.clone();
    for byte in &mut torn[100..] {
        *byte = 0xA5;
    }
    fs::write(&registry, &torn).unwrap();
    refuses_and_leaves(&scene, &registry, &name);
    fs::write(&registry, &whole).unwrap();
    let mut scene = scene;
    scene.restart(Start::default()).await;
    scene.task("t1").get().await;
}

#[tokio::test]
async fn a_registry_of_a_newer_version_is_refused_and_left_as_it_is() {
    let (mut scene, registry) = stopped().await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&registry);
    let mut connection = <sqlx::SqliteConnection as sqlx::Connection>::connect_with(&options)
        .await
        .unwrap();
    let migration = "INSERT INTO _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) \
                     VALUES (99999999999999, 'from the future', CURRENT_TIMESTAMP, 1, x'00', 0)";
    sqlx::query(migration)
        .execute(&mut connection)
        .await
        .unwrap();
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
        .execute(&mut connection)
        .await
        .unwrap();
    sqlx::Connection::close(connection).await.unwrap();
    refuses_and_leaves(&scene, &registry, "newer");

    let mut connection = <sqlx::SqliteConnection as sqlx::Connection>::connect_with(&options)
        .await
        .unwrap();
    sqlx::query("DELETE FROM _sqlx_migrations WHERE version = 99999999999999")
        .execute(&mut connection)
        .await
        .unwrap();
    sqlx::Connection::close(connection).await.unwrap();
    scene.restart(Start::default()).await;
    scene.task("t1").get().await;
}
