//! The `auxo` command: every move of the queue from a shell.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
