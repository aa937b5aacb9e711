//! Who may call what, over every method there is.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::engine::{Ask, Change, Pick};
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::{JobSpec, NewJob, QueueName, SystemClock, Timestamp, When};
use auxo_proto::v1;
use auxo_proto::v1::events_client::EventsClient;
use auxo_proto::v1::jobs_client::JobsClient;
use auxo_proto::v1::workers_client::WorkersClient;
use auxo_server::{Auth, Patience, Settings, Token, TokenFile, Trail};
use bytes::{Buf, BufMut};
use futures_util::stream;
use prost::Message;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Request, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::bench::{Bench, ack, job, start, within};

/// A server that wants tokens, and the file that has them.
struct Guarded {
    bench: Bench,
    auth: Auth,
    file: TokenFile,
    _dir: TempDir,
}

impl Guarded {
    async fn start() -> Guarded {
        Guarded::with(|_| ()).await
    }

    async fn with(adjust: impl FnOnce(&mut Settings)) -> Guarded {
        let dir = tempfile::tempdir().unwrap();
        let file = TokenFile::new(dir.path().join("tokens.toml"));
        file.change(|tokens| Ok((tokens.clone(), ()))).unwrap();
        let clock = Arc::new(SystemClock::new(Timestamp(0)));
        // There are many wrong tokens in these tests.
        let patience = Patience {
            delay: Duration::from_millis(1),
            ..Patience::default()
        };
        let auth = Auth::open(file.clone(), clock, patience).unwrap();
        let settings = auth.clone();
        Guarded {
            bench: Bench::with(|with| {
                with.auth = settings;
                adjust(with);
            })
            .await,
            auth,
            file,
            _dir: dir,
        }
    }

    /// A new token, as it is shown.
    fn token(&self, allow: &[&str]) -> String {
        self.named(allow).1
    }

    fn named(&self, allow: &[&str]) -> (String, String) {
        let allow = allow.iter().map(|grant| grant.parse().unwrap()).collect();
        let (token, secret) = Token::new("t", allow, Timestamp(0), None).unwrap();
        let id = token.id.clone();
        self.file
            .change(|tokens| Ok((tokens.with(token), ())))
            .unwrap();
        self.auth.reload();
        (id, format!("Bearer {}", secret.reveal()))
    }

    fn revoke(&self, id: &str) {
        let revoked = |tokens: &auxo_server::Tokens| Ok(tokens.without(id).unwrap());
        self.file.change(revoked).unwrap();
        self.auth.reload();
    }

    /// Sends one message, and answers with the first that comes back.
    async fn call(&self, token: &str, path: &str, message: Vec<u8>) -> Result<Vec<u8>, Status> {
        let mut client = tonic::client::Grpc::new(self.bench.channel());
        client.ready().await.unwrap();
        let messages = with(token, stream::iter([message]));
        let path = path.parse().unwrap();
        within(async {
            let answer = client.streaming(messages, path, Raw).await?;
            let first = answer.into_inner().message().await?;
            Ok(first.unwrap_or_default())
        })
        .await
    }

    /// A job, as it was pushed.
    async fn push(&self, queue: &str) -> u64 {
        let queue = QueueName::new(queue).unwrap();
        let spec = JobSpec::default();
        let pushed = self.bench.service.push(vec![NewJob { queue, spec }]).await;
        pushed.unwrap().remove(0).unwrap().id.0
    }

    /// The lease of a new job.
    async fn lease(&self, queue: &str) -> String {
        self.push(queue).await;
        let leased = self.bench.service.lease(Ask {
            queues: vec![QueueName::new(queue).unwrap()],
            job: None,
            pick: Pick::First,
            max: 1,
            wait: Duration::ZERO,
            ttr: None,
            worker: "ada".into(),
        });
        leased.await.unwrap().remove(0).token.to_string()
    }

    /// A schedule of this name.
    async fn schedule(&self, name: &str, queue: &str) {
        let schedule = Schedule {
            name: name.to_owned(),
            queue: QueueName::new(queue).unwrap(),
            rhythm: Rhythm::Every(Duration::from_secs(3600)),
            missed: Missed::Skip,
            spec: JobSpec::default(),
            next: None,
            last: None,
        };
        let change = Change::Schedule(schedule);
        self.bench.service.change(change).await.unwrap();
    }
}

