//! Every sentence of the engine's contract as a named case, in one list, so that no engine can miss one.
//!
//! An engine's test is one line, `auxo_conformance::suite!(make)`, where `make` is an async function that answers with a
//! [`Bench`](crate::Bench) holding a new and empty engine. An engine that outlives its process says so, and gets the cases
//! for that as well: `suite!(make, restarts)`.
//!
//! Nobody sleeps in a case: time is moved by hand, and what must happen is awaited. After each case the books must balance.

pub mod keys;
pub mod lease;
pub mod order;
pub mod push;

use crate::bench::{Bench, run};

/// Runs one case on a new engine, and audits what it leaves behind.
pub fn run_case(make: impl AsyncFn() -> Bench, case: impl AsyncFn(&Bench)) {
    run(async {
        let bench = make().await;
        case(&bench).await;
        // A case may have closed the engine; those that reopen it look at the books themselves.
        if bench.engine.health().is_ok() {
            bench.check_books().await;
        }
    });
}

/// Expands to one test per case.
#[macro_export]
macro_rules! suite {
    ($make:ident) => {
        $crate::tests! { $make;
            keys {
                a_taken_key_is_rejected_with_the_existing_id
                a_taken_key_is_returned_as_success_when_asked_so
                a_repeated_push_makes_one_job
                a_waiting_job_is_replaced
                a_replaced_job_weighs_what_the_new_payload_weighs
                a_job_that_no_longer_waits_is_not_replaced
                a_key_is_held_in_every_state
                a_key_is_free_when_its_window_is_over
                a_key_without_a_window_is_free_when_the_job_is_done
                a_key_is_free_when_its_job_is_taken_out
                a_done_job_whose_key_is_held_is_a_shadow
                a_retained_job_becomes_a_shadow_of_its_key
                a_key_is_free_before_its_retained_job_is_forgotten
                keys_are_unique_per_queue_only
                a_key_twice_in_one_batch_makes_one_job
                a_taken_key_is_answered_before_the_limits
                the_key_of_a_job_without_a_lease_is_held_for_its_window
            }
            lease {
                a_lease_shows_the_job_and_its_holder
                a_leased_job_is_not_handed_out_again
                a_lease_length_can_be_asked_for
                a_vanished_job_comes_back_at_the_deadline
                a_late_worker_is_refused
                a_forged_token_is_refused
                the_tokens_of_a_job_rise
                every_lease_has_a_token_of_its_own
                an_extended_lease_goes_on_as_long_again
                an_extension_may_change_the_length
                an_extension_repeats_the_length_that_was_asked_for
                a_long_job_with_signs_of_life_runs_once
                a_delay_longer_than_the_lease_makes_one_run
                progress_is_noted
                a_batch_of_extensions_is_answered_per_item
                a_poison_job_is_dead_when_its_workers_vanished_too_often
                a_job_without_lease_time_is_done_when_handed_out
                a_job_without_lease_time_cannot_be_given_one
                jobs_with_and_without_lease_time_come_in_one_batch
                a_queue_shows_when_it_was_last_asked_for
            }
            order {
                jobs_come_out_in_the_order_they_came_in
                a_more_urgent_job_comes_first
                an_earlier_due_time_comes_first_within_a_priority
                an_urgent_job_overtakes_an_overdue_one
                an_urgent_job_that_is_not_due_blocks_nobody
                jobs_due_by_either_clock_come_in_the_order_of_time
                a_batch_lease_takes_the_first_jobs
                a_lease_takes_from_the_first_queue_that_has_any
                a_released_job_goes_back_to_its_old_place
                a_job_released_with_a_delay_waits_for_it
                a_job_released_with_a_priority_moves_there
                a_job_whose_lease_vanishes_is_at_the_front_of_its_priority
                vanished_jobs_stand_at_the_front_by_age
                a_vanished_job_that_is_released_is_still_at_the_front
                a_vanished_job_that_fails_loses_the_front
                a_vanished_job_that_is_rescheduled_loses_the_front
                ten_thousand_jobs_due_at_once_come_out_at_once
            }
            push {
                a_pushed_job_is_ready_at_once
                a_job_is_shown_as_it_was_pushed
                payloads_come_back_byte_for_byte
                ids_rise_with_every_push
                ids_rise_in_a_crowded_millisecond
                a_batch_is_answered_per_item_in_order
                a_delayed_job_is_handed_out_at_its_time_and_not_before
                a_job_for_a_past_instant_is_ready
                a_job_for_a_future_instant_waits_for_it
                a_job_for_the_end_of_time_waits
                queues_are_apart
                a_queue_that_never_was_is_not_shown
                a_refused_push_stores_nothing
                queues_are_shown_in_the_order_of_their_names
            }
        }
    };
    ($make:ident, restarts) => {
        $crate::suite! { $make }
    };
}

/// One test per case of a list, in a module per theme.
#[doc(hidden)]
#[macro_export]
macro_rules! tests {
    ($make:ident; $($theme:ident { $($case:ident)* })*) => {
        $(mod $theme {
            $(
                #[test]
                fn $case() {
                    $crate::suite::run_case(super::$make, $crate::suite::$theme::$case);
                }
            )*
        })*
    };
}
