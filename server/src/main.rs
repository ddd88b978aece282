//! `worktreed`: the server's binary.

use std::process::ExitCode;

use clap::Parser as _;
use tokio_util::sync::CancellationToken;
use worktreed::{
    cli::{Cli, Command, Settings},
    serve, shutdown, telemetry,
};

fn main() -> ExitCode {
    // Nothing unless the binary was built with fail points.
    let _scenario = fail::FailScenario::setup();
    let result = match Cli::parse().command {
        Command::Serve(settings) => run(serve(settings)),
        Command::Config(settings) => print_config(&settings),
        Command::Demo(demo) => run(worktreed::demo::run(demo.repo)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("worktreed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(work);
    // What still runs after the grace period is journalled; waiting for its threads could take as long as it does.
    runtime.shutdown_background();
    result
}

async fn serve(settings: Settings) -> anyhow::Result<()> {
    let signals = shutdown::Signals::take()?;
    let config = settings.load()?;
    telemetry::start(config.log_format);
    let shutdown = CancellationToken::new();
    let watch = tokio::spawn(signals.watch(shutdown.clone()));
    let (ready, _) = tokio::sync::oneshot::channel();
    let result = Box::pin(serve::serve(config, shutdown, ready)).await;
    watch.abort();
    result
}

fn print_config(settings: &Settings) -> anyhow::Result<()> {
    use std::io::Write as _;
    let config = settings.load()?;
    let mut out = std::io::stdout().lock();
    for (name, value, source) in &config.report {
        let line = writeln!(out, "{name:<24} {value:<40} # {source}");
        match line {
            // `worktreed config | head` is no failure.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            line => line?,
        }
    }
    Ok(())
}
