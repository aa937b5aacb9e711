//! The `auxo` command: every move of the queue from a shell.

mod cli;

// Many small, short-lived objects on every worker thread: the system's allocator has them wait for each other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::main()
}
