//! The temporary sole right to a job.

use auxo_core::engine::{Ask, Extend, Holds, NamedJob};
use auxo_core::job::{DeadReason, Leased, Ttl};
use auxo_core::life::Event;
use auxo_core::queue::QueueConfig;
use auxo_core::{Code, JobId, JobSpec, Result, State, Token};

use crate::bench::*;

/// What a lease hands out is the job, its attempt counted, and who has it until when.
pub async fn a_lease_shows_the_job_and_its_holder(t: &Bench) {
    let spec = JobSpec {
        payload: text("p"),
        ttr: secs(30),
        ..plain()
    };
    let id = t.push(spec).await;
    let leased = t.one().await;
    assert_eq!(leased.token.job, id);
    assert_eq!(leased.deadline, t.wall().plus(secs(30)));
    assert_eq!((leased.job.id, leased.job.attempt), (id, 1));
    assert_eq!(leased.job.payload, text("p"));
    for job in [leased.job, t.job(id).await] {
        assert_eq!((job.state, job.attempt), (State::Leased, 1));
        let holder = job.holder.expect("a holder");
        assert_eq!(&*holder.worker, "worker-1");
        assert_eq!(holder.deadline, leased.deadline);
        assert!(!holder.cancel);
    }
}

/// One job, one lease.
pub async fn a_leased_job_is_not_handed_out_again(t: &Bench) {
    t.push(plain()).await;
    t.one().await;
    assert!(t.idle().await);
    t.pass(ms(59_999));
    assert!(t.idle().await);
}

/// The asker may want another lease length than the job's own.
pub async fn a_lease_length_can_be_asked_for(t: &Bench) {
    let id = t.push(plain()).await;
    let ask = Ask {
        ttr: Some(secs(5)),
        ..asking(&[queue()], 1, ms(0))
    };
    let leased = t.engine.lease(ask).await.unwrap().remove(0);
    assert_eq!(leased.deadline, t.wall().plus(secs(5)));
    t.pass(ms(4_999));
    assert_eq!(t.state(id).await, Some(State::Leased));
    t.pass(ms(1));
    assert_eq!(t.state(id).await, Some(State::Ready));
}

pub(super) async fn lease_named(t: &Bench, id: JobId, holds: Holds) -> Result<Option<Leased>> {
    let ask = Ask {
        job: Some(NamedJob { id, holds }),
        ..asking(&[], 1, ms(0))
    };
    t.engine.lease(ask).await.map(|mut leased| leased.pop())
}

async fn lease_job(t: &Bench, id: JobId) -> Option<Leased> {
    lease_named(t, id, Holds::Bypass).await.unwrap()
}

/// A job can be leased by its name, whoever stands before it in line.
pub async fn a_named_job_is_leased_past_its_line(t: &Bench) {
    let pushed = t.push_many(3, plain()).await;
    let leased = lease_job(t, pushed[1]).await.expect("the job");
    assert_eq!((leased.job.id, leased.job.attempt), (pushed[1], 1));
    assert_eq!(t.state(pushed[1]).await, Some(State::Leased));
    assert_eq!(lease_job(t, pushed[1]).await, None);
    let mut others = t.order(10).await;
    others.sort();
    assert_eq!(others, [pushed[0], pushed[2]]);
    t.settle(leased.token, ack()).await;
    assert_eq!(lease_job(t, pushed[1]).await, None);
    t.check_books().await;
}

/// A named job that is not due, or dead, is kicked before it is lent.
pub async fn a_named_job_need_not_be_due(t: &Bench) {
    let scheduled = t.push(later(secs(1000))).await;
    let dead = t.push(plain()).await;
    t.work(bury("no")).await;
    for id in [scheduled, dead] {
        let leased = lease_job(t, id).await.expect("the job");
        assert_eq!(leased.job.id, id);
        let seen = leased.job.timeline.iter().map(|seen| seen.event);
        let last: Vec<Event> = seen.rev().take(2).collect();
        assert_eq!(last, [Event::Lease, Event::Kick]);
        assert_eq!(leased.job.dead, None);
        assert_eq!(t.settle(leased.token, release()).await.state, State::Ready);
    }
    let leased = t.take(10).await;
    assert_eq!(leased.len(), 2);
    t.check_books().await;
}

/// A job whose life is over is not lent, by whatever name.
pub async fn a_named_job_that_expired_is_not_lent(t: &Bench) {
    let spec = JobSpec {
        ttl: Ttl::After(secs(10)),
        ..plain()
    };
    let id = t.push(spec).await;
    t.pass(secs(10));
    assert_eq!(lease_job(t, id).await, None);
    assert_eq!(t.state(id).await, Some(State::Dead));
    assert_eq!(lease_job(t, JobId(id.0 + 1)).await, None);
    t.check_books().await;
}

