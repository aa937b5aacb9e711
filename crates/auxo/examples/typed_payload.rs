//! Payloads are your own types. A key makes a push idempotent: repeating it makes no second job.

use auxo::{Auxo, Code, OnDuplicate};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Email {
    to: String,
    subject: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let auxo = Auxo::open(dir.path()).await?;
    let mail = auxo.queue("mail")?;

    let email = Email {
        to: "ada@example.org".into(),
        subject: "Welcome".into(),
    };
    let welcome = mail.job(&email)?.kind("welcome").key("welcome:ada");
    let first = welcome.clone().push().await?;

    // The same again, as after a lost answer: the existing job, or an error that names it.
    let again = welcome.clone().on_duplicate(OnDuplicate::Return);
    assert_eq!(again.push().await?.id, first.id);
    let refused = welcome.push().await.unwrap_err();
    assert_eq!(refused.code(), Code::DuplicateKey);
    assert_eq!(refused.job(), Some(first.id));

    let lease = auxo.lease(["mail"]).one().await?.expect("the job");
    assert_eq!(lease.payload::<Email>()?, email);
    // A payload of another shape is an error to handle, not a panic.
    let wrong = lease.payload::<Vec<u32>>().unwrap_err();
    println!("{wrong}");
    lease.ack().await?;

    auxo.close().await?;
    Ok(())
}
