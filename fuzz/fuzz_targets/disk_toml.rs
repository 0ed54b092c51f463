//! `disk.toml`, sizes and durations of any text are understood, or refused.
#![no_main]
use libfuzzer_sys::fuzz_target;
use quietus::base::duration::parse_duration_ms;
use quietus::disk::{DiskToml, parse_size};

fuzz_target!(|text: &str| {
    let _ = DiskToml::from_text(text);
    let _ = parse_size(text);
    let _ = parse_duration_ms(text);
    let _ = text.parse::<quietus_core::erase::policy::Policy>();
});
