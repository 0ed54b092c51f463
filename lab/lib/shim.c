/*
 * shim - put before libc (LD_PRELOAD), for programs that write to files and delete them.
 *
 * LAB_NONZERO=1  each 512 bytes that go to a file hold a byte that is not zero: dbench
 *                writes nothing but zeros, so that who looks for zeros has no work
 * LAB_ZERO=1     a file is overwritten with zeros, on the disk, before its last name is
 *                removed: what a file system that zeroes what it frees would do
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTOR = 512, PIECE = 1 << 16 };

static int wanted(const char *name)
{
	return getenv(name) != NULL;
}

static int is_file(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* A copy of the buffer without a sector of zeros; NULL where none is needed. */
static char *marked(int fd, const void *buffer, size_t count)
{
	char *copy;
	if (!wanted("LAB_NONZERO") || count == 0 || !is_file(fd) || !(copy = malloc(count)))
		return NULL;
	memcpy(copy, buffer, count);
	for (size_t at = 0; at < count; at += SECTOR)
		if (!copy[at])
			copy[at] = 1;
	return copy;
}

ssize_t write(int fd, const void *buffer, size_t count)
{
	static ssize_t (*real)(int, const void *, size_t);
	if (!real)
		real = dlsym(RTLD_NEXT, "write");
	char *copy = marked(fd, buffer, count);
	ssize_t done = real(fd, copy ? copy : buffer, count);
	free(copy);
	return done;
}

static ssize_t put(int fd, const void *buffer, size_t count, off_t at)
{
	static ssize_t (*real)(int, const void *, size_t, off_t);
	if (!real)
		real = dlsym(RTLD_NEXT, "pwrite");
	return real(fd, buffer, count, at);
}

ssize_t pwrite(int fd, const void *buffer, size_t count, off_t at)
{
	char *copy = marked(fd, buffer, count);
	ssize_t done = put(fd, copy ? copy : buffer, count, at);
	free(copy);
	return done;
}

/* Zeros over all that the file holds, and none of it left in memory only. */
static void zero(int fd, off_t size)
{
	static const char zeros[PIECE];
	for (off_t at = 0; at < size; at += PIECE)
		if (put(fd, zeros, size - at < PIECE ? (size_t)(size - at) : PIECE, at) < 0)
			return;
	sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

static void zero_last(int directory, const char *path)
{
	struct stat st;
	int fd;
	if (!wanted("LAB_ZERO") || fstatat(directory, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return;
	if (!S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_blocks == 0)
		return;
	if ((fd = openat(directory, path, O_WRONLY | O_NOFOLLOW)) < 0)
		return;
	zero(fd, st.st_size);
	close(fd);
}

int unlink(const char *path)
{
	int (*real)(const char *) = dlsym(RTLD_NEXT, "unlink");
	zero_last(AT_FDCWD, path);
	return real(path);
}

int unlinkat(int directory, const char *path, int flags)
{
	int (*real)(int, const char *, int) = dlsym(RTLD_NEXT, "unlinkat");
	if (!(flags & AT_REMOVEDIR))
		zero_last(directory, path);
	return real(directory, path, flags);
}
