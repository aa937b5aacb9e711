//! One handle to a queue, wherever it lives.