/// A job that died of something else can be lent by its name after its life, too: it starts again, as after a kick.
pub async fn a_named_job_that_died_before_its_life_was_over_is_lent(t: &Bench) {
    let spec = JobSpec {
        ttl: Ttl::After(secs(10)),
        ..plain()
    };
    let id = t.push(spec).await;
    t.work(bury("no")).await;
    t.pass(secs(10));
    let leased = lease_job(t, id).await.expect("the job");
    assert_eq!(leased.job.id, id);
    assert_eq!(t.settle(leased.token, release()).await.state, State::Ready);
    assert_eq!(t.order(10).await, [id]);
}

/// Who names a job takes it past the settings of its queue, and its lease counts as any other.
pub async fn a_named_job_is_leased_past_the_settings_of_its_queue(t: &Bench) {
    let pushed = t.push_many(3, plain()).await;
    t.configure(QueueConfig {
        paused_out: true,
        max_leased: Some(1),
        ..QueueConfig::default()
    })
    .await;
    for id in &pushed[..2] {
        assert!(lease_job(t, *id).await.is_some());
    }
    assert_eq!(t.info().await.counts.leased, 2);
    t.configure(QueueConfig {
        max_leased: Some(2),
        ..QueueConfig::default()
    })
    .await;
    assert!(t.idle().await);
}

/// A named job comes back at its deadline like any other, and to who waits.
pub async fn a_named_job_comes_back_at_its_deadline(t: &Bench) {
    let id = t.push(plain()).await;
    let leased = lease_job(t, id).await.expect("the job");
    assert_eq!(leased.deadline, t.wall().plus(secs(60)));
    let task = t.wait_on(&[queue()], 1).await;
    t.until_waiting(&queue(), 1).await;
    t.pass(secs(60));
    let again = t.answer(task).await.remove(0);
    assert_eq!((again.job.id, again.job.vanished), (id, 1));
    assert_eq!(
        code(t.try_settle(leased.token, ack()).await),
        Code::LeaseLost
    );
}

/// A named job that is delivered at most once is done when it is handed out.
pub async fn a_named_job_without_lease_time_is_done(t: &Bench) {
    let spec = JobSpec {
        ttr: ms(0),
        payload: text("p"),
        ..plain()
    };
    let id = t.push(spec).await;
    let leased = lease_job(t, id).await.expect("the job");
    assert_eq!(
        (leased.job.state, leased.job.payload),
        (State::Done, text("p"))
    );
    assert_eq!(lease_job(t, id).await, None);
    t.check_books().await;
}

/// At the deadline the job comes back by itself, and not a millisecond before.
pub async fn a_vanished_job_comes_back_at_the_deadline(t: &Bench) {
    let id = t.push(plain()).await;
    let first = t.one().await;
    t.pass(ms(59_999));
    assert_eq!(t.state(id).await, Some(State::Leased));
    t.pass(ms(1));
    let job = t.job(id).await;
    assert_eq!((job.state, job.holder), (State::Ready, None));
    assert_eq!((job.attempt, job.vanished, job.failures), (1, 1, 0));
    assert_eq!(job.last_error, None);
    let second = t.one().await;
    assert_eq!((second.job.id, second.job.attempt), (id, 2));
    assert_ne!(first.token, second.token);
}

/// A worker that was too slow changes nothing, whether or not somebody else has the job by then.
pub async fn a_late_worker_is_refused(t: &Bench) {
    let id = t.push(plain()).await;
    let late = t.one().await;
    t.pass(secs(60));
    assert_lost(t, late.token).await;
    assert_eq!(t.state(id).await, Some(State::Ready));
    let holder = t.one().await;
    assert_lost(t, late.token).await;
    assert_eq!(t.state(id).await, Some(State::Leased));
    assert_eq!(t.settle(holder.token, ack()).await.state, State::Done);
    assert_lost(t, late.token).await;
}

/// Only the whole token counts.
pub async fn a_forged_token_is_refused(t: &Bench) {
    let ids = t.push_many(2, plain()).await;
    let [first, second] = t.take(2).await.try_into().unwrap();
    let Token {
        job,
        counter,
        nonce,
    } = first.token;
    let forged = [
        Token {
            job,
            counter: counter + 7,
            nonce,
        },
        Token {
            job,
            counter,
            nonce: nonce ^ 1,
        },
        Token {
            job: second.token.job,
            ..first.token
        },
        Token {
            job: JobId(1),
            counter,
            nonce,
        },
    ];
    for token in forged {
        assert_lost(t, token).await;
    }
    for id in ids {
        assert_eq!(t.state(id).await, Some(State::Leased));
    }
}

