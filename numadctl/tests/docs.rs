//! Every command line of `numadctl` that documents show is one that it takes.

#![cfg(test)]

#[test]
fn what_documents_show_is_a_command() {
    testkit::docs::check("numadctl", &numadctl::cli::command());
}
