//! Auxo: a job queue that keeps every accepted job and hands it out on time.
