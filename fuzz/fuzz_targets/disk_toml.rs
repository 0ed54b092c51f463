//! `disk.toml`, sizes and durations of any text are understood, or refused.
#![no_main]
use libfuzzer_sys::fuzz_target;
use quietus::disk::{DiskToml, parse_duration_ms, parse_size};

fuzz_target!(|text: &str| {
    let _ = DiskToml::from_text(text);
    let _ = parse_size(text);
    let _ = parse_duration_ms(text);
    let _ = text.parse::<quietus_core::policy::Policy>();
});
