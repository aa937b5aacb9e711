//! What every engine must pass: the suite, the model and the history checker. For tests only.
