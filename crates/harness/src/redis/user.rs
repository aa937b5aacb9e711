//! The user of Redis that the documentation recommends.

use super::Server;

const PAGE: &str = include_str!("../../../../docs/REDIS.md");

/// Its password in tests.
pub const PASSWORD: &str = "secret";

/// The line that a reader copies to make a user, word by word.
pub fn documented(user: &str) -> Vec<&'static str> {
    let start = format!("ACL SETUSER {user} ");
    let line = PAGE.lines().find(|line| line.starts_with(&start));
    let line = line.expect("the page has the line");
    line.split(' ').collect()
}

impl Server {
    /// Makes a documented user, with more rules if they are needed.
    pub fn add_user(&self, user: &str, more: &[&str]) {
        let password = format!(">{PASSWORD}");
        let words = documented(user).into_iter();
        let words = words.map(|word| match word {
            ">PASSWORD" => &password,
            word => word,
        });
        let words: Vec<&str> = words.chain(more.iter().copied()).collect();
        self.ask(&words);
    }

    /// The same for the user of a store; answers with the store's URL, with options such as `?timeout=1s`.
    pub fn limited(&self, more: &[&str], options: &str) -> String {
        self.add_user("auxo", more);
        format!("redis://auxo:{PASSWORD}@{}{options}", self.address())
    }
}
