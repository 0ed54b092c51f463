//! The handshake: fixed newstyle, with the options of a demanding client.

use super::config::Tls;
use super::input::Input;
use super::status::{self, Context};
use super::transport::channel::Channel;
use super::transport::socket::Socket;
use super::wire::option::{self, InfoRequest, MetaRequest, OptionHeader, OptionKind};
use super::wire::request::Style;
use super::wire::{
    IHAVEOPT, Malformed, NBDMAGIC, OPTION_BYTES_MAX, PAYLOAD_BYTES_MAX, flag, handshake_flag, info, rep,
};
use crate::engine::export::{Export, ExportInfo};
use crate::front::Exports;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Most options of one handshake.
const OPTIONS_MAX: usize = 1024;
/// Most bytes of options of one handshake.
const OPTIONS_BYTES_MAX: u64 = 8 << 20;
/// The smallest request that is taken, and the one that is served best, bytes.
const BLOCK_BYTES: (u32, u32) = (1, 4096);

/// Terms that client and server agreed on.
pub struct Agreed {
    /// The disk.
    pub export: Arc<dyn Export>,
    /// The style of the headers.
    pub style: Style,
    /// The metadata contexts, in order of their first mention.
    pub contexts: Vec<Context>,
    /// The input, from which the client's requests come.
    pub input: Input,
}

/// The server's side of the handshake.
pub struct Offer<'a> {
    /// The disks.
    pub exports: &'a Exports,
    /// Whether the connection is encrypted.
    pub tls: Tls,
    /// See [`Config::handshake_timeout`](super::Config::handshake_timeout).
    pub handshake_timeout: Duration,
    /// See [`Config::extended_headers`](super::Config::extended_headers).
    pub extended_headers: bool,
    /// Set when the server is being stopped.
    pub stopping: &'a AtomicBool,
    /// Set before the client learns that transmission begins.
    pub agreed: &'a AtomicBool,
}

/// Negotiates with the client at `socket`. None if the client wants nothing more.
///
/// # Errors
/// If the connection ends, the client breaks the protocol, or the handshake takes longer than
/// [`Offer::handshake_timeout`].
pub fn negotiate(socket: Arc<Socket>, offer: &Offer) -> io::Result<Option<Agreed>> {
    let deadline = Instant::now() + offer.handshake_timeout;
    let input = Input::new(Arc::new(Channel::plain(socket)), deadline);
    let mut negotiation = Negotiation { offer, deadline, input, no_zeroes: false, terms: Terms::default() };
    let outcome = negotiation.greet().and_then(|()| negotiation.haggle());
    if let Ok(Some(export)) = outcome {
        return Ok(Some(negotiation.agree(export)));
    }
    let patience = deadline.saturating_duration_since(Instant::now());
    negotiation.input.channel().close(patience);
    outcome.map(|_| None)
}

struct Negotiation<'a> {
    offer: &'a Offer<'a>,
    deadline: Instant,
    input: Input,
    no_zeroes: bool,
    terms: Terms,
}

/// Terms that the client asked for. TLS begins without any.
#[derive(Default)]
struct Terms {
    structured: bool,
    extended: bool,
    /// Contexts, and the name of the disk for which they were chosen.
    meta: Option<(String, Vec<Context>)>,
}

impl Terms {
    const fn style(&self) -> Style {
        match (self.extended, self.structured) {
            (true, _) => Style::Extended,
            (false, true) => Style::Structured,
            (false, false) => Style::Simple,
        }
    }

    fn contexts(&self, export: &str) -> &[Context] {
        match &self.meta {
            Some((name, contexts)) if name == export => contexts,
            _ => &[],
        }
    }
}

/// The step after an option.
enum Next {
    Option,
    End,
    Transmission(Arc<dyn Export>),
}

fn broken(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Malformed(what))
}

