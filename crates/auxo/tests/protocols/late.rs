//! A worker over beanstalkd's protocol that deletes its job after its time is over, and tubes that are named as queues may be.

use serde_json::json;

use crate::across::speaker::Beanstalk;
use crate::across::watch::Watcher;
use crate::servers::Auxo;
use auxo_harness::http::Client;
use auxo_harness::redis::Server as Redis;

/// What the worker does between the end of its time and the delete.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    Nothing,
    /// It asks for jobs of another tube, and so lets go of those whose time is over.
    Reserves,
    /// Another worker reserves the job, and gives it back.
    AnotherHadIt,
    /// The same; then this worker reserves the job again, until its time is over once more.
    ReservesAgain,
}

fn a_late_delete_by_the_worker_counts_as_done(server: &Auxo) {
    let mut http = Client::connect(server.http());
    let mut watcher = Watcher::new(server);
    let queue = "late:jobs";
    let path = "/v1/queues/late%3Ajobs/jobs";
    let meanwhiles = [
        Meanwhile::Nothing,
        Meanwhile::Reserves,
        Meanwhile::AnotherHadIt,
        Meanwhile::ReservesAgain,
    ];
    for meanwhile in meanwhiles {
        let mut worker = Beanstalk::connect(server.beanstalk());
        assert_eq!(worker.ask(format!("watch {queue}")), "WATCHING 2");
        let body = json!({"payload": "x", "ttr": "1s", "key": format!("{meanwhile:?}")});
        let body = body.to_string();
        let pushed = http.post(path, &body);
        assert_eq!(pushed.status, 201, "{pushed:?}");
        let id = pushed.json()["id"].as_str().unwrap().to_owned();
        let number = id.parse().unwrap();
        watcher.tells("push", queue, number);
        let (reserved, _) = worker.fetch("reserve", "RESERVED ").unwrap();
        assert_eq!(reserved, id);
        watcher.tells("lease", queue, number);
        watcher.tells("vanish", queue, number);
        match meanwhile {
            Meanwhile::Nothing => {}
            Meanwhile::Reserves => {
                assert_eq!(worker.ask(format!("ignore {queue}")), "WATCHING 1");
                // The connection counts its time from when the job came, so it may still warn for as long as that took.
                let nothing = worker.ask("reserve-with-timeout 0");
                let expected = ["TIMED_OUT", "DEADLINE_SOON"];
                assert!(expected.contains(&nothing.as_str()), "{nothing}");
            }
            Meanwhile::AnotherHadIt | Meanwhile::ReservesAgain => {
                let mut other = Beanstalk::connect(server.beanstalk());
                let reserve = format!("reserve-job {id}");
                other.fetch(&reserve, "RESERVED ").unwrap();
                watcher.tells("lease", queue, number);
                // While another has the job, it is not ours to delete.
                assert_eq!(worker.ask(format!("delete {id}")), "NOT_FOUND");
                assert_eq!(other.ask(format!("release {id} 0 0")), "RELEASED");
                watcher.tells("release", queue, number);
            }
        }
        if matches!(meanwhile, Meanwhile::ReservesAgain) {
            let (again, _) = worker.fetch("reserve", "RESERVED ").unwrap();
            assert_eq!(again, id);
            watcher.tells("lease", queue, number);
            watcher.tells("vanish", queue, number);
        }
        assert_eq!(
            worker.ask(format!("delete {id}")),
            "DELETED",
            "{meanwhile:?}"
        );
        watcher.tells("lease", queue, number);
        watcher.tells("ack", queue, number);
        assert_eq!(worker.ask(format!("delete {id}")), "NOT_FOUND");
        // Its key stays taken.
        let again = http.post(path, &body);
        assert_eq!(again.status, 409, "{meanwhile:?}: {again:?}");
        assert_eq!(again.json()["job"], id.as_str());
    }
    let books = http.get("/v1/queues/late%3Ajobs").json()["books"].clone();
    let (done, deleted) = (&books["done"], &books["deleted"]);
    assert_eq!((done, deleted), (&json!(4), &json!(0)), "{books}");
    server.assert_well();
}

#[test]
fn a_late_delete_by_the_worker_counts_as_done_on_a_directory() {
    a_late_delete_by_the_worker_counts_as_done(&Auxo::on_a_directory());
}

#[test]
fn a_late_delete_by_the_worker_counts_as_done_on_redis() {
    let redis = Redis::start(&["--appendonly", "yes"]);
    a_late_delete_by_the_worker_counts_as_done(&Auxo::on_redis(&redis.url("")));
}
