//! `stub-model`: the stub model server by hand, until interrupted.

use std::io::{self, Read};
use std::process::ExitCode;

use clap::Parser;
use moored_real_omp_gated::StubModel;

/// A deterministic model server on loopback (OpenAI chat completions and responses, Gemini).
///
/// The last `[[stub:NAME key=value]]` in the last user message chooses the answer: text, slow,
/// think, bash, tool, hang, stall, http, length, refusal, content_filter, drop, eof, malformed,
/// garbage, empty, recall. It serves until its standard input ends or it is interrupted.
#[derive(Parser)]
#[command(name = "stub-model", version)]
struct Arguments {
    /// The port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let model = match StubModel::start_on(arguments.port) {
        Ok(model) => model,
        Err(error) => {
            eprintln!("stub-model: cannot listen on port {}: {error}", arguments.port);
            return ExitCode::from(2);
        }
    };
    println!("{{\"port\":{},\"base_url\":\"{}\"}}", model.port, model.base_url());
    // Whatever ends the input, it has ended.
    io::stdin().read_to_end(&mut Vec::new()).ok();
    ExitCode::SUCCESS
}
