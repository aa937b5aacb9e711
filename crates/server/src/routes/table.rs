//! The patterns of all routes, for those who look at requests from outside of the router: it tells nobody what it matched
//! but the handler.

use std::sync::Arc;

use axum::http::Method;
use matchit::Router;
use serde_json::Value;

use super::Hot;
use crate::auth::{Need, Right};

/// Routes that wait because the caller asked for it, or that go through everything there is.
const LONG: [&str; 4] = [
    "/v1/lease",
    "/v1/events",
    "/v1/audit",
    "/v1/queues/{queue}/purge",
];

/// A route as it is counted and logged.
pub struct Known {
    /// The path with its variables as names.
    pub pattern: Arc<str>,
    /// Whether it may take longer than any limit.
    pub long: bool,
    /// What each of its methods needs.
    needs: Vec<(Method, Need)>,
}

impl Known {
    /// A call that is no route, and what it needs.
    pub fn call(pattern: &str, long: bool, need: Need) -> Known {
        Known {
            pattern: pattern.into(),
            long,
            needs: vec![(Method::POST, need)],
        }
    }

    /// What a request needs. A method that is not there is refused to whoever has a token.
    pub fn need(&self, method: &Method) -> Need {
        // The router answers HEAD like GET, without the body.
        let method = match *method == Method::HEAD {
            true => &Method::GET,
            false => method,
        };
        let mut needs = self.needs.iter();
        let need = needs.find(|(known, _)| known == method);
        need.map_or(Need::Token, |(_, need)| *need)
    }
}

/// All routes.
pub struct Table {
    known: Router<Known>,
    none: Known,
}

impl Table {
    /// The routes that are documented, which are all.
    pub fn new() -> Table {
        let mut known = Router::new();
        for (path, item) in super::api().into_openapi().paths.paths {
            let route = Known {
                pattern: path.as_str().into(),
                long: LONG.contains(&path.as_str()),
                needs: needs(&serde_json::to_value(item).unwrap_or_default()),
            };
            // The same patterns are in the router, which would have refused one that is wrong or there twice.
            let _ = known.insert(path, route);
        }
        Table {
            known,
            none: Known {
                pattern: "none".into(),
                long: false,
                needs: Vec::new(),
            },
        }
    }

    /// The route of a request, and the call if it is one of the hot ones.
    pub fn find(&self, method: &Method, path: &str) -> (&Known, Option<Hot>) {
        let Ok(found) = self.known.at(path) else {
            return (self.none(), None);
        };
        let hot = match *method == Method::POST {
            true => Hot::of(&found.value.pattern, found.params.get("queue")),
            false => None,
        };
        (found.value, hot)
    }

    /// What stands for all paths without a route.
    pub fn none(&self) -> &Known {
        &self.none
    }
}

/// What the methods of a path need, as its entry in the document says.
fn needs(item: &Value) -> Vec<(Method, Need)> {
    let operations = item.as_object().into_iter().flatten();
    operations
        .filter_map(|(method, operation)| {
            let method = method.to_uppercase().parse().ok()?;
            Some((method, need(&operation["security"])))
        })
        .collect()
}

/// A route that says nothing is for administrators, and so is one that says what nobody understands.
fn need(security: &Value) -> Need {
    let choices: &[Value] = security.as_array().map_or(&[], Vec::as_slice);
    let token = choices.iter().find_map(|choice| choice.get("token"));
    match token {
        None if !choices.is_empty() => Need::Nothing,
        None => Need::Everywhere(Right::Admin),
        Some(roles) => {
            let role = roles[0].as_str().and_then(Need::parse);
            role.unwrap_or(Need::Everywhere(Right::Admin))
        }
    }
}

#[cfg(test)]
mod tests {
    use auxo_core::QueueName;

    use super::*;

    fn find<'a>(table: &'a Table, path: &str) -> (&'a str, bool, Option<Hot>) {
        let (known, hot) = table.find(&Method::POST, path);
        (&known.pattern, known.long, hot)
    }

    #[test]
    fn a_path_is_known_by_its_pattern() {
        let table = Table::new();
        let pattern = |path| find(&table, path).0;
        assert_eq!(pattern("/v1/queues/a%2Fb/jobs"), "/v1/queues/{queue}/jobs");
        assert_eq!(pattern("/v1/jobs:bulk"), "/v1/jobs:bulk");
        assert_eq!(pattern("/v1/jobs/1/none"), "none");
        for path in LONG {
            assert!(find(&table, path).1, "{path}");
        }
        assert!(!find(&table, "/v1/queues").1);
    }

    #[test]
    fn a_route_that_does_not_say_what_it_needs_is_for_administrators() {
        use serde_json::json;
        let admin = Need::Everywhere(Right::Admin);
        for (security, expected) in [
            (json!(null), admin),
            (json!([]), admin),
            (json!([{}, { "token": [] }]), admin),
            (json!([{}, { "token": ["everything:*"] }]), admin),
            (
                json!([{ "token": ["read:*"] }]),
                Need::Everywhere(Right::Read),
            ),
            (
                json!([{}, { "token": ["push:{queue}"] }]),
                Need::Somewhere(Right::Push),
            ),
            (json!([{}]), Need::Nothing),
        ] {
            assert_eq!(need(&security), expected, "{security}");
        }
    }

    #[test]
    fn a_method_needs_what_its_registration_says() {
        let table = Table::new();
        let need = |method, path| table.find(&method, path).0.need(&method);
        let (read, operate) = (
            Need::Somewhere(Right::Read),
            Need::Somewhere(Right::Operate),
        );
        assert_eq!(need(Method::GET, "/v1/jobs/7"), read);
        assert_eq!(need(Method::HEAD, "/v1/jobs/7"), read);
        assert_eq!(need(Method::DELETE, "/v1/jobs/7"), operate);
        assert_eq!(need(Method::PATCH, "/v1/jobs/7"), Need::Token);
        assert_eq!(need(Method::GET, "/nowhere"), Need::Token);
        assert_eq!(
            need(Method::POST, "/v1/audit"),
            Need::Everywhere(Right::Admin)
        );
        assert_eq!(need(Method::GET, "/healthz"), Need::Nothing);
        assert_eq!(need(Method::POST, "/healthz"), Need::Token);
    }

    #[test]
    fn hot_calls_are_recognised_and_nothing_else_is() {
        let table = Table::new();
        let hot = |path| find(&table, path).2;
        let mail = QueueName::new("mail").unwrap();
        assert_eq!(hot("/v1/queues/mail/jobs"), Some(Hot::Push(mail)));
        assert_eq!(hot("/v1/lease"), Some(Hot::Lease));
        assert_eq!(hot("/v1/settle"), Some(Hot::Settle));
        assert_eq!(hot("/v1/extend"), Some(Hot::Extend));
        for path in [
            "/v1/queues/a%2Fb/jobs",
            "/v1/queues/a b/jobs",
            "/v1/queues/mail",
            "/v1/lease/",
            "/healthz",
        ] {
            assert_eq!(hot(path), None, "{path}");
        }
        assert_eq!(table.find(&Method::GET, "/v1/lease").1, None);
    }
}