fn with<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if !token.is_empty() {
        let token = token.parse().unwrap();
        request.metadata_mut().insert("authorization", token);
    }
    request
}

/// Messages as bytes.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        Ok(Some(bytes.to_vec()))
    }
}

/// What a call is about, which says how it is answered to whoever has its right elsewhere.
#[derive(Clone, Copy, Debug, PartialEq)]
enum About {
    /// Everything there is: it needs its right everywhere.
    All,
    /// Queues that it names.
    Queues,
    /// A job or a schedule that it names.
    Thing,
    /// A job, of which it tells something even if there is none.
    Reason,
    /// Items that are answered one by one, with this error.
    Items(&'static str),
    /// A job that it wants: none comes.
    Wanted,
}

/// The parts of a request that a test chooses.
struct On<'a> {
    queue: &'a str,
    job: u64,
    lease: &'a str,
}

type Row = (&'static str, &'static str, About, fn(&On<'_>) -> Vec<u8>);

fn which(on: &On<'_>) -> Option<v1::Which> {
    let which = Some(v1::which::Which::Id(on.job));
    Some(v1::Which { which })
}

fn filter(on: &On<'_>) -> Option<v1::Filter> {
    Some(v1::Filter {
        queue: Some(on.queue.to_owned()),
        ..v1::Filter::default()
    })
}

fn pushes(on: &On<'_>) -> Vec<u8> {
    let jobs = vec![job(on.queue, "x")];
    v1::PushRequest { jobs }.encode_to_vec()
}

fn ask(on: &On<'_>) -> Vec<u8> {
    let queues = vec![on.queue.to_owned()];
    let ask = v1::LeaseRequest::default();
    v1::LeaseRequest { queues, ..ask }.encode_to_vec()
}

fn steer(target: v1::steer_request::Target) -> Vec<u8> {
    let cancel = v1::steer_request::Cancel {};
    v1::SteerRequest {
        target: Some(target),
        action: Some(v1::steer_request::Action::Cancel(cancel)),
        dry_run: false,
    }
    .encode_to_vec()
}

/// Every method, what its right is, and a call of it. Some are there twice, for the ways in which they name something.
const METHODS: &[Row] = &[
    ("Jobs/Push", "push", About::Items("forbidden"), pushes),
    ("Jobs/PushStream", "push", About::Items("forbidden"), pushes),
    ("Jobs/Get", "read", About::Thing, |on| {
        v1::GetJobRequest { which: which(on) }.encode_to_vec()
    }),
    ("Jobs/Get", "read", About::Queues, |on| {
        let (queue, key) = (on.queue.to_owned(), "k".to_owned());
        let key = v1::which::Which::Key(v1::which::Key { queue, key });
        let which = Some(v1::Which { which: Some(key) });
        v1::GetJobRequest { which }.encode_to_vec()
    }),
    ("Jobs/Explain", "read", About::Reason, |on| {
        v1::ExplainRequest { which: which(on) }.encode_to_vec()
    }),
    ("Jobs/List", "read", About::Queues, |on| {
        let filter = filter(on);
        let list = v1::ListJobsRequest::default();
        v1::ListJobsRequest { filter, ..list }.encode_to_vec()
    }),
    ("Jobs/List", "read", About::All, |_| Vec::new()),
    ("Jobs/Steer", "operate", About::Items("not_found"), |on| {
        let ids = vec![on.job];
        let ids = v1::steer_request::Ids { ids };
        steer(v1::steer_request::Target::Ids(ids))
    }),
    ("Jobs/Steer", "operate", About::Queues, |on| {
        let filter = filter(on);
        let all = v1::steer_request::Matching::default();
        let matching = v1::steer_request::Matching { filter, ..all };
        steer(v1::steer_request::Target::Matching(matching))
    }),
    ("Jobs/Steer", "operate", About::All, |_| {
        let filter = Some(v1::Filter::default());
        let all = v1::steer_request::Matching::default();
        let matching = v1::steer_request::Matching { filter, ..all };
        steer(v1::steer_request::Target::Matching(matching))
    }),
    ("Workers/Lease", "lease", About::Queues, ask),
    ("Workers/Lease", "lease", About::Wanted, |on| {
        let job = Some(on.job);
        let ask = v1::LeaseRequest::default();
        v1::LeaseRequest { job, ..ask }.encode_to_vec()
    }),
    ("Workers/Take", "lease", About::Queues, ask),
    (
        "Workers/Settle",
        "lease",
        About::Items("lease_lost"),
        |on| {
            let ack = v1::settle::Outcome::Ack(v1::settle::Ack::default());
            let items = vec![v1::Settle {
                token: on.lease.to_owned(),
                outcome: Some(ack),
            }];
            v1::SettleRequest { items }.encode_to_vec()
        },
    ),
    (
        "Workers/Extend",
        "lease",
        About::Items("lease_lost"),
        |on| {
            let items = vec![v1::Extend {
                token: on.lease.to_owned(),
                ..v1::Extend::default()
            }];
            v1::ExtendRequest { items }.encode_to_vec()
        },
    ),
    ("Workers/Work", "lease", About::Queues, |on| {
        start(on.queue, 0).encode_to_vec()
    }),
    ("Queues/List", "read", About::All, |_| Vec::new()),
    ("Queues/List", "read", About::Queues, |on| {
        let names = vec![on.queue.to_owned()];
        v1::ListQueuesRequest { names }.encode_to_vec()
    }),
    ("Queues/Get", "read", About::Queues, |on| {
        let queue = on.queue.to_owned();
        v1::GetQueueRequest { queue }.encode_to_vec()
    }),
    ("Queues/Configure", "operate", About::Queues, |on| {
        v1::ConfigureQueueRequest {
            queue: on.queue.to_owned(),
            config: Some(v1::QueueConfig::default()),
            only: Vec::new(),
        }
        .encode_to_vec()
    }),
    ("Queues/Pause", "operate", About::Queues, |on| {
        let queue = on.queue.to_owned();
        let both = v1::PauseQueueRequest::default();
        v1::PauseQueueRequest { queue, ..both }.encode_to_vec()
    }),
    ("Queues/Resume", "operate", About::Queues, |on| {
        let queue = on.queue.to_owned();
        let both = v1::ResumeQueueRequest::default();
        v1::ResumeQueueRequest { queue, ..both }.encode_to_vec()
    }),
    ("Queues/Purge", "operate", About::Queues, |on| {
        let queue = on.queue.to_owned();
        let all = v1::PurgeQueueRequest::default();
        v1::PurgeQueueRequest { queue, ..all }.encode_to_vec()
    }),
    ("Topics/List", "read", About::All, |_| Vec::new()),
    ("Topics/Subscribe", "operate", About::All, |on| {
        let subscription = v1::Subscription {
            topic: "news".to_owned(),
            name: "archive".to_owned(),
            queue: on.queue.to_owned(),
            pattern: None,
        };
        let subscription = Some(subscription);
        v1::SubscribeRequest { subscription }.encode_to_vec()
    }),
    ("Topics/Unsubscribe", "operate", About::All, |_| {
        let (topic, name) = ("news".to_owned(), "archive".to_owned());
        v1::UnsubscribeRequest { topic, name }.encode_to_vec()
    }),
    ("Topics/Publish", "push", About::All, |_| {
        let topic = "news".to_owned();
        let message = v1::PublishRequest::default();
        v1::PublishRequest { topic, ..message }.encode_to_vec()
    }),
    ("Schedules/List", "read", About::All, |_| Vec::new()),
    ("Schedules/Get", "read", About::Thing, |on| {
        let name = on.queue.to_owned();
        v1::GetScheduleRequest { name }.encode_to_vec()
    }),
    ("Schedules/Put", "operate", About::Queues, |on| {
        let schedule = Some(v1::Schedule {
            name: on.queue.to_owned(),
            queue: on.queue.to_owned(),
            rhythm: Some(v1::schedule::Rhythm::EveryMs(3_600_000)),
            ..v1::Schedule::default()
        });
        let armed = false;
        v1::PutScheduleRequest { schedule, armed }.encode_to_vec()
    }),
    ("Schedules/Put", "operate", About::Queues, |on| {
        // In a queue of everybody's, under the name of a schedule elsewhere.
        let schedule = Some(v1::Schedule {
            name: on.queue.to_owned(),
            queue: "mail.in".to_owned(),
            rhythm: Some(v1::schedule::Rhythm::EveryMs(3_600_000)),
            ..v1::Schedule::default()
        });
        let armed = false;
        v1::PutScheduleRequest { schedule, armed }.encode_to_vec()
    }),
    ("Schedules/Delete", "operate", About::Thing, |on| {
        let name = on.queue.to_owned();
        let delete = v1::DeleteScheduleRequest::default();
        v1::DeleteScheduleRequest { name, ..delete }.encode_to_vec()
    }),
    ("Events/Watch", "read", About::Queues, |on| {
        let queue = Some(on.queue.to_owned());
        let watch = v1::WatchRequest::default();
        v1::WatchRequest { queue, ..watch }.encode_to_vec()
    }),
    ("Events/Watch", "read", About::All, |_| Vec::new()),
    ("Stores/Audit", "admin", About::All, |_| Vec::new()),
    ("Stores/Passages", "admin", About::Queues, |on| {
        let queue = on.queue.to_owned();
        let page = v1::PassagesRequest::default();
        v1::PassagesRequest { queue, ..page }.encode_to_vec()
    }),
    ("Stores/Depart", "admin", About::Queues, |on| {
        let (id, version) = (on.job, None);
        v1::DepartRequest {
            queue: on.queue.to_owned(),
            jobs: vec![v1::Leaving { id, version }],
        }
        .encode_to_vec()
    }),
    ("Stores/Adopt", "admin", About::Queues, |on| {
        v1::AdoptRequest {
            queue: on.queue.to_owned(),
            store: "other".to_owned(),
            run: 7,
            step: v1::Step::Look.into(),
            jobs: Vec::new(),
        }
        .encode_to_vec()
    }),
];

#[test]
fn every_method_is_in_the_table() {
    let set = prost_types::FileDescriptorSet::decode(auxo_proto::DESCRIPTOR);
    let mut methods = Vec::new();
    for file in set.unwrap().file {
        for service in &file.service {
            let named = service.method.iter();
            methods.extend(named.map(|m| format!("{}/{}", service.name(), m.name())));
        }
    }
    for method in &methods {
        assert!(METHODS.iter().any(|row| row.0 == method), "{method}");
    }
    assert!(methods.len() > 20);
}

/// Makes the call of a row about a queue, with a job, a lease and a schedule of its own there.
async fn call(guarded: &Guarded, row: &Row, token: &str, queue: &str) -> Result<Vec<u8>, Status> {
    // An earlier row may have paused it.
    guarded.bench.make(queue).await;
    let lease = guarded.lease(queue).await;
    let job = guarded.push(queue).await;
    guarded.schedule(queue, queue).await;
    let on = On {
        queue,
        job,
        lease: &lease,
    };
    let path = format!("/auxo.v1.{}", row.0);
    guarded.call(token, &path, row.3(&on)).await
}

/// The code of the only item of an answer, if that is an error.
fn item(method: &str, answer: &[u8]) -> Option<String> {
    use v1::{extend_result, push_result, settle_result, steer_result};
    let error = match method {
        "Jobs/Push" | "Jobs/PushStream" => {
            let mut results = v1::PushResponse::decode(answer).unwrap().results;
            match results.remove(0).result.unwrap() {
                push_result::Result::Error(error) => Some(error),
                push_result::Result::Ok(_) => None,
            }
        }
        "Jobs/Steer" => {
            let mut results = v1::SteerResponse::decode(answer).unwrap().results;
            match results.remove(0).result.unwrap() {
                steer_result::Result::Error(error) => Some(error),
                steer_result::Result::Ok(_) => None,
            }
        }
        "Workers/Settle" => {
            let mut results = v1::SettleResponse::decode(answer).unwrap().results;
            match results.remove(0).result.unwrap() {
                settle_result::Result::Error(error) => Some(error),
                settle_result::Result::Ok(_) => None,
            }
        }
        "Workers/Extend" => {
            let mut results = v1::ExtendResponse::decode(answer).unwrap().results;
            match results.remove(0).result.unwrap() {
                extend_result::Result::Error(error) => Some(error),
                extend_result::Result::Ok(_) => None,
            }
        }
        other => panic!("{other} has no items"),
    };
    error.map(|error| error.code)
}

#[tokio::test]
async fn no_method_answers_who_shows_no_right_token() {
    let guarded = Guarded::start().await;
    let wrong = "Bearer auxo_aaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    for row in METHODS {
        let refused = call(&guarded, row, "", "mail.in").await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{}", row.0);
        let refused = call(&guarded, row, wrong, "mail.in").await.unwrap_err();
        // Too many wrong ones come from here, which is said instead after a while.
        let slow = refused.code() == Code::ResourceExhausted;
        assert!(
            slow || refused.code() == Code::Unauthenticated,
            "{}: {refused:?}",
            row.0
        );
    }
    let mut health = HealthClient::new(guarded.bench.channel());
    let question = HealthCheckRequest::default();
    assert!(within(health.check(question)).await.is_ok());
}

#[tokio::test]
async fn a_token_without_the_verb_is_refused_everywhere_and_one_with_it_is_not() {
    let guarded = Guarded::start().await;
    let all = ["push", "lease", "read", "operate"];
    let admin = guarded.token(&["admin:*"]);
    for row in METHODS {
        let (method, verb) = (row.0, row.1);
        let others: Vec<String> = all
            .iter()
            .filter(|other| **other != verb)
            .map(|other| format!("{other}:*"))
            .collect();
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        let without = guarded.token(&others);
        let refused = call(&guarded, row, &without, "mail.in").await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{method}");
        for enough in [&guarded.token(&[&format!("{verb}:*")]), &admin] {
            let answer = call(&guarded, row, enough, "mail.in").await;
            let code = answer.as_ref().err().map(Status::code);
            // Nobody made the subscription, or a job with the key: but that was found out.
            let named = matches!(method, "Topics/Unsubscribe" | "Jobs/Get");
            let fine = named && row.2 != About::Thing && code == Some(Code::NotFound);
            assert!(fine || answer.is_ok(), "{method}: {answer:?}");
            if let (About::Items(_), Ok(answer)) = (row.2, &answer) {
                assert_eq!(item(method, answer), None, "{method}");
            }
        }
    }
}

#[tokio::test]
async fn a_narrow_token_is_good_for_its_queues_and_for_nothing_in_others() {
    let guarded = Guarded::start().await;
    for row in METHODS {
        let (method, about) = (row.0, row.2);
        let narrow = guarded.token(&[&format!("{}:mail.*", row.1)]);
        let own = call(&guarded, row, &narrow, "mail.in").await;
        let foreign = call(&guarded, row, &narrow, "bills").await;
        let code = |answer: &Result<_, Status>| answer.as_ref().err().map(Status::code);
        if about == About::All {
            assert_eq!(code(&own), Some(Code::PermissionDenied), "{method}");
        } else {
            // No job has the key, so the queue is all that is asked about.
            let is_fine = own.is_ok() || code(&own) == Some(Code::NotFound);
            assert!(is_fine, "{method}: {own:?}");
        }
        match about {
            About::All | About::Queues => {
                assert_eq!(code(&foreign), Some(Code::PermissionDenied), "{method}");
            }
            About::Thing => assert_eq!(code(&foreign), Some(Code::NotFound), "{method}"),
            About::Reason => {
                let told = v1::Explanation::decode(&*foreign.unwrap()).unwrap();
                assert_eq!((&*told.reason, told.queue), ("unknown_job", None));
                let told = v1::Explanation::decode(&*own.unwrap()).unwrap();
                assert_eq!(told.queue.as_deref(), Some("mail.in"));
            }
            About::Items(error) => {
                assert_eq!(item(method, &foreign.unwrap()).as_deref(), Some(error));
                assert_eq!(item(method, &own.unwrap()), None, "{method}");
            }
            About::Wanted => {
                let count = |answer: Result<Vec<u8>, Status>| {
                    let leased = v1::LeaseResponse::decode(&*answer.unwrap()).unwrap();
                    leased.jobs.len()
                };
                assert_eq!((count(foreign), count(own)), (0, 1));
            }
        }
    }
    // Nothing of all that has touched what is not its own.
    let counts = guarded.bench.counts("bills").await;
    let rows = METHODS.len() as u64;
    assert_eq!((counts.leased, counts.ready), (rows, rows));
}

#[tokio::test]
async fn what_a_token_may_not_see_is_told_like_what_is_not_there() {
    let guarded = Guarded::start().await;
    let narrow = guarded.token(&["read:mail.*"]);
    let foreign = guarded.push("bills").await;
    let mut said = Vec::new();
    for id in [foreign, 7] {
        let which = Some(v1::which::Which::Id(id));
        let which = Some(v1::Which { which });
        let asked = v1::GetJobRequest { which };
        let mut jobs = JobsClient::new(guarded.bench.channel());
        let status = within(jobs.get(with(&narrow, asked))).await.unwrap_err();
        let about = status.metadata().get("auxo-job").cloned();
        assert_eq!(about.unwrap(), id.to_string());
        let text = status.message().replace(&id.to_string(), "ID");
        said.push((status.code(), text));
    }
    assert_eq!(said[0], said[1]);
    // One queue of several is enough to be refused.
    let lease = guarded.token(&["lease:mail.*"]);
    let queues = vec!["mail.in".to_owned(), "bills".to_owned()];
    let ask = v1::LeaseRequest::default();
    let ask = v1::LeaseRequest { queues, ..ask };
    let mut workers = WorkersClient::new(guarded.bench.channel());
    let refused = within(workers.lease(with(&lease, ask))).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(refused.message().contains("lease:bills"), "{refused:?}");
}

#[tokio::test]
async fn a_job_that_may_not_be_pushed_does_not_touch_the_others_of_its_batch() {
    let guarded = Guarded::start().await;
    let narrow = guarded.token(&["push:mail.*"]);
    let jobs = vec![job("mail.in", "a"), job("bills", "b"), job("mail.in", "c")];
    let (say, said) = mpsc::channel(1);
    let mut client = JobsClient::new(guarded.bench.channel());
    let heard = client.push_stream(with(&narrow, messages(said)));
    let mut heard = within(heard).await.unwrap().into_inner();
    // The stream goes on after it, too.
    for round in 1..=2 {
        let jobs = jobs.clone();
        say.send(v1::PushRequest { jobs }).await.unwrap();
        let answer = within(heard.message()).await.unwrap().unwrap();
        let is_ok =
            |result: &v1::PushResult| matches!(result.result, Some(v1::push_result::Result::Ok(_)));
        let ok: Vec<bool> = answer.results.iter().map(is_ok).collect();
        assert_eq!(ok, [true, false, true]);
        assert_eq!(guarded.bench.counts("mail.in").await.ready, 2 * round);
    }
    assert_eq!(guarded.bench.counts("bills").await.ready, 0);
}

fn messages<T: Send + 'static>(
    mut from: mpsc::Receiver<T>,
) -> impl futures_util::Stream<Item = T> + Send + 'static {
    stream::poll_fn(move |cx| from.poll_recv(cx))
}

