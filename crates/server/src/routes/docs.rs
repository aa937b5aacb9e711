//! What there is to call.

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use crate::document;

/// This document
#[utoipa::path(
    get, path = "/openapi.json", tag = "observe",
    security((), ("token" = ["read:{any queue}"])),
    responses((status = 200, description = "OpenAPI 3.1", body = crate::schema::Any))
)]
pub async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/json")], document::text()).into_response()
}

/// This document as a page to read
#[utoipa::path(
    get, path = "/docs", tag = "observe",
    security((), ("token" = ["read:{any queue}"])),
    responses((status = 200, description = "a page without scripts", body = String, content_type = "text/html"))
)]
pub async fn docs() -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        ),
    ];
    (headers, document::page()).into_response()
}
