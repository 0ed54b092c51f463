//! What inodes name, compared with debugfs, file by file.
