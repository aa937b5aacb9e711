//! The client against a server that says exactly what a test wants, and fails where it wants.

mod answers;
mod leases;
mod stub;
mod trouble;
mod watching;