/// A worker's stream that shows a token.
async fn work(
    guarded: &Guarded,
    token: &str,
    queue: &str,
) -> (mpsc::Sender<v1::WorkRequest>, Streaming<v1::WorkResponse>) {
    let (say, said) = mpsc::channel(4);
    say.send(start(queue, 1)).await.unwrap();
    let mut client = WorkersClient::new(guarded.bench.channel());
    let heard = within(client.work(with(token, messages(said)))).await;
    (say, heard.unwrap().into_inner())
}

#[tokio::test]
async fn a_stream_settles_its_own_jobs_and_not_those_of_other_queues() {
    let guarded = Guarded::start().await;
    let narrow = guarded.token(&["lease:mail.*"]);
    let foreign = guarded.lease("bills").await;
    // Of a queue of its own, but from another call.
    let other = guarded.lease("mail.out").await;
    guarded.push("mail.in").await;
    let (say, mut hear) = work(&guarded, &narrow, "mail.in").await;
    let jobs = within(hear.message()).await.unwrap().unwrap().jobs;
    let settle = |token: &str| v1::Settle {
        token: token.to_owned(),
        ..ack(&jobs[0])
    };
    let extend = |token: &str| v1::Extend {
        token: token.to_owned(),
        ..v1::Extend::default()
    };
    let all = [&*foreign, &other, &jobs[0].token];
    let request = v1::WorkRequest {
        extend: all.map(extend).into(),
        ..v1::WorkRequest::default()
    };
    say.send(request).await.unwrap();
    let extended = within(hear.message()).await.unwrap().unwrap().extended;
    let lost = |result: &v1::ExtendResult| match result.result.as_ref().unwrap() {
        v1::extend_result::Result::Error(error) => error.code == "lease_lost",
        v1::extend_result::Result::Ok(_) => false,
    };
    assert_eq!(
        extended.iter().map(lost).collect::<Vec<_>>(),
        [true, false, false]
    );
    let request = v1::WorkRequest {
        settle: all.map(settle).into(),
        ..v1::WorkRequest::default()
    };
    say.send(request).await.unwrap();
    let settled = within(hear.message()).await.unwrap().unwrap().settled;
    let lost = |result: &v1::SettleResult| match result.result.as_ref().unwrap() {
        v1::settle_result::Result::Error(error) => error.code == "lease_lost",
        v1::settle_result::Result::Ok(_) => false,
    };
    assert_eq!(
        settled.iter().map(lost).collect::<Vec<_>>(),
        [true, false, false]
    );
    assert_eq!(guarded.bench.counts("bills").await.leased, 1);
}

