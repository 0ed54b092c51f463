//! Every parser of what an NBD client sends.
#![no_main]
use libfuzzer_sys::fuzz_target;
use quietus::front::nbd::wire::option::{InfoRequest, MetaRequest, OptionHeader, export_name};
use quietus::front::nbd::wire::request::{RequestHeader, Style, status_payload};

fuzz_target!(|data: &[u8]| {
    for style in [Style::Simple, Style::Structured, Style::Extended] {
        if let Ok(Some(header)) = RequestHeader::from_bytes(data, style) {
            let _ = (header.payload_bytes(style), header.flags_fit(style));
        }
    }
    if let Some((head, rest)) = data.split_first_chunk() {
        let _ = OptionHeader::from_bytes(head);
        let _ = InfoRequest::from_bytes(rest);
        let _ = MetaRequest::from_bytes(rest);
    }
    let _ = export_name(data);
    if let Ok((_, contexts)) = status_payload(data) {
        assert!(contexts.len() * 4 <= data.len(), "more contexts than bytes to name them");
    }
});