/// Tokens of one job rise from lease to lease, so that they can fence an outside database.
pub async fn the_tokens_of_a_job_rise(t: &Bench) {
    t.push(plain()).await;
    let mut last = 0;
    for _ in 0..5 {
        let leased = t.one().await;
        assert!(leased.token.counter > last);
        last = leased.token.counter;
        t.settle(leased.token, release()).await;
    }
}

/// A lease call hands out as many different tokens as jobs.
pub async fn every_lease_has_a_token_of_its_own(t: &Bench) {
    t.push_many(20, plain()).await;
    let mut tokens: Vec<Token> = t.take(20).await.iter().map(|l| l.token).collect();
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 20);
}

/// Extending counts from now, with the length the lease was given.
pub async fn an_extended_lease_goes_on_as_long_again(t: &Bench) {
    let id = t.push(plain()).await;
    let leased = t.one().await;
    t.pass(secs(50));
    let extended = t.extend(leased.token, None).await.unwrap();
    assert_eq!((extended.id, extended.cancel), (id, false));
    assert_eq!(extended.deadline, t.wall().plus(secs(60)));
    t.pass(ms(59_999));
    assert_eq!(t.state(id).await, Some(State::Leased));
    t.pass(ms(1));
    assert_eq!(t.state(id).await, Some(State::Ready));
    assert_lost(t, leased.token).await;
}

/// A length given with an extension is the lease's length from then on.
pub async fn an_extension_may_change_the_length(t: &Bench) {
    let id = t.push(plain()).await;
    let leased = t.one().await;
    let extended = t.extend(leased.token, Some(secs(5))).await.unwrap();
    assert_eq!(extended.deadline, t.wall().plus(secs(5)));
    t.pass(secs(4));
    let extended = t.extend(leased.token, None).await.unwrap();
    assert_eq!(extended.deadline, t.wall().plus(secs(5)));
    t.pass(secs(5));
    assert_eq!(t.state(id).await, Some(State::Ready));
}

/// A length asked for at the lease is what an extension repeats.
pub async fn an_extension_repeats_the_length_that_was_asked_for(t: &Bench) {
    t.push(plain()).await;
    let ask = Ask {
        ttr: Some(secs(7)),
        ..asking(&[queue()], 1, ms(0))
    };
    let leased = t.engine.lease(ask).await.unwrap().remove(0);
    t.pass(secs(1));
    let extended = t.extend(leased.token, None).await.unwrap();
    assert_eq!(extended.deadline, t.wall().plus(secs(7)));
}

/// A long job whose worker gives signs of life runs once.
pub async fn a_long_job_with_signs_of_life_runs_once(t: &Bench) {
    t.push(plain()).await;
    let leased = t.one().await;
    for _ in 0..200 {
        t.pass(secs(59));
        t.extend(leased.token, None).await.unwrap();
        assert!(t.idle().await);
    }
    t.settle(leased.token, ack()).await;
    assert_eq!(t.info().await.books.done, 1);
}

/// A delay that is longer than the lease does not make the job run twice.
pub async fn a_delay_longer_than_the_lease_makes_one_run(t: &Bench) {
    let spec = JobSpec {
        ttr: secs(1),
        ..later(secs(3600))
    };
    let id = t.push(spec).await;
    for _ in 0..10 {
        t.pass(secs(360));
        assert!(t.order(10).await.iter().all(|out| *out == id));
    }
    let job = t.job(id).await;
    assert_eq!((job.attempt, job.vanished), (1, 0));
}

/// Progress is kept with the job until there is newer.
pub async fn progress_is_noted(t: &Bench) {
    let id = t.push(plain()).await;
    let leased = t.one().await;
    let extend = |progress: Option<&str>| Extend {
        token: leased.token,
        ttr: None,
        progress: progress.map(text),
    };
    for (said, shown) in [(Some("10%"), "10%"), (Some("50%"), "50%"), (None, "50%")] {
        let answers = t.engine.extend(vec![extend(said)]).await.unwrap();
        assert!(answers[0].is_ok());
        assert_eq!(t.job(id).await.progress, Some(text(shown)));
    }
    t.pass(secs(60));
    assert_eq!(t.job(id).await.progress, Some(text("50%")));
}

