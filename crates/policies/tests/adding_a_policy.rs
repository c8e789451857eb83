//! The example of docs/adding-a-policy.md stands there as it is compiled here, and passes the jury.

#![forbid(unsafe_code)]

#[path = "adding/owner.rs"]
mod owner;

#[test]
fn the_example_of_the_document_is_this_file_and_passes_the_jury() {
    let document = include_str!("../../../docs/adding-a-policy.md");
    let example = concat!("```rust\n", include_str!("adding/owner.rs"), "```\n");
    assert!(document.contains(example), "the document has another text");
    testkit::jury::judge(&owner::OWNER);
}
