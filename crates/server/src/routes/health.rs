//! How the server is, for people and machines.

use std::sync::Arc;

use auxo_core::queue::Books;
use auxo_core::{Code, Error};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde_json::json;

use super::ok;
use crate::app::App;
use crate::metrics::Snapshot;
use crate::problem::Answer;
use crate::schema;

/// Say whether the process and its engine are well
#[utoipa::path(
    get, path = "/healthz", tag = "observe",
    security(()),
    responses(
        (status = 200, description = "the store works, or a part of it", body = schema::Standing),
        (status = 503, description = "nothing works: the store has stopped, or cannot be reached", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn healthz(State(app): State<Arc<App>>) -> Answer {
    standing(&app)
}

/// Say whether requests should be sent here
#[utoipa::path(
    get, path = "/readyz", tag = "observe",
    security(()),
    responses(
        (status = 200, description = "send them", body = schema::Standing),
        (status = 503, description = "nothing works, or the server is stopping", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn readyz(State(app): State<Arc<App>>) -> Answer {
    if app.is_stopping() {
        return Err(Error::new(Code::Unavailable, "the server is stopping").into());
    }
    standing(&app)
}

/// How the store is: `ok`, or `degraded` with what it refuses. Not why: a probe needs no token, and a reason may name servers.
fn standing(app: &App) -> Answer {
    app.service.health().map_err(unwell)?;
    let outages = app.service.outages();
    if outages.is_empty() {
        return ok(&json!({ "status": "ok" }));
    }
    let refused: Vec<String> = outages.into_iter().map(|outage| outage.part).collect();
    ok(&json!({ "status": "degraded", "refused": refused }))
}

/// Whatever the engine calls it, a probe looks for one status.
fn unwell(error: Error) -> Error {
    Error::new(Code::Unavailable, error.message())
}

/// Show what is counted, for Prometheus
#[utoipa::path(
    get, path = "/metrics", tag = "observe",
    security((), ("token" = ["read:*"])),
    responses((status = 200, description = "OpenMetrics text", body = String, content_type = "application/openmetrics-text"))
)]
pub async fn metrics(State(app): State<Arc<App>>) -> Answer {
    let _turn = app.listing.lock().await;
    let healthy = app.service.health().is_ok();
    let snapshot = Snapshot {
        // A store that does not work cannot tell its queues; that it does not work must still be told.
        queues: match healthy {
            true => app.service.reachable_queues().await?.queues,
            false => Vec::new(),
        },
        forgotten: match healthy {
            true => app.service.forgotten().await?,
            false => Books::default(),
        },
        tally: app.service.tally(),
        started_at: app.started_at,
        healthy,
        degraded: app.service.outages(),
        repaired: app.service.repaired(),
        unreadable: vec![
            ("tokens", app.auth.unreadable()),
            ("certificates", app.unreadable_certificates()),
        ],
        unaudited: app.trail.failures(),
    };
    let text = app.metrics.text(&snapshot);
    let text = text.map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}
