//! `auxo topics`

use auxo::QueueName;
use auxo::core::When;
use auxo::core::engine::{Change, Message};
use auxo::core::json::show;
use auxo::core::topic::{Pattern, Subscription};
use serde_json::json;

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::output::clean;
use super::spec::{SpecArgs, WhenArgs};

const EXAMPLES: &str = "\
Examples:
  auxo topics subscribe orders billing billing-queue
  auxo topics subscribe orders shipping shipping-queue --pattern 'order.*.paid'
  auxo topics publish orders '{\"id\":7}' --routing-key order.7.paid
  auxo topics";

/// Fan-out: publish to a topic, and every subscription's queue gets a job.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Show all subscriptions, as without a command.
    List,
    /// Add or replace a subscription.
    Subscribe(SubscribeArgs),
    /// Remove a subscription; its queue and jobs stay.
    Unsubscribe {
        /// The topic.
        topic: String,
        /// The subscription.
        name: String,
    },
    /// Put one job into the queue of each subscription that wants the message, and print the ids.
    Publish(Box<PublishArgs>),
}

#[derive(clap::Args)]
struct SubscribeArgs {
    /// The topic.
    topic: String,
    /// The subscription's name, unique within the topic.
    name: String,
    /// The queue that gets the jobs.
    #[arg(value_parser = args::queue)]
    queue: QueueName,
    /// Which routing keys: `*` stands for one word, `#` for any number of words. All if not given.
    #[arg(long, value_parser = args::pattern)]
    pattern: Option<Pattern>,
}

#[derive(clap::Args)]
struct PublishArgs {
    /// The topic.
    topic: String,
    /// What patterns are matched against: words separated by dots.
    #[arg(long, value_name = "KEY")]
    routing_key: Option<String>,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    when: WhenArgs,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    match args.verb {
        None | Some(Verb::List) => list(context).await,
        Some(Verb::Subscribe(args)) => subscribe(args, context).await,
        Some(Verb::Unsubscribe { topic, name }) => unsubscribe(topic, name, context).await,
        Some(Verb::Publish(args)) => publish(*args, context).await,
    }
}

async fn list(context: &mut Context) -> Result<(), Failure> {
    let auxo = context.open(Missing::Refuse).await?;
    let subscriptions = auxo.service().catalog().await?.subscriptions;
    let output = &mut context.output;
    if output.is_json() {
        let mut lines = subscriptions.iter().map(show::subscription);
        return lines.try_for_each(|line| output.json(&line));
    }
    if subscriptions.is_empty() {
        eprintln!("no subscription yet");
        return Ok(());
    }
    let row = |subscription: &Subscription| {
        let pattern = subscription.pattern.as_ref().map_or("", Pattern::as_str);
        [
            clean(&subscription.topic, 200),
            clean(&subscription.name, 200),
            subscription.queue.to_string(),
            clean(pattern, 255),
        ]
    };
    output.table(
        1,
        ["TOPIC", "SUBSCRIPTION", "QUEUE", "PATTERN"],
        subscriptions.iter().map(row),
    )
}

async fn subscribe(args: SubscribeArgs, context: &mut Context) -> Result<(), Failure> {
    let auxo = context.open(Missing::Create).await?;
    let subscription = Subscription {
        topic: args.topic,
        name: args.name,
        queue: args.queue,
        pattern: args.pattern,
    };
    let change = Change::Subscribe(subscription.clone());
    auxo.service().change(change).await?;
    if context.output.is_json() {
        return context.output.json(&show::subscription(&subscription));
    }
    eprintln!(
        "messages of {} go to {} now",
        subscription.topic, subscription.queue
    );
    Ok(())
}

async fn unsubscribe(topic: String, name: String, context: &mut Context) -> Result<(), Failure> {
    let auxo = context.open(Missing::Refuse).await?;
    let change = Change::Unsubscribe(topic.clone(), name.clone());
    auxo.service().change(change).await?;
    if context.output.is_json() {
        let removed = json!({ "topic": topic, "name": name, "removed": true });
        return context.output.json(&removed);
    }
    let (topic, name) = (clean(&topic, 200), clean(&name, 200));
    eprintln!("subscription {name} of {topic} is gone; its queue and jobs stay");
    Ok(())
}

async fn publish(args: PublishArgs, context: &mut Context) -> Result<(), Failure> {
    let spec = args.spec.into_spec(args.when.when().unwrap_or(When::Now))?;
    let auxo = context.open(Missing::Refuse).await?;
    let message = Message {
        topic: args.topic,
        routing_key: args.routing_key,
        spec,
    };
    let jobs = auxo.service().publish(message).await?;
    if jobs.is_empty() {
        eprintln!("no subscription wants this message, so there is no job");
    }
    let output = &mut context.output;
    jobs.iter().try_for_each(|pushed| {
        if output.is_json() {
            output.json(&show::pushed(pushed))
        } else {
            output.line(pushed.id)
        }
    })
}
