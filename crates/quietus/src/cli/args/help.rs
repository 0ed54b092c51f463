//! What stands at the end of each `--help`.

/// Examples, and the exit status.
macro_rules! help {
    ($($example:literal),+) => {
        concat!(
            "Examples:\n", $("  ", $example, "\n",)+ "\n",
            "Exit status: 0 success, 1 failure, 2 wrong command line, 3 success with a bad result, 130 interrupted \
             (see `quietus --help`)"
        )
    };
}

/// The end of the help of the program itself.
pub(super) const PROGRAM: &str = "Examples:\n  \
    quietus create vm1 --size 20G && quietus serve vm1\n  \
    quietus status vm1\n\n\
    Exit status:\n  \
    0    success\n  \
    1    failure; the error says why and what to do\n  \
    2    wrong command line, whatever the host is like\n  \
    3    success with a bad result: a check failed, dead content was found, less than --require asks for, an epoch that was \
         named is forgotten, no store promises enough (doctor), or files were left out\n  \
    130  interrupted by Ctrl-C or SIGTERM\n\n\
    Environment:\n  \
    QUIETUS_LOG  what the log on standard error has: error, warn, info (default), debug or trace, also for parts of the \
                 program, such as info,quietus::front::nbd=debug\n  \
    NO_COLOR     no colours in the log if this is set";
