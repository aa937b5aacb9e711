//! Every sentence of the engine's contract as a named case, in one list, so that no engine can miss one.
//!
//! An engine's test is one line, `auxo_conformance::suite!(make)`, where `make` is an async function that answers with a
//! [`Bench`] holding a new and empty engine. An engine that outlives its process says so, and gets the cases for that as well:
//! `suite!(make, restarts)`; so does one with a clock that nobody can step: `suite!(make, steady)`; and one that has all its queues
//! in one place, and so knows the most urgent job of several: `suite!(make, together)`; and one that has the store itself, so that it is
//! told whether a lease heeds what holds a job back, while a server decides that by rights, and takes back a lease that its caller
//! never got as if it had not been: `suite!(make, direct)`.
//!
//! Nobody sleeps in a case: time is moved by hand, and what must happen is awaited. After each case the books must balance.

pub mod books;
pub mod clock;
pub mod fairness;
pub mod holds;
pub mod keys;
pub mod lease;
pub mod limits;
pub mod list;
pub mod moving;
pub mod names;
pub mod operator;
pub mod order;
pub mod push;
pub mod restart;
pub mod schedules;
pub mod settle;
pub mod steady;
pub mod topics;
pub mod unseen;
pub mod urgent;
pub mod waiting;

use std::pin::Pin;

use crate::bench::{Bench, run};

/// A case of the list. Boxed, so that all cases are compiled once, in this crate, and not in each crate that tests an engine.
pub type Case = for<'a> fn(&'a Bench) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Runs one case of the list on a new engine, and audits what it leaves behind.
pub fn run_listed(make: impl AsyncFn() -> Bench, case: Case) {
    run_boxed(Box::pin(make()), case);
}

fn run_boxed(bench: Pin<Box<dyn Future<Output = Bench> + '_>>, case: Case) {
    run(async {
        let bench = bench.await;
        case(&bench).await;
        check_books(&bench).await;
    });
}

/// The same for a case of an engine's own.
pub fn run_case(make: impl AsyncFn() -> Bench, case: impl AsyncFn(&Bench)) {
    run(async {
        let bench = make().await;
        case(&bench).await;
        check_books(&bench).await;
    });
}

async fn check_books(bench: &Bench) {
    // A case may have closed the engine; those that reopen it look at the books themselves.
    if bench.engine.health().is_ok() {
        bench.check_books().await;
    }
}

/// Expands to one test per case.
#[macro_export]
macro_rules! suite {
    ($make:ident $(, $more:ident)*) => {
        $crate::all! { tests $make }
        $($crate::more! { tests $make $more })*
    };
}

/// Runs every case within one test, for engines on servers that take long to start.
#[macro_export]
macro_rules! run_all {
    ($make:ident $(, $more:ident)*) => {{
        let none: &[&str] = &[];
        $crate::run_all_but!(none, $make $(, $more)*);
    }};
}

/// Runs every case within one test, but for those whose name begins with one of a list.
#[macro_export]
macro_rules! run_all_but {
    ($but:ident, $make:ident $(, $more:ident)*) => {{
        let mut failed: Vec<&str> = Vec::new();
        $crate::all! { each $make failed $but }
        $($crate::more! { each $make $more failed $but })*
        assert!(failed.is_empty(), "{} cases failed: {failed:?}", failed.len());
    }};
}

