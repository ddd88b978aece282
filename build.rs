//! Compiles the contract with protox, so that nobody needs protoc.

use std::{env, error::Error, fs, path::Path, path::PathBuf};

const PROTO_ROOT: &str = "proto";

fn main() -> Result<(), Box<dyn Error>> {
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    // Neither protox nor tonic-prost-build says what to watch. Without these lines a change of any file of the package
    // rebuilds the contract and all that stands on it.
    println!("cargo:rerun-if-changed=build.rs");
    // The folder too: a new file is noticed only by it.
    println!("cargo:rerun-if-changed={PROTO_ROOT}/worktree/v1");

    let files = proto_files(&Path::new(PROTO_ROOT).join("worktree/v1"))?;
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
    }

    let mut compiler = protox::Compiler::new([PROTO_ROOT])?;
    compiler
        .include_imports(true)
        .include_source_info(true)
        .open_files(&files)?;
    // Encoded by protox and not through prost's types: those drop the options that are ours.
    fs::write(
        out_dir.join("worktree_descriptor.bin"),
        compiler.encode_file_descriptor_set(),
    )?;

    let mut config = tonic_prost_build::Config::new();
    // `prost::Name`, by which a message finds its descriptor.
    config.enable_type_names();
    // In one order always: what is recognised by the digest of its bytes must encode the same each time.
    config.btree_map(["."]);
    tonic_prost_build::configure()
        .build_client(true)
        .build_server(true)
        .compile_fds_with_config(compiler.file_descriptor_set(), config)?;
    Ok(())
}

fn proto_files(dir: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