/// Extensions of a batch are answered per item, in order.
pub async fn a_batch_of_extensions_is_answered_per_item(t: &Bench) {
    t.push_many(2, plain()).await;
    let leased = t.take(2).await;
    t.settle(leased[0].token, ack()).await;
    let items = leased.iter().map(|leased| Extend {
        token: leased.token,
        ttr: Some(secs(90)),
        progress: None,
    });
    let answers = t.engine.extend(items.collect()).await.unwrap();
    assert_eq!(answers.len(), 2);
    assert_eq!(code(answers[0].clone()), Code::LeaseLost);
    let second = answers[1].as_ref().unwrap();
    assert_eq!(second.id, leased[1].job.id);
    assert_eq!(second.deadline, t.wall().plus(secs(90)));
}

/// `max_attempts` also bounds workers that die of the job.
pub async fn a_poison_job_is_dead_when_its_workers_vanished_too_often(t: &Bench) {
    let max_attempts = 3;
    let id = t
        .push(JobSpec {
            max_attempts,
            ..plain()
        })
        .await;
    for round in 1..=3 {
        assert_eq!(t.one().await.job.attempt, round);
        t.pass(secs(60));
    }
    let job = t.job(id).await;
    assert_eq!(job.state, State::Dead);
    assert_eq!(job.dead, Some(DeadReason::Vanished));
    assert_eq!((job.attempt, job.failures, job.vanished), (3, 0, 3));
    assert_eq!(job.ended_at, Some(t.wall()));
    assert!(t.idle().await);
}

/// A lease time of zero means at most once: handed out and done in one step.
pub async fn a_job_without_lease_time_is_done_when_handed_out(t: &Bench) {
    let spec = JobSpec {
        ttr: ms(0),
        payload: text("p"),
        ..plain()
    };
    let id = t.push(spec).await;
    let leased = t.one().await;
    assert_eq!((leased.job.id, leased.job.attempt), (id, 1));
    assert_eq!(leased.job.payload, text("p"));
    assert_eq!(leased.deadline, t.wall());
    assert_lost(t, leased.token).await;
    assert_eq!(t.find(id).await, None);
    let info = t.info().await;
    assert_eq!((info.books.done, info.books.live), (1, 0));
    assert!(t.idle().await);
}

/// Asking for a lease length does not give such a job a lease.
pub async fn a_job_without_lease_time_cannot_be_given_one(t: &Bench) {
    let ttr = ms(0);
    let id = t.push(JobSpec { ttr, ..plain() }).await;
    let ask = Ask {
        ttr: Some(secs(60)),
        ..asking(&[queue()], 1, ms(0))
    };
    let leased = t.engine.lease(ask).await.unwrap().remove(0);
    assert_eq!(leased.deadline, t.wall());
    assert_eq!(t.find(id).await, None);
    t.pass(secs(60));
    assert!(t.idle().await);
}

/// One lease call may hand out jobs with and without a lease.
pub async fn jobs_with_and_without_lease_time_come_in_one_batch(t: &Bench) {
    let mut ids = Vec::new();
    for ttr in [secs(60), ms(0), secs(60)] {
        ids.push(t.push(JobSpec { ttr, ..plain() }).await);
    }
    let leased = t.take(10).await;
    let out: Vec<JobId> = leased.iter().map(|leased| leased.job.id).collect();
    assert_eq!(out, ids);
    t.settle(leased[0].token, ack()).await;
    t.settle(leased[2].token, ack()).await;
    assert_lost(t, leased[1].token).await;
    assert_eq!(t.info().await.books.done, 3);
}

/// The queue remembers when somebody last asked for its jobs, also when another queue had some.
pub async fn a_queue_shows_when_it_was_last_asked_for(t: &Bench) {
    let other = named("other");
    t.push(plain()).await;
    t.push_to(&other, plain()).await;
    assert_eq!(t.info().await.last_asked, None);
    t.pass(secs(5));
    t.take_from(&[queue(), other.clone()], 1).await;
    let asked = t.wall();
    t.pass(secs(5));
    assert_eq!(t.info().await.last_asked, Some(asked));
    assert_eq!(t.info_of(&other).await.last_asked, Some(asked));
}

/// Every way to use a token is refused, and changes nothing.
async fn assert_lost(t: &Bench, token: Token) {
    let before = t.find(token.job).await;
    for outcome in [
        ack(),
        fail("late"),
        release(),
        bury("late"),
        snooze(secs(1)),
    ] {
        let refused = t.try_settle(token, outcome).await;
        assert_eq!(code(refused), Code::LeaseLost);
    }
    let refused = t.extend(token, Some(secs(600))).await;
    assert_eq!(code(refused), Code::LeaseLost);
    assert_eq!(t.find(token.job).await, before);
}