impl Negotiation<'_> {
    fn greet(&mut self) -> io::Result<()> {
        let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
        let mut greeting = Vec::from(NBDMAGIC.to_be_bytes());
        greeting.extend(IHAVEOPT.to_be_bytes());
        greeting.extend(flags.to_be_bytes());
        self.send(&greeting)?;
        let client = u32::from_be_bytes(self.field()?);
        if client & !u32::from(flags) != 0 {
            return Err(broken("an unknown client flag"));
        }
        if client & u32::from(handshake_flag::FIXED_NEWSTYLE) == 0 && self.offer.tls.is_required() {
            return Err(broken("the client did not start TLS, which is required"));
        }
        self.no_zeroes = client & u32::from(handshake_flag::NO_ZEROES) != 0;
        Ok(())
    }

    fn haggle(&mut self) -> io::Result<Option<Arc<dyn Export>>> {
        let mut bytes_left = OPTIONS_BYTES_MAX;
        for _ in 0..OPTIONS_MAX {
            let header = OptionHeader::from_bytes(&self.field()?);
            let header = header.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            bytes_left = bytes_left
                .checked_sub(header.len.into())
                .ok_or_else(|| broken("too many bytes of options"))?;
            match self.option(header)? {
                Next::Option => {}
                Next::End => return Ok(None),
                Next::Transmission(export) => return Ok(Some(export)),
            }
        }
        Err(broken("too many options"))
    }

    fn agree(self, export: Arc<dyn Export>) -> Agreed {
        let contexts = self.terms.contexts(&export.info().name).to_vec();
        Agreed { style: self.terms.style(), contexts, export, input: self.input }
    }

    fn field<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let bytes = self.input.exactly(N)?;
        Ok(*bytes.first_chunk().expect("as many as asked for"))
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.input.channel().send_all(bytes, self.deadline)
    }

    fn reply(&self, option: u32, kind: u32, text: &str) -> io::Result<Next> {
        let mut out = Vec::new();
        option::put_reply(&mut out, option, kind, &[text.as_bytes()]);
        self.send(&out)?;
        Ok(Next::Option)
    }

    fn is_secure(&self) -> bool {
        self.input.channel().is_secure()
    }

    fn option(&mut self, header: OptionHeader) -> io::Result<Next> {
        let OptionHeader { option, len } = header;
        if len > OPTION_BYTES_MAX {
            self.input.skip(len.into())?;
        }
        let data =
            if len > OPTION_BYTES_MAX { Vec::new() } else { self.input.exactly(len as usize)?.to_vec() };
        let kind = OptionKind::from_number(option);
        match (kind, self.objection(kind, len)) {
            (Some(OptionKind::ExportName), Some((_, text))) => Err(broken(text)),
            (_, Some((error, text))) => self.reply(option, error, text),
            (Some(kind), None) => self.known_option(option, kind, &data),
            (None, None) => self.reply(option, rep::ERR_UNSUP, "unknown option"),
        }
    }

    /// The reason why an option is refused unread.
    fn objection(&self, kind: Option<OptionKind>, len: u32) -> Option<(u32, &'static str)> {
        use OptionKind::{Abort, ExtendedHeaders, List, StartTls, StructuredReply};
        let plain = self.offer.tls.is_required() && !self.is_secure();
        match kind {
            Some(Abort) => None,
            _ if plain && kind != Some(StartTls) => Some((rep::ERR_TLS_REQD, "TLS comes first")),
            _ if self.offer.stopping.load(Ordering::Relaxed) => {
                Some((rep::ERR_SHUTDOWN, "the server is being stopped"))
            }
            None => None,
            _ if len > OPTION_BYTES_MAX => Some((rep::ERR_TOO_BIG, "an option of more than 64 KiB")),
            Some(List | StartTls | StructuredReply | ExtendedHeaders) if len > 0 => {
                Some((rep::ERR_INVALID, "this option has no data"))
            }
            Some(_) => None,
        }
    }

    fn known_option(&mut self, option: u32, kind: OptionKind, data: &[u8]) -> io::Result<Next> {
        match kind {
            OptionKind::Abort => {
                // The client may be gone by now, and is free to be.
                let _ = self.reply(option, rep::ACK, "");
                Ok(Next::End)
            }
            OptionKind::ExportName => self.export_name(data),
            OptionKind::List => self.list(option),
            OptionKind::StartTls => self.start_tls(option),
            OptionKind::Info | OptionKind::Go => self.info(option, kind, data),
            OptionKind::StructuredReply => self.structured_reply(option),
            OptionKind::ExtendedHeaders => self.extended_headers(option),
            OptionKind::ListMetaContext | OptionKind::SetMetaContext => self.meta_context(option, kind, data),
        }
    }

    fn export_name(&self, data: &[u8]) -> io::Result<Next> {
        if self.terms.extended {
            return Err(broken("NBD_OPT_EXPORT_NAME after extended headers"));
        }
        let name =
            option::export_name(data).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let export = self.offer.exports.find(name).map_err(|_| broken("an unknown export"))?;
        let info = export.info();
        let mut out = Vec::from(info.size.to_be_bytes());
        out.extend(self.transmission_flags(&info).to_be_bytes());
        out.resize(if self.no_zeroes { 10 } else { 134 }, 0);
        self.offer.agreed.store(true, Ordering::Relaxed);
        self.send(&out)?;
        Ok(Next::Transmission(export))
    }

    fn list(&self, option: u32) -> io::Result<Next> {
        let mut out = Vec::new();
        for export in self.offer.exports.all().iter() {
            let ExportInfo { name, description, .. } = export.info();
            let name_len = u32::try_from(name.len()).expect("names are short").to_be_bytes();
            let parts = [&name_len[..], name.as_bytes(), description.as_bytes()];
            option::put_reply(&mut out, option, rep::SERVER, &parts);
        }
        option::put_reply(&mut out, option, rep::ACK, &[]);
        self.send(&out)?;
        Ok(Next::Option)
    }

    fn start_tls(&mut self, option: u32) -> io::Result<Next> {
        let Some(config) = self.offer.tls.server_config() else {
            return self.reply(option, rep::ERR_POLICY, "TLS is not configured");
        };
        if self.is_secure() {
            return self.reply(option, rep::ERR_INVALID, "TLS is in use");
        }
        self.reply(option, rep::ACK, "")?;
        let socket = Arc::clone(self.input.channel().socket());
        let received = self.input.bytes();
        let (channel, ciphertext) = Channel::secured(socket, Arc::clone(config), received, self.deadline)?;
        self.input.replace(Arc::new(channel), ciphertext);
        self.terms = Terms::default();
        Ok(Next::Option)
    }

    fn structured_reply(&mut self, option: u32) -> io::Result<Next> {
        if self.terms.extended {
            return self.reply(option, rep::ERR_EXT_HEADER_REQD, "extended headers are in use");
        }
        self.terms.structured = true;
        self.reply(option, rep::ACK, "")
    }

    fn extended_headers(&mut self, option: u32) -> io::Result<Next> {
        if !self.offer.extended_headers {
            return self.reply(option, rep::ERR_UNSUP, "extended headers are turned off");
        }
        if self.terms.extended {
            return self.reply(option, rep::ERR_INVALID, "extended headers are in use");
        }
        self.terms.extended = true;
        self.reply(option, rep::ACK, "")
    }

    fn info(&self, option: u32, kind: OptionKind, data: &[u8]) -> io::Result<Next> {
        let request = match InfoRequest::from_bytes(data) {
            Ok(request) => request,
            Err(Malformed(what)) => return self.reply(option, rep::ERR_INVALID, what),
        };
        let export = match self.offer.exports.find(request.name) {
            Ok(export) => export,
            Err(why) => return self.reply(option, rep::ERR_UNKNOWN, &why),
        };
        let mut out = Vec::new();
        self.put_info(&mut out, option, &request, &export.info());
        option::put_reply(&mut out, option, rep::ACK, &[]);
        let goes = kind == OptionKind::Go;
        self.offer.agreed.store(goes, Ordering::Relaxed);
        self.send(&out)?;
        Ok(if goes { Next::Transmission(export) } else { Next::Option })
    }

    fn put_info(&self, out: &mut Vec<u8>, option: u32, request: &InfoRequest, export: &ExportInfo) {
        let mut put = |kind: u16, parts: [&[u8]; 3]| {
            let [first, second, third] = parts;
            option::put_reply(out, option, rep::INFO, &[&kind.to_be_bytes(), first, second, third]);
        };
        let flags = self.transmission_flags(export);
        put(info::EXPORT, [&export.size.to_be_bytes(), &flags.to_be_bytes(), &[]]);
        if request.wants(info::NAME) {
            put(info::NAME, [export.name.as_bytes(), &[], &[]]);
        }
        if request.wants(info::DESCRIPTION) {
            put(info::DESCRIPTION, [export.description.as_bytes(), &[], &[]]);
        }
        if request.wants(info::BLOCK_SIZE) {
            let sizes = [BLOCK_BYTES.0, BLOCK_BYTES.1, PAYLOAD_BYTES_MAX].map(u32::to_be_bytes);
            put(info::BLOCK_SIZE, [&sizes[0], &sizes[1], &sizes[2]]);
        }
    }

    fn transmission_flags(&self, export: &ExportInfo) -> u16 {
        let style = self.terms.style();
        let payload = style == Style::Extended && !self.terms.contexts(&export.name).is_empty();
        let writes = flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO;
        let when = |condition: bool, flags: u16| if condition { flags } else { 0 };
        flag::HAS_FLAGS
            | flag::SEND_FLUSH
            | flag::SEND_FUA
            | flag::SEND_CACHE
            | when(export.read_only, flag::READ_ONLY)
            | when(!export.read_only, writes)
            | when(style > Style::Simple, flag::SEND_DF)
            | when(export.multi_connection, flag::CAN_MULTI_CONN)
            | when(payload, flag::BLOCK_STATUS_PAYLOAD)
    }

    fn meta_context(&mut self, option: u32, kind: OptionKind, data: &[u8]) -> io::Result<Next> {
        let set = kind == OptionKind::SetMetaContext;
        if set {
            self.terms.meta = None;
        }
        if self.terms.style() == Style::Simple {
            return self.reply(option, rep::ERR_INVALID, "structured replies must be negotiated first");
        }
        let request = match MetaRequest::from_bytes(data) {
            Ok(request) => request,
            Err(Malformed(what)) => return self.reply(option, rep::ERR_INVALID, what),
        };
        let export = match self.offer.exports.find(request.name) {
            Ok(export) => export,
            Err(why) => return self.reply(option, rep::ERR_UNKNOWN, &why),
        };
        if set {
            let contexts = status::chosen(&*export, &request.queries);
            let named = contexts.iter().map(|context| (context.id(), context.name()));
            self.reply_contexts(option, named)?;
            self.terms.meta = Some((export.info().name, contexts));
        } else {
            let names = status::listed(&*export, &request.queries);
            self.reply_contexts(option, names.iter().map(|name| (0, name.as_str())))?;
        }
        Ok(Next::Option)
    }

    fn reply_contexts<'a>(
        &self,
        option: u32,
        contexts: impl Iterator<Item = (u32, &'a str)>,
    ) -> io::Result<()> {
        let mut out = Vec::new();
        for (id, name) in contexts {
            let parts = [&id.to_be_bytes()[..], name.as_bytes()];
            option::put_reply(&mut out, option, rep::META_CONTEXT, &parts);
        }
        option::put_reply(&mut out, option, rep::ACK, &[]);
        self.send(&out)
    }
}