#[tokio::test]
async fn a_token_that_is_revoked_ends_what_it_had_begun() {
    let guarded = Guarded::start().await;
    let (id, token) = guarded.named(&["push:mail.*", "lease:mail.*", "read:mail.*"]);
    let channel = guarded.bench.channel();
    // A stream that holds a job, a lease that waits, somebody who watches, and one who pushes.
    guarded.push("mail.in").await;
    let (_say, mut busy) = work(&guarded, &token, "mail.in").await;
    assert_eq!(within(busy.message()).await.unwrap().unwrap().jobs.len(), 1);
    guarded.bench.make("mail.out").await;
    let ask = v1::LeaseRequest {
        queues: vec!["mail.out".to_owned()],
        wait_ms: 60_000,
        ..v1::LeaseRequest::default()
    };
    let mut workers = WorkersClient::new(channel.clone());
    let (say, said) = mpsc::channel(1);
    say.send(ask).await.unwrap();
    let take = with(&token, messages(said));
    let take = tokio::spawn(async move { workers.take(take).await });
    guarded.bench.until_asked("mail.out").await;
    let mut events = EventsClient::new(channel.clone());
    let watch = v1::WatchRequest {
        queue: Some("mail.in".to_owned()),
        ..v1::WatchRequest::default()
    };
    let told = within(events.watch(with(&token, watch))).await;
    let mut told = told.unwrap().into_inner();
    within(told.message()).await.unwrap().unwrap();
    let (push, pushed) = mpsc::channel(1);
    let mut jobs = JobsClient::new(channel);
    let answers = jobs.push_stream(with(&token, messages(pushed)));
    let mut answers = within(answers).await.unwrap().into_inner();
    let jobs = vec![job("mail.later", "x")];
    push.send(v1::PushRequest { jobs }).await.unwrap();
    within(answers.message()).await.unwrap().unwrap();

    guarded.revoke(&id);
    let end = within(busy.message()).await.unwrap_err();
    assert_eq!(end.code(), Code::Unauthenticated, "{end:?}");
    // Who hears the end knows that everything is back.
    assert_eq!(guarded.bench.counts("mail.in").await.ready, 1);
    let leased = within(take).await.unwrap().unwrap().into_inner();
    assert!(leased.jobs.is_empty());
    let end = loop {
        // What happened before may still be told.
        match within(told.message()).await {
            Ok(message) => assert!(message.is_some(), "it ended without a word"),
            Err(end) => break end,
        }
    };
    assert_eq!(end.code(), Code::Unauthenticated, "{end:?}");
    let end = within(answers.message()).await.unwrap_err();
    assert_eq!(end.code(), Code::Unauthenticated, "{end:?}");
    assert_eq!(guarded.bench.counts("mail.later").await.ready, 1);
}

