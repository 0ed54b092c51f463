//! A call of any text is understood, or refused.
#![no_main]
use libfuzzer_sys::fuzz_target;
use quietus::front::control::Call;

fuzz_target!(|text: &str| {
    if let Ok(call) = serde_json::from_str::<Call>(text) {
        let again = serde_json::to_string(&call).expect("a call is plain data");
        assert_eq!(serde_json::from_str::<Call>(&again).expect("a call"), call);
    }
});
