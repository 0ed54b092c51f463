//! No text passes for a signed receipt.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    assert!(quietus::proof::Receipt::parse(text, None).is_err(), "a forgery passed");
});
