//! Who serves this queue.

use std::sync::Arc;

use axum::extract::State;
use serde_json::json;

use super::ok;
use crate::app::App;
use crate::problem::Answer;
use crate::schema;

/// Show the processes that serve this queue
#[utoipa::path(
    get, path = "/v1/nodes", tag = "observe",
    security((), ("token" = ["read:*"])),
    responses((status = 200, description = "the processes", body = schema::Nodes))
)]
pub async fn nodes(State(app): State<Arc<App>>) -> Answer {
    let about = &app.settings.about;
    ok(&json!({ "nodes": [{
        "name": about.name,
        "version": env!("CARGO_PKG_VERSION"),
        "started_at": app.started_at.to_string(),
        "now": app.service.now().to_string(),
        "sync": about.sync,
        "data": about.data,
    }] }))
}
