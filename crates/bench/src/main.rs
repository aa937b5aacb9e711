//! The `auxo-bench` command; see the library.

fn main() -> std::process::ExitCode {
    auxo_bench::main(std::env::args().skip(1).collect(), &[])
}
