//! The transmission phase: requests come in, and each is handed to the export
//! or answered on the spot.

use super::handshake::Agreed;
use super::input::Input;
use super::outbox::{Outbox, Pending};
use super::status::{self, CONTEXTS_MAX, Context};
use super::wire::reply::{Errno, ReplyFor};
use super::wire::request::{self, Command, RequestHeader, Style};
use super::wire::{PAYLOAD_BYTES_MAX, cmd_flag};
use crate::base::buffers;
use crate::engine::export::{Export, ExportInfo, ReplyTo, Sink};
use quietus_core::base::units::{Addr, Extent};
use quietus_core::request::{Op, Request};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Longest payload of a `NBD_CMD_BLOCK_STATUS` that can make sense, bytes.
const STATUS_PAYLOAD_BYTES_MAX: u64 = 8 + 4 * CONTEXTS_MAX as u64;

/// A request of more bytes gains nothing from haste.
const HASTE_BYTES_MAX: u64 = 32 << 10;

/// See the module.
pub struct Session {
    export: Arc<dyn Export>,
    info: ExportInfo,
    style: Style,
    contexts: Vec<Context>,
    input: Input,
    outbox: Arc<Outbox>,
}

/// Why a request is refused before the export sees it.
type Refused = (Errno, &'static str);

/// Whether the session goes on.
type Flow = io::Result<ControlFlow<()>>;

const ON: Flow = Ok(ControlFlow::Continue(()));
const END: Flow = Ok(ControlFlow::Break(()));

impl Session {
    /// A session as `agreed`; replies go to `outbox`.
    pub fn new(agreed: Agreed, outbox: Arc<Outbox>) -> Self {
        let Agreed { export, style, contexts, input } = agreed;
        Self { info: export.info(), export, style, contexts, input, outbox }
    }

    /// Serves requests until the client ends the session or breaks the protocol, then waits for
    /// those in flight.
    ///
    /// # Errors
    /// If the connection ends otherwise.
    pub fn run(&mut self) -> io::Result<()> {
        while self.next()?.is_continue() {}
        self.outbox.wait_until_idle(None);
        Ok(())
    }

    fn next(&mut self) -> Flow {
        match RequestHeader::from_bytes(self.input.bytes(), self.style) {
            Ok(Some(header)) => {
                self.input.take(self.style.request_bytes());
                self.handle(&header)
            }
            Ok(None) => {
                self.outbox.flush();
                if self.input.fill()? { ON } else { END }
            }
            Err(error) => {
                let peer = self.input.channel().socket().peer();
                tracing::debug!(peer, %error, "the client broke the protocol");
                END
            }
        }
    }

    fn handle(&mut self, header: &RequestHeader) -> Flow {
        let payload = header.payload_bytes(self.style);
        if header.command == Command::Disc {
            return END;
        }
        if header.len > HASTE_BYTES_MAX {
            self.input.channel().socket().expect_delay();
        }
        if payload > PAYLOAD_BYTES_MAX.into() {
            let _ = self.refuse(header, (Errno::EINVAL, "a payload of more than 32 MiB"));
            return END;
        }
        match self.check(header) {
            Err(refused) => {
                self.skip(payload)?;
                self.refuse(header, refused)
            }
            Ok(()) if header.command == Command::BlockStatus => self.block_status(header, payload),
            Ok(()) if header.command == Command::Write => self.write(header),
            Ok(()) => self.submit_plain(header),
        }
    }

    /// Whether the export may see the request.
    fn check(&self, header: &RequestHeader) -> Result<(), Refused> {
        if let Command::Unknown(_) = header.command {
            return Err((Errno::EINVAL, "an unknown command"));
        }
        if !header.flags_fit(self.style) {
            return Err((Errno::EINVAL, "a flag that this command does not allow"));
        }
        if self.outbox.is_draining() {
            return Err((Errno::ESHUTDOWN, "the server is being stopped"));
        }
        let writes = matches!(header.command, Command::Write | Command::Trim | Command::WriteZeroes);
        if writes && self.info.read_only {
            return Err((Errno::EPERM, "the disk is read-only"));
        }
        self.check_range(header)
    }

    fn check_range(&self, header: &RequestHeader) -> Result<(), Refused> {
        let within = Extent::<Addr>::within(header.offset, header.len, self.info.size).is_some();
        match header.command {
            Command::BlockStatus if header.has(cmd_flag::PAYLOAD_LEN) => Ok(()),
            Command::Flush if (header.offset, header.len) != (0, 0) => {
                Err((Errno::EINVAL, "a flush with an offset or a length other than 0"))
            }
            Command::Write | Command::WriteZeroes if !within => {
                Err((Errno::ENOSPC, "beyond the end of the disk"))
            }
            _ if !within => Err((Errno::EINVAL, "beyond the end of the disk")),
            Command::Read if header.len > PAYLOAD_BYTES_MAX.into() => {
                Err((self.too_long(), "a read of more than 32 MiB"))
            }
            _ => Ok(()),
        }
    }

    const fn too_long(&self) -> Errno {
        match self.style {
            Style::Simple => Errno::EINVAL,
            Style::Structured | Style::Extended => Errno::EOVERFLOW,
        }
    }

    fn to(&self, header: &RequestHeader) -> ReplyFor {
        ReplyFor { style: self.style, cookie: header.cookie, offset: header.offset }
    }

    /// Waits for room for the request. None, and the session ends, if the
    /// connection has ended.
    fn admit(&self, header: &RequestHeader, read_bytes: usize, charge: usize) -> Option<u64> {
        self.outbox.admit(Pending { to: self.to(header), read_bytes, charge })
    }

    fn refuse(&self, header: &RequestHeader, (errno, text): Refused) -> Flow {
        let Some(cookie) = self.admit(header, 0, text.len()) else { return END };
        self.outbox.refuse(cookie, errno, text);
        ON
    }

    fn skip(&mut self, payload: u64) -> io::Result<()> {
        self.outbox.flush();
        self.input.skip(payload)
    }

    /// Hands a request without payload to the export.
    fn submit_plain(&mut self, header: &RequestHeader) -> Flow {
        let Some(op) = plain_op(header) else { return END };
        let read_bytes = if op == Op::Read { header.len as usize } else { 0 };
        let Some(cookie) = self.admit(header, read_bytes, read_bytes) else { return END };
        self.submit(header, op, cookie);
        ON
    }

    fn write(&mut self, header: &RequestHeader) -> Flow {
        let len = header.len as usize;
        let Some(cookie) = self.admit(header, 0, len) else { return END };
        if self.input.bytes().len() < len {
            self.outbox.flush();
        }
        let mut payload = buffers::take(len);
        self.input.receive(&mut payload)?;
        self.submit(header, Op::Write(payload.into()), cookie);
        ON
    }

    /// Hands a request to the export, unless it is about no byte.
    fn submit(&self, header: &RequestHeader, op: Op, cookie: u64) {
        if header.len == 0 && op != Op::Flush {
            return self.outbox.done(cookie);
        }
        let fua = header.has(cmd_flag::FUA) && op.is_write();
        if fua || op == Op::Flush {
            self.outbox.flush();
        }
        self.outbox.expect_more(self.input.bytes().len() >= self.style.request_bytes());
        let request = Request { op, extent: Extent::new(header.offset, header.len), fua };
        let sink: Arc<Outbox> = Arc::clone(&self.outbox);
        self.export.submit(request, ReplyTo { sink, cookie });
    }

    fn block_status(&mut self, header: &RequestHeader, payload: u64) -> Flow {
        let question = self.question(header, payload)?;
        let (extent, contexts) = match question {
            Err(refused) => return self.refuse(header, refused),
            Ok(question) => question,
        };
        let charge = status::reply_bytes_max(contexts.len());
        let Some(cookie) = self.admit(header, 0, charge) else { return END };
        let one = header.has(cmd_flag::REQ_ONE);
        match status::reply(self.export.as_ref(), &self.to(header), &contexts, extent, one) {
            Ok(reply) => self.outbox.tell(cookie, reply),
            Err(refusal) => self.outbox.reply(cookie, Err(refusal)),
        }
        ON
    }

    /// The bytes and the contexts that a `NBD_CMD_BLOCK_STATUS` asks about.
    fn question(&mut self, header: &RequestHeader, payload: u64) -> io::Result<Result<Question, Refused>> {
        let (len, contexts) = if header.has(cmd_flag::PAYLOAD_LEN) {
            if payload > STATUS_PAYLOAD_BYTES_MAX {
                self.skip(payload)?;
                return Ok(Err((Errno::EINVAL, "more contexts than the server has")));
            }
            self.outbox.flush();
            let asked = request::status_payload(self.input.exactly(payload as usize)?);
            match asked.ok().and_then(|(len, ids)| Some((len, self.chosen(&ids)?))) {
                Some(asked) => asked,
                None => return Ok(Err((Errno::EINVAL, "not a list of negotiated contexts"))),
            }
        } else {
            (header.len, self.contexts.clone())
        };
        if contexts.is_empty() {
            return Ok(Err((Errno::EINVAL, "no metadata context was negotiated")));
        }
        let extent = Extent::within(header.offset, len, self.info.size).filter(|extent| !extent.is_empty());
        let extent = extent.ok_or((Errno::EINVAL, "an empty range, or one beyond the end of the disk"));
        Ok(extent.map(|extent| (extent, contexts)))
    }

    /// The negotiated contexts numbered `ids`; `None` if a number is unknown or given twice.
    fn chosen(&self, ids: &[u32]) -> Option<Vec<Context>> {
        let mut chosen = Vec::new();
        for id in ids {
            let context = self.contexts.iter().find(|context| context.id() == *id)?;
            if chosen.iter().any(|other: &Context| other.id() == *id) {
                return None;
            }
            chosen.push(context.clone());
        }
        Some(chosen)
    }
}

/// An extent, and the contexts that are asked about it.
type Question = (Extent<Addr>, Vec<Context>);

fn plain_op(header: &RequestHeader) -> Option<Op> {
    Some(match header.command {
        Command::Read => Op::Read,
        Command::Flush => Op::Flush,
        Command::Trim => Op::Trim,
        Command::Cache => Op::Cache,
        Command::WriteZeroes => {
            Op::Zero { no_hole: header.has(cmd_flag::NO_HOLE), fast: header.has(cmd_flag::FAST_ZERO) }
        }
        Command::Write | Command::Disc | Command::BlockStatus | Command::Unknown(_) => return None,
    })
}
