//! The patterns of all routes, for those who look at requests from outside of the router: it tells nobody what it matched
//! but the handler.

use std::sync::Arc;

use matchit::Router;

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

    /// The route of a path.
    pub fn find(&self, path: &str) -> &Known {
        match self.known.at(path) {
            Ok(found) => found.value,
            Err(_) => self.none(),
        }
    }

    /// What stands for all paths without a route.
    pub fn none(&self) -> &Known {
        &self.none
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_known_by_its_pattern() {
        let table = Table::new();
        let pattern = |path: &str| table.find(path).pattern.to_string();
        assert_eq!(pattern("/v1/queues/a%2Fb/jobs"), "/v1/queues/{queue}/jobs");
        assert_eq!(pattern("/v1/jobs:bulk"), "/v1/jobs:bulk");
        assert_eq!(pattern("/v1/jobs/1/none"), "none");
        for path in LONG {
            assert!(table.find(path).long, "{path}");
        }
        assert!(!table.find("/v1/queues").long);
    }
}
