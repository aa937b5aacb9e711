//! A token that is shown to the server.

use std::sync::Arc;

use auxo_client::Auxo;
use auxo_core::{Code, SystemClock, Timestamp};
use auxo_server::{Auth, Patience, Settings, Token, TokenFile};

use crate::road::Served;

#[tokio::test]
async fn a_token_is_shown_with_every_call_and_with_the_stream_of_events() {
    let dir = tempfile::tempdir().unwrap();
    let file = TokenFile::new(dir.path().join("tokens.toml"));
    let mut secrets = Vec::new();
    for allow in [&["admin:*"][..], &["push:mail.*"]] {
        let allow = allow.iter().map(|grant| grant.parse().unwrap()).collect();
        let (token, secret) = Token::new("t", allow, Timestamp(0), None).unwrap();
        file.change(|tokens| Ok((tokens.with(token), ()))).unwrap();
        secrets.push(secret.reveal().to_owned());
    }
    let clock = Arc::new(SystemClock::new(Timestamp(0)));
    let settings = Settings {
        auth: Auth::open(file, clock, Patience::default()).unwrap(),
        ..Settings::default()
    };
    let served = Served::with(settings).await;
    let url = format!("grpc://{}", served.address);

    let stranger = Auxo::connect(&url).await.unwrap();
    let refused = stranger.queues().await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthorized, "{refused}");

    let admin = Auxo::connector().token(&*secrets[0]);
    let admin = admin.connect(&url).await.unwrap();
    let mut events = admin.service().watch();
    let pushed = admin.queue("bills").unwrap().push("x").await.unwrap();
    let told = events.recv().await.unwrap();
    assert_eq!(told.job, pushed.id);
    let lease = admin.lease(["bills"]).many().await.unwrap().remove(0);
    lease.ack().await.unwrap();

    // Two tasks of one process whose calls may be joined: what one may not do is no trouble of the other.
    let narrow = Auxo::connector().token(&*secrets[1]);
    let narrow = narrow.connect(&url).await.unwrap();
    let (own, foreign) = (
        narrow.queue("mail.in").unwrap(),
        narrow.queue("bills").unwrap(),
    );
    for _ in 0..50 {
        let (a, b, c) = tokio::join!(own.push("x"), foreign.push("x"), own.push("x"));
        assert!(a.is_ok() && c.is_ok(), "{a:?} {c:?}");
        assert_eq!(b.unwrap_err().code(), Code::Forbidden);
    }
    assert_eq!(admin.queues().await.unwrap().len(), 2);

    let odd = Auxo::connector().token("a\nb").connect(&url).await;
    assert_eq!(odd.err().map(|error| error.code()), Some(Code::BadRequest));
}