#[tokio::test]
async fn every_call_that_operates_is_written_down_and_no_other_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    let trail = Trail::open(&path).unwrap();
    let guarded = Guarded::with(|settings| settings.trail = trail).await;
    let (id, token) = guarded.named(&["admin:*"]);
    let lines = || -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    };
    for row in METHODS {
        let (method, verb) = (row.0, row.1);
        let before = lines().len();
        let answer = call(&guarded, row, &token, "mail.in").await;
        let looks = matches!(method, "Stores/Audit" | "Stores/Passages" | "Stores/Adopt");
        let moves = matches!(verb, "operate" | "admin") && !looks;
        let new = lines().split_off(before);
        assert_eq!(new.len(), if moves { 2 } else { 0 }, "{method}: {new:?}");
        if let [asked, ended] = &new[..] {
            assert_eq!(
                (&asked["via"], &asked["who"]),
                (&"grpc".into(), &"t".into())
            );
            assert_eq!(
                (&asked["token"], &asked["from"]),
                (&id.as_str().into(), &"127.0.0.1".into())
            );
            assert!(asked["what"].is_string() && asked["at"].is_string());
            assert_eq!(asked["move"], ended["move"]);
            assert_eq!(ended["outcome"] == "done", answer.is_ok(), "{ended}");
        }
    }
}

