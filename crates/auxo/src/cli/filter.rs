//! The flags that choose jobs, the same for looking and for moving.

use auxo::core::engine::Filter;
use auxo::{QueueName, State, Timestamp};

use super::args;

/// How many jobs one call looks at.
pub const PAGE: u32 = 1000;

/// Which jobs. All that are given must hold.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "Filter")]
pub struct FilterArgs {
    /// In this queue.
    #[arg(long, value_parser = args::queue)]
    queue: Option<QueueName>,
    /// In one of these states: scheduled, ready, leased, dead, done.
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',', value_parser = args::state)]
    states: Vec<State>,
    /// Of this kind.
    #[arg(long)]
    kind: Option<String>,
    /// With this key.
    #[arg(long)]
    key: Option<String>,
    /// In this group.
    #[arg(long)]
    group: Option<String>,
    /// With this header; may be given again.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = args::pair)]
    headers: Vec<(String, String)>,
    /// With this text in the last error.
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// With this text in kind, key, group, a header, the last error or the payload.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Pushed at or after.
    #[arg(long, value_name = "TIME", value_parser = args::timestamp)]
    created_from: Option<Timestamp>,
    /// Pushed before.
    #[arg(long, value_name = "TIME", value_parser = args::timestamp)]
    created_before: Option<Timestamp>,
    /// Due at or after.
    #[arg(long, value_name = "TIME", value_parser = args::timestamp)]
    due_from: Option<Timestamp>,
    /// Due before.
    #[arg(long, value_name = "TIME", value_parser = args::timestamp)]
    due_before: Option<Timestamp>,
}

impl From<FilterArgs> for Filter {
    fn from(args: FilterArgs) -> Filter {
        Filter {
            queue: args.queue,
            states: args.states,
            kind: args.kind,
            key: args.key,
            group: args.group,
            headers: args.headers.into_iter().collect(),
            error: args.error,
            search: args.search,
            created_from: args.created_from,
            created_before: args.created_before,
            due_from: args.due_from,
            due_before: args.due_before,
        }
    }
}
