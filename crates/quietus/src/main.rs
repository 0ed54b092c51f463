//! `quietus`: a disk that forgets what it is told to.

use quietus::aligned::Aligned;

#[global_allocator]
static MEMORY: Aligned = Aligned;

fn main() -> std::process::ExitCode {
    quietus::cli::main()
}
