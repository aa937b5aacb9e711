//! The calls that come by the ten thousand a second, without the router.
//!
//! The router clones and boxes for each request, and allocates for each variable of a path. These go straight to the same
//! handlers.

use std::sync::Arc;

use auxo_core::QueueName;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request};
use axum::response::{IntoResponse, Response};

use super::{lease, push, settle};
use crate::app::App;
use crate::auth::Caller;
use crate::clock::{Clock, Late, within};
use crate::extract::{Body, InQueue};
use crate::guard::Received;
use crate::problem::Answer;

/// A call, recognised by its method and path.
#[derive(Debug, PartialEq, Eq)]
pub enum Hot {
    Push(QueueName),
    Lease,
    Settle,
    Extend,
}

impl Hot {
    /// The call of a POST to a route; `None` if the router must look at it. That includes names that are wrong or not written
    /// plainly: it says what is wrong with them.
    pub fn of(pattern: &str, queue: Option<&str>) -> Option<Hot> {
        match (pattern, queue) {
            ("/v1/queues/{queue}/jobs", Some(queue)) => QueueName::new(queue).ok().map(Hot::Push),
            ("/v1/lease", None) => Some(Hot::Lease),
            ("/v1/settle", None) => Some(Hot::Settle),
            ("/v1/extend", None) => Some(Hot::Extend),
            _ => None,
        }
    }

    /// Does it.
    pub async fn answer(
        self,
        app: &Arc<App>,
        clock: &mut Option<Clock>,
        request: Request<Received>,
    ) -> Result<Response, Late> {
        let (mut head, body) = request.into_parts();
        let caller = match self.caller(app, &mut head).await {
            Ok(caller) => caller,
            Err(problem) => return Ok(problem.into_response()),
        };
        let body = match Body::read(&head.headers, body, app, clock).await {
            Ok(body) => body,
            Err(problem) => return Ok(problem.into_response()),
        };
        let may_wait = self == Hot::Lease;
        let call = self.call(State(app.clone()), caller, head.headers, body);
        let answer = match may_wait {
            true => call.await,
            false => within(app.settings.answer_time, clock, call).await?,
        };
        Ok(answer.into_response())
    }

    /// Who calls, if they may push into this queue. About the others the handlers know more.
    async fn caller(&self, app: &Arc<App>, head: &mut Parts) -> Answer<Caller> {
        let caller = Caller::from_request_parts(head, app).await?;
        if let Hot::Push(queue) = self {
            caller.check(queue)?;
        }
        Ok(caller)
    }

    async fn call(
        self,
        app: State<Arc<App>>,
        caller: Caller,
        headers: HeaderMap,
        body: Body,
    ) -> Answer {
        match self {
            Hot::Push(queue) => push::push(app, InQueue(queue), caller, headers, body).await,
            Hot::Lease => lease::lease(app, caller, body).await,
            Hot::Settle => settle::settle(app, caller, body).await,
            Hot::Extend => settle::extend(app, caller, body).await,
        }
    }
}
