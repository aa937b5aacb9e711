//! The patterns of all routes, for those who look at requests from outside of the router: it tells nobody what it matched
//! but the handler.

use std::sync::Arc;

use axum::http::Method;
use matchit::Router;

use super::Hot;

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
        for path in super::api().into_openapi().paths.paths.into_keys() {
            let route = Known {
                pattern: path.as_str().into(),
                long: LONG.contains(&path.as_str()),
            };
            // The same patterns are in the router, which would have refused one that is wrong or there twice.
            let _ = known.insert(path, route);
        }
        Table {
            known,
            none: Known {
                pattern: "none".into(),
                long: false,
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
