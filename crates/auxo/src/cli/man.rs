//! `auxo man`

use std::path::PathBuf;

use auxo::Error;
use clap::CommandFactory;

use super::context::Context;
use super::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  auxo man | man -l -                               read the first page
  auxo man ~/.local/share/man/man1                  one page for each verb

With DIR, the names of the pages that were written are printed.";

/// Print the manual page, or write one for each verb into a directory.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where to write the pages; made if need be.
    dir: Option<PathBuf>,
}

pub fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let mut command = super::Cli::command();
    command.build();
    let Some(dir) = args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        return context.output.bytes(&page);
    };
    let refused = |error| Error::bad_request(format!("{}: {error}", dir.display()));
    std::fs::create_dir_all(&dir).map_err(refused)?;
    for (name, command) in pages(&command) {
        let path = dir.join(format!("{name}.1"));
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        std::fs::write(&path, page).map_err(refused)?;
        context.output.line(path.display())?;
    }
    Ok(())
}

/// The command and all verbs below it, each with the name of its page.
fn pages(command: &clap::Command) -> Vec<(String, clap::Command)> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let own = (name.to_owned(), command.clone());
    let below = command
        .get_subcommands()
        .filter(|verb| verb.get_name() != "help")
        .flat_map(pages);
    std::iter::once(own).chain(below).collect()
}
