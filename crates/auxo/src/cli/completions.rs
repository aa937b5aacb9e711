//! `auxo completions`

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use super::context::Context;
use super::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  auxo completions bash > ~/.local/share/bash-completion/completions/auxo
  auxo completions zsh > ~/.zfunc/_auxo
  auxo completions fish > ~/.config/fish/completions/auxo.fish";

/// Print a script that teaches your shell to complete auxo's verbs and flags.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Your shell.
    shell: Shell,
}

pub fn run(args: &Args, context: &mut Context) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut super::Cli::command(),
        "auxo",
        // Written as a whole below, where a closed pipe is an error and no panic.
        &mut script as &mut dyn Write,
    );
    context.output.bytes(&script)
}