/// The cases that every engine is asked for.
#[doc(hidden)]
#[macro_export]
macro_rules! all {
    ($with:ident $make:ident $($failed:ident $but:ident)?) => {
        $crate::$with! { $make $($failed $but)?;
            books {
                the_books_say_where_every_job_went
                counts_follow_the_clock
                a_queue_shows_its_next_due_time
                payload_bytes_are_counted_until_a_job_is_done
                the_audit_agrees_with_the_queues
                watchers_are_told_of_every_transition
                a_closed_engine_is_unavailable
                a_job_that_goes_round_is_booked_once
            }
            clock {
                an_instant_follows_the_wall_clock
                a_strobing_clock_loses_nothing
                a_job_says_when_it_was_made_though_its_id_is_ahead_of_the_clock
                a_year_passes_in_one_step
            }
            fairness {
                groups_take_turns
                a_batch_takes_turns
                jobs_without_a_group_are_one_group
                an_urgent_group_comes_first
                a_group_that_is_not_due_takes_no_turn
                groups_mean_nothing_in_a_queue_that_is_not_fair
                a_queue_can_be_made_fair_with_jobs_in_it
                many_groups_are_all_served
            }
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
                a_replacement_is_refused_where_the_queue_takes_nothing
                the_key_of_a_job_without_a_lease_is_held_for_its_window
            }
            lease {
                a_lease_shows_the_job_and_its_holder
                a_leased_job_is_not_handed_out_again
                a_lease_length_can_be_asked_for
                a_named_job_is_leased_past_its_line
                a_named_job_need_not_be_due
                a_named_job_that_expired_is_not_lent
                a_named_job_that_died_before_its_life_was_over_is_lent
                a_named_job_is_leased_past_the_settings_of_its_queue
                a_named_job_comes_back_at_its_deadline
                a_named_job_without_lease_time_is_done
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
            limits {
                settings_are_shown_as_they_were_set
                a_queue_that_is_paused_for_pushes_refuses_them
                a_queue_may_be_paused_before_its_first_job
                a_queue_that_is_paused_for_leases_hands_out_nothing
                a_pause_ends_by_itself_when_its_time_has_come
                a_paused_queue_is_passed_over
                leases_end_as_usual_in_a_paused_queue
                a_full_queue_refuses_pushes
                expired_jobs_fill_a_queue
                a_batch_that_does_not_fit_is_taken_as_far_as_it_does
                a_queue_with_too_many_bytes_refuses_pushes
                a_job_comes_back_to_a_full_and_paused_queue
                lowering_a_limit_drops_nothing
                leases_at_once_are_limited
                a_lowered_lease_limit_waits_for_leases_to_end
                a_job_without_lease_time_fills_no_lease_limit
                leases_in_a_time_are_limited
                a_used_up_rate_shows_when_it_allows_the_next_lease
                a_new_rate_starts_afresh
                a_released_job_has_used_the_rate
            }
            list {
                pages_show_every_job_once
                a_listed_job_is_shown_as_it_is_found
                the_dead_and_the_done_come_last
                a_cursor_of_another_queue_shows_nothing_of_it
                a_queue_is_listed_in_one_piece
                waiting_jobs_are_listed_in_the_order_of_their_turn
                a_walk_goes_on_while_jobs_change
                a_foreign_cursor_is_refused
                a_filter_by_state_shows_these_states
                a_filter_by_queue_shows_that_queue
                each_field_of_a_filter_chooses
                a_filter_asks_for_all_of_its_fields
                a_search_looks_everywhere
                a_filter_by_time_includes_its_beginning_only
                an_empty_store_has_one_empty_page
            }
            moving {
                a_job_in_every_state_comes_through_a_move_as_it_was
                counts_and_books_go_along
                pages_of_a_move_show_every_job_once
                a_cursor_of_another_queue_moves_nothing_of_it
                leased_jobs_are_left_out_of_a_move
                a_job_that_changed_since_it_was_read_stays
                a_leased_or_unknown_job_does_not_depart
                a_move_that_is_broken_off_knows_what_came_last
                an_earlier_run_is_refused
                a_move_that_is_over_is_forgotten
                moves_from_two_stores_do_not_mix
                a_queue_on_its_way_goes_nowhere_else_and_takes_nothing_in
                a_taken_key_keeps_its_job_out_and_no_other
                a_key_that_is_only_held_moves_too
                a_key_that_is_held_on_both_sides_needs_no_second_holder
                a_taken_id_is_replaced_and_new_ones_lie_behind
                an_id_far_ahead_or_too_large_is_not_kept
                limits_and_pauses_do_not_keep_moved_jobs_out
                times_go_on_after_a_move
                places_in_line_survive_a_move
                a_moved_job_wakes_who_waits
                an_armed_schedule_goes_on_as_it_was
            }
            names {
                an_unused_queue_is_forgotten_after_an_hour
                the_books_of_forgotten_queues_are_added_up
                a_queue_with_a_job_or_a_held_key_is_kept
                a_queue_with_a_setting_is_kept
                a_queue_with_a_schedule_or_a_subscription_is_kept
                a_waiting_call_keeps_its_queue
                a_queue_that_is_asked_for_is_in_use
            }
            operator {
                every_move_follows_the_arrows
                a_dry_run_moves_nothing
                a_move_on_an_unknown_job_finds_nothing
                named_jobs_are_answered_in_order
                a_kicked_job_starts_again
                a_kicked_scheduled_job_is_due_now
                a_kicked_expired_job_lives_without_an_end
                a_kicked_job_whose_life_ended_meanwhile_can_run
                a_waiting_job_can_be_rescheduled
                a_dead_job_can_be_rescheduled
                a_cancelled_job_is_gone
                a_worker_learns_that_its_job_is_called_off
                a_job_that_is_called_off_may_be_acked
                any_other_end_of_a_job_that_is_called_off_cancels_it
                a_deleted_job_is_gone_and_counted_once
                a_move_by_filter_touches_what_matches
                a_dry_run_by_filter_only_counts
                deleting_page_by_page_deletes_all
                kicking_the_dead_page_by_page_kicks_all
                rescheduling_page_by_page_ends
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
                ids_are_numbers_that_javascript_can_hold
                ids_rise_in_a_crowded_millisecond
                a_batch_is_answered_per_item_in_order
                a_delayed_job_is_handed_out_at_its_time_and_not_before
                a_job_for_a_past_instant_is_ready
                a_job_for_a_future_instant_waits_for_it
                a_job_for_the_next_decade_waits
                queues_are_apart
                a_queue_that_never_was_is_not_shown
                a_refused_push_stores_nothing
                queues_are_shown_in_the_order_of_their_names
            }
            schedules {
                a_tick_makes_one_job
                a_tick_pushes_the_job_of_the_schedule
                a_cron_expression_ticks_by_the_wall_clock
                missed_ticks_are_made_up_as_the_policy_says
                an_interval_keeps_its_phase
                a_removed_schedule_keeps_its_jobs
                a_schedule_that_ticked_since_it_was_read_stays
                a_replaced_schedule_ticks_from_now_on
                a_schedule_shows_its_last_and_next_tick
                a_tick_into_a_paused_or_full_queue_is_dropped
                a_tick_respects_the_key_of_its_job
                a_clock_set_back_does_not_silence_a_schedule
                a_clock_set_forward_makes_no_storm
                schedules_are_shown_in_order
            }
            settle {
                an_acked_job_is_done
                a_done_job_is_kept_for_its_retention
                a_lease_ends_once
                a_batch_of_ends_is_answered_per_item
                a_token_of_an_unknown_job_is_lost
                a_failed_job_is_tried_again_later
                each_kind_of_wait_is_kept
                a_spread_wait_is_never_longer_than_the_whole
                a_failure_may_name_its_own_wait
                a_failure_without_a_wait_is_ready_at_once
                a_job_that_failed_too_often_is_dead
                a_single_attempt_is_the_last_one
                failures_and_vanished_leases_add_up
                a_failure_that_forbids_a_retry_is_the_last
                giving_back_counts_no_failure
                a_buried_job_is_dead
                a_job_buried_without_a_reason_keeps_its_last_error
                an_expired_job_is_dead_and_never_handed_out
                a_life_may_end_at_an_instant
                a_job_that_is_pushed_too_late_is_expired
                a_leased_job_may_be_finished_after_its_life
                a_job_that_comes_back_after_its_life_is_expired
                a_job_that_vanishes_after_its_life_is_expired
                a_last_attempt_is_the_reason_even_after_the_life
                dead_and_done_jobs_do_not_expire
                the_timeline_tells_what_happened
                the_timeline_is_bounded
            }
            topics {
                a_message_reaches_every_subscription
                a_message_that_nobody_wants_is_no_error
                a_pattern_chooses_by_routing_key
                a_message_stays_in_its_topic
                two_subscriptions_of_one_queue_make_two_jobs
                a_message_may_be_delayed
                a_message_that_is_refused_somewhere_goes_nowhere
                all_copies_must_fit
                a_removed_subscription_keeps_its_jobs
                a_subscription_can_be_replaced
                subscriptions_are_shown_in_order
            }
            waiting {
                a_push_wakes_who_waits
                a_wait_in_vain_ends_with_nothing
                a_job_falling_due_wakes_who_waits
                an_earlier_due_time_re_arms_the_alarm
                waiters_are_served_in_the_order_they_came
                a_batch_serves_many_waiters
                a_waiter_takes_what_there_is
                a_waiter_listens_to_all_its_queues
                a_queue_may_be_waited_for_before_it_exists
                a_push_elsewhere_wakes_nobody
                a_vanished_lease_wakes_who_waits
                a_job_given_back_wakes_who_waits
                a_kick_and_an_earlier_time_wake_who_waits
                a_replaced_job_wakes_who_waits
                a_resumed_queue_wakes_who_waits
                a_pause_that_ends_wakes_who_waits
                a_freed_slot_wakes_who_waits
                a_refilled_rate_wakes_who_waits
                a_message_wakes_who_waits
                a_tick_wakes_who_waits
                a_step_of_the_wall_clock_wakes_who_waits
                a_dropped_lease_gives_its_jobs_back
                an_answer_that_nobody_takes_is_given_back
                a_dropped_waiter_makes_way_for_the_next
                a_hundred_waiters_are_served_by_a_hundred_jobs
                closing_ends_every_wait
                a_delayed_release_wakes_who_waits
            }
        }
    };
}

