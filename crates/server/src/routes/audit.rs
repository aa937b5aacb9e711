//! The proof that no job is missing.

use std::sync::Arc;

use auxo_core::json::show;
use axum::extract::State;

use super::ok;
use crate::app::App;
use crate::auth::Caller;
use crate::calls;
use crate::extract::Body;
use crate::problem::Answer;
use crate::schema;

/// Recompute the books from the stored jobs
///
/// Reads everything, between other work. `ok` is false when `problems` names any.
#[utoipa::path(
    post, path = "/v1/audit", tag = "observe",
    security((), ("token" = ["admin:*"])),
    responses((status = 200, description = "what was found", body = schema::Audit))
)]
pub async fn audit(State(app): State<Arc<App>>, caller: Caller, body: Body) -> Answer {
    body.nothing()?;
    let audit = calls::stores::audit(&app, &caller).await?;
    ok(&show::audit(&audit))
}