#[tokio::test]
async fn a_lease_by_id_of_what_is_held_back_needs_operate_and_is_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    let trail = Trail::open(&path).unwrap();
    let guarded = Guarded::with(|settings| settings.trail = trail).await;
    let worker = guarded.token(&["lease:mail"]);
    let operator = guarded.token(&["lease:mail", "operate:mail"]);
    let scheduled = NewJob {
        queue: QueueName::new("mail").unwrap(),
        spec: JobSpec {
            when: When::After(Duration::from_secs(3600)),
            ..JobSpec::default()
        },
    };
    let pushed = guarded.bench.service.push(vec![scheduled]).await;
    let id = pushed.unwrap().remove(0).unwrap().id.0;
    let lease = async |token: &str| {
        let request = v1::LeaseRequest {
            job: Some(id),
            ..v1::LeaseRequest::default()
        };
        guarded.bench.workers().lease(with(token, request)).await
    };
    let refused = lease(&worker).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(refused.message().contains("operate:mail"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    let leased = lease(&operator).await.unwrap().into_inner();
    assert_eq!(leased.jobs[0].job.as_ref().unwrap().id, id);
    let written = std::fs::read_to_string(&path).unwrap();
    let lines = written
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<serde_json::Value> = lines.collect();
    assert_eq!(lines.len(), 2, "{written}");
    assert_eq!(
        (&lines[0]["what"], &lines[1]["moved"]),
        (&"lease".into(), &1.into())
    );
}

#[tokio::test]
async fn a_token_for_some_queues_makes_no_more_of_them_than_its_share() {
    let guarded = Guarded::with(|settings| settings.queue_share = 2).await;
    let token = guarded.token(&["push:a.*"]);
    for (queue, made) in [("a.1", true), ("a.2", true), ("a.3", false), ("a.1", true)] {
        let request = v1::PushRequest {
            jobs: vec![job(queue, "x")],
        };
        let answer = guarded.bench.jobs().push(with(&token, request)).await;
        let result = answer.unwrap().into_inner().results.remove(0);
        match result.result.unwrap() {
            v1::push_result::Result::Ok(_) => assert!(made, "{queue}"),
            v1::push_result::Result::Error(error) => {
                assert!(!made, "{queue}: {error:?}");
                assert!(error.message.contains("share of 2 queues"), "{error:?}");
            }
        }
    }
}