/// The cases that only some engines can be asked for.
#[doc(hidden)]
#[macro_export]
macro_rules! more {
    ($with:ident $make:ident steady $($failed:ident $but:ident)?) => {
        $crate::$with! { $make $($failed $but)?;
            steady {
                a_clock_set_forward_ends_no_lease
                a_clock_set_back_prolongs_no_lease
                a_delay_does_not_feel_the_wall_clock
                the_end_of_a_life_follows_its_own_clock
                retries_and_memories_do_not_feel_the_wall_clock
                order_and_ids_survive_a_clock_set_back
                an_interval_does_not_feel_the_wall_clock
            }
        }
    };
    ($with:ident $make:ident together $($failed:ident $but:ident)?) => {
        $crate::$with! { $make $($failed $but)?;
            urgent {
                the_most_urgent_job_of_all_queues_comes_first
                equals_come_by_due_time_whatever_their_queue
                equals_of_one_moment_come_by_age
                an_answer_ends_where_another_queue_is_more_urgent
                a_batch_of_the_most_urgent_is_as_large_as_asked_for
                a_single_queue_gives_its_jobs_in_order
                a_vanished_job_comes_before_the_jobs_of_other_queues
                an_urgent_job_elsewhere_that_is_not_due_blocks_nobody
                queues_that_hand_out_nothing_are_passed_over
                a_limit_that_is_reached_ends_an_answer
                only_the_queue_that_gives_uses_its_rate
                expired_jobs_are_no_reason_to_choose_a_queue
                a_fair_queue_offers_the_job_whose_turn_it_is
                who_waits_gets_the_most_urgent_of_what_falls_due_at_once
                calls_that_come_together_get_what_each_wants
                who_waits_for_the_most_urgent_listens_to_all_its_queues
                waiters_for_the_most_urgent_are_served_in_the_order_they_came
            }
        }
    };
    ($with:ident $make:ident direct $($failed:ident $but:ident)?) => {
        $crate::$with! { $make $($failed $but)?;
            holds {
                a_named_job_that_is_ready_is_lent
                a_named_job_that_is_not_due_or_dead_is_refused_and_stays_as_it_is
                a_named_job_of_a_paused_queue_is_refused
                a_named_job_past_the_most_leases_is_refused
                a_named_job_past_the_rate_is_refused
                a_named_job_that_cannot_be_lent_at_all_is_not_held_back
            }
            unseen {
                an_answer_that_nobody_takes_is_no_attempt
            }
        }
    };
    ($with:ident $make:ident restarts $($failed:ident $but:ident)?) => {
        $crate::$with! { $make $($failed $but)?;
            restart {
                jobs_in_every_state_survive
                opening_again_and_again_changes_nothing
                an_empty_store_opens_again
                the_order_survives
                the_front_place_survives
                a_lease_goes_on
                a_lease_that_ran_out_is_over
                an_acked_job_stays_done
                ids_and_tokens_go_on_rising
                ids_rise_though_the_clock_was_set_back
                keys_survive
                retention_counts_on
                the_dead_can_be_kicked_after_a_restart
                a_wish_to_cancel_survives
                an_operators_moves_survive
                a_replaced_job_stays_replaced
                what_is_set_up_survives
                a_schedule_goes_on
                time_passes_while_nobody_is_there
                waiting_works_after_a_restart
                a_long_history_leaves_only_the_living
                a_move_goes_on_after_a_restart
                what_a_rate_has_left_survives
                the_books_of_forgotten_queues_survive
            }
        }
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
                    $crate::suite::run_listed(super::$make, $crate::suite::boxed::$theme::$case);
                }
            )*
        })*
    };
}

