//! The test suite of all backends. Run it for your own backend.
//!
//! [`suite!`] makes a module with one `#[tokio::test]` per behaviour, so a failure names the behaviour. In your
//! `[dev-dependencies]` you need this crate with the feature `testing`, and `tokio` with the features `macros` and
//! `rt-multi-thread`.
//!
//! ```
//! use prowess_backend::MemoryBackend;
//! use prowess_backend::testing::{self, Subject};
//!
//! // Evaluated anew for each behaviour: a subject begins empty.
//! testing::suite!(memory, Subject::new(MemoryBackend::new()));
//! # fn main() {}
//! ```
//!
//! You can also call a single behaviour as a function:
//!
//! ```
//! # use prowess_backend::MemoryBackend;
//! # use prowess_backend::testing::{Subject, writing};
//! # #[tokio::main]
//! # async fn main() {
//! writing::append_adds_to_the_end(&Subject::new(MemoryBackend::new())).await;
//! # }
//! ```

pub mod batches;
pub mod concurrency;
pub mod editing;
pub mod globbing;
pub mod grepping;
pub mod listing;
pub mod reading;
mod subject;
pub mod writing;

pub use crate::backend_suite as suite;
pub use subject::Subject;

/// Makes a module with one test per behaviour; see [`testing`](crate::testing).
///
/// The first argument is the name of the module. The second is an expression that returns a new
/// [`Subject`](crate::testing::Subject).
#[macro_export]
macro_rules! backend_suite {
    ($name:ident, $subject:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "not every subject uses the names around it")]
            use super::*;

            $crate::backend_suite! { @tests $subject;
                listing:
                    the_root_can_be_listed ls_sorts_by_name ls_tells_kinds_and_sizes ls_shows_a_directory_once
                    ls_of_a_file_is_refused ls_of_nothing_is_not_found ls_below_a_file_is_not_found
                    names_with_a_common_beginning_are_not_inside_each_other unicode_names_are_kept
                    hidden_names_are_listed odd_names_are_kept stat_describes_a_file stat_describes_directories
                    stat_of_nothing_is_not_found stamps_agree_everywhere stamps_change_with_the_contents;
                reading:
                    gives_back_what_was_written gives_back_any_bytes an_empty_file_is_whole
                    a_file_of_exactly_the_limit_is_whole one_byte_over_the_limit_is_cut_and_says_so
                    a_window_in_the_middle a_window_to_the_end beyond_the_end_is_nothing nothing_can_be_asked_for
                    the_largest_range_is_no_trap a_directory_is_refused nothing_is_not_found
                    below_a_file_is_not_found what_is_not_text_is_refused_as_text;
                writing:
                    replacing_is_whole create_new_creates create_new_refuses_what_exists
                    missing_directories_are_created over_a_directory_is_refused over_the_root_is_refused
                    below_a_file_is_refused an_empty_file_exists answers_describe_what_was_written
                    append_creates append_adds_to_the_end append_of_nothing_changes_nothing
                    append_to_a_directory_is_refused append_below_a_file_is_refused delete_removes_one_file
                    delete_of_nothing_is_not_found delete_of_a_directory_is_refused
                    a_deleted_file_can_be_created_again errors_carry_the_callers_path;
                editing:
                    replaces_the_only_occurrence refuses_several_and_counts_them replaces_all_occurrences
                    refuses_absent_text refuses_empty_text an_empty_replacement_deletes lines_and_unicode_are_exact
                    overlapping_occurrences_count_once a_missing_file_is_not_found a_directory_is_refused
                    binary_is_refused the_largest_file_is_edited_and_a_larger_one_refused
                    swap_replaces_what_the_caller_knows swap_needs_a_file one_swap_wins;
                globbing:
                    two_stars_span_directories one_star_stays_within_a_name classes_and_question_marks
                    braces_are_alternatives hidden_names_match only_files_are_found results_are_in_order
                    patterns_are_relative_to_the_base the_result_cap_is_exact_and_reported
                    the_visit_cap_is_reported a_missing_base_is_not_found a_file_as_base_is_refused
                    an_empty_answer_is_no_error entries_are_as_stat_says hostile_patterns_are_refused;
                grepping:
                    finds_lines_with_their_numbers a_literal_means_itself searches_only_the_files_asked_for
                    the_cap_per_file_is_reported the_cap_in_all_is_exact_and_reported binary_files_are_counted
                    a_large_file_is_searched_in_part line_ends_are_not_part_of_lines long_lines_are_cut
                    one_file_can_be_searched a_missing_base_is_not_found foreign_encodings_are_searched
                    hostile_patterns_are_refused results_are_in_order;
                batches:
                    read_many_answers_in_order_with_an_error_each read_many_cuts_each_file
                    read_many_of_nothing_is_nothing read_many_keeps_the_order_of_many
                    read_many_answers_for_a_repeated_path upload_answers_in_order_with_an_error_each
                    the_last_upload_of_a_path_wins download_answers_in_order_with_an_error_each;
                concurrency:
                    appends_lose_nothing edits_lose_nothing appends_and_edits_lose_nothing
                    one_creator_wins readers_see_whole_files writers_share_new_directories;
            }
        }
    };
    (@tests $subject:expr; $($module:ident: $($behaviour:ident)+;)+) => {
        $(
            mod $module {
                #[allow(unused_imports, reason = "not every subject uses the names around it")]
                use super::*;

                $(
                    #[::tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $behaviour() {
                        $crate::testing::$module::$behaviour(&$subject).await;
                    }
                )+
            }
        )+
    };
}
