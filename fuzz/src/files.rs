//! Readers of files that people edit.
//!
//! They are taken in as files: through the crates that they belong to, a hundred others would be built for the fuzzer that it has
//! no use for.

/// The settings of a server.
#[allow(dead_code)]
#[path = "../../crates/auxo/src/cli/config"]
pub mod config {
    pub mod file;
    pub mod snippet;
}

/// Tokens and their grants.
#[allow(dead_code, unused_imports)]
#[path = "../../crates/server/src/auth"]
pub mod auth {
    pub mod grant;
    pub mod identity;
    pub mod tokens;
}

/// Where a store on Redis is.
#[allow(dead_code)]
#[path = "../../crates/redis/src"]
pub mod redis {
    pub mod url;
}