/// Runs each case of a list, and notes which fail.
#[doc(hidden)]
#[macro_export]
macro_rules! each {
    ($make:ident $failed:ident $but:ident; $($theme:ident { $($case:ident)* })*) => {
        $($(
            let name = concat!(stringify!($theme), "::", stringify!($case));
            println!("{name}");
            let run = || $crate::suite::run_listed(&$make, $crate::suite::boxed::$theme::$case);
            if !$but.iter().any(|but| name.starts_with(but)) && std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
                $failed.push(name);
            }
        )*)*
    };
}

/// A function for each case of a list that answers with a boxed future, in a module per theme.
#[doc(hidden)]
#[macro_export]
macro_rules! boxes {
    ($_none:ident; $($theme:ident { $($case:ident)* })*) => {
        $(pub mod $theme {
            use std::pin::Pin;

            use $crate::bench::Bench;

            $(
                pub fn $case(bench: &Bench) -> Pin<Box<dyn Future<Output = ()> + '_>> {
                    Box::pin($crate::suite::$theme::$case(bench))
                }
            )*
        })*
    };
}

/// Every case, boxed.
#[allow(missing_docs, reason = "the cases say what they are about")]
#[doc(hidden)]
pub mod boxed {
    crate::all! { boxes none }
    crate::more! { boxes none steady }
    crate::more! { boxes none together }
    crate::more! { boxes none direct }
    crate::more! { boxes none restarts }
}
