//! Asking a person for a passphrase, without echo.

use super::secret::SecretBytes;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::{self, Read, Write};

const INTERRUPT: u8 = 0x03;
const END: u8 = 0x04;
const BACKSPACE: u8 = 0x08;
const CLEAR: u8 = 0x15;
const DELETE: u8 = 0x7f;

/// A terminal without echo, which gets its old settings back.
struct Silent<'a>(&'a File, Termios);

impl<'a> Silent<'a> {
    fn new(terminal: &'a File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        // Bytes come one by one, also that of Ctrl-C: a signal would leave the terminal without echo.
        silent.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        tcsetattr(terminal, OptionalActions::Flush, &silent)?;
        Ok(Self(terminal, before))
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs no echo.
        let _ = tcsetattr(self.0, OptionalActions::Flush, &self.1);
    }
}

/// Asks for a line at `terminal`, and appends it to `line`.
///
/// # Errors
/// The terminal's; of kind `Interrupted` after Ctrl-C.
pub(super) fn ask(mut terminal: &File, question: &str, line: &mut SecretBytes) -> io::Result<()> {
    let silent = Silent::new(terminal)?;
    write!(terminal, "{question}: ")?;
    let read = read_line(terminal, line);
    drop(silent);
    writeln!(terminal)?;
    read
}

fn read_line(mut terminal: &File, line: &mut SecretBytes) -> io::Result<()> {
    loop {
        let mut byte = [0];
        match terminal.read(&mut byte) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        match byte[0] {
            b'\n' | b'\r' | END => return Ok(()),
            INTERRUPT => return Err(io::ErrorKind::Interrupted.into()),
            BACKSPACE | DELETE => line.remove_char(),
            CLEAR => line.truncate(0),
            byte => line.push(byte)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    /// The ends of a terminal: the person's, and the program's.
    fn terminal() -> (File, File) {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&person).and_then(|()| unlockpt(&person)).expect("it is ours");
        let name = ptsname(&person, Vec::new()).expect("a name").into_string().expect("text");
        (person.into(), File::options().read(true).write(true).open(name).expect("the other end"))
    }

    /// The answer that `keys` make, and all that the terminal showed.
    fn typed(keys: &[u8]) -> (io::Result<Vec<u8>>, String) {
        let (mut person, program) = terminal();
        let question = std::thread::spawn(move || {
            let mut line = SecretBytes::default();
            let asked = ask(&program, "Passphrase", &mut line);
            let modes = tcgetattr(&program).expect("settings").local_modes;
            assert!(modes.contains(LocalModes::ECHO), "the echo is back");
            asked.map(|()| line.as_slice().to_vec())
        });
        let mut shown = Vec::new();
        let mut read = |person: &mut File, end: &str| {
            while !String::from_utf8_lossy(&shown).ends_with(end) {
                let mut byte = [0];
                person.read_exact(&mut byte).expect("a byte");
                shown.push(byte[0]);
            }
            String::from_utf8_lossy(&shown).into_owned()
        };
        read(&mut person, ": ");
        person.write_all(keys).expect("keys");
        let shown = read(&mut person, "\n");
        (question.join().expect("it ends"), shown)
    }

    #[test]
    fn a_passphrase_is_read_without_echo_and_can_be_corrected() {
        let (line, shown) = typed("wrong\u{15}corrext\u{7f}\u{7f}ct hö\u{8}orse\r".as_bytes());
        assert_eq!(line.expect("a line"), b"correct horse");
        assert_eq!(shown, "Passphrase: \r\n");
        assert_eq!(typed(b"\x08\x7f\n").0.expect("a line"), b"");
    }

    #[test]
    fn ctrl_c_is_an_answer_and_brings_the_echo_back() {
        let (line, _) = typed(b"half\x03");
        assert_eq!(line.expect_err("no line").kind(), io::ErrorKind::Interrupted);
    }
}
