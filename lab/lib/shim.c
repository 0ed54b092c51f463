/*
 * shim - put before libc (LD_PRELOAD), for programs that make files, write to them and delete them.
 *
 * LAB_NONZERO=1  each 512 bytes that go to a file hold a byte that is not zero: dbench
 *                writes nothing but zeros, so that who looks for zeros has no work
 * LAB_ZERO=1     a file is overwritten with zeros, on the disk, before its last name is
 *                removed: what a file system that zeroes what it frees would do
 * LAB_MARKED=N   of 100 new files so many, chosen by their names, get the mark of `chattr +s`
 * LAB_MARKED_FOLDERS=N  the first N new folders get it; what is made in them inherits it
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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

static void mark(int fd)
{
	int flags;
	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) != 0 || (flags |= FS_SECRM_FL, ioctl(fd, FS_IOC_SETFLAGS, &flags)) != 0) {
		perror("shim: a mark");
		_exit(1);
	}
}

/* A number below 100 for each name (FNV-1a). */
static unsigned long lot(const char *name)
{
	unsigned int hash = 2166136261u;
	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash % 100;
}

static void mark_new(int fd, const char *path)
{
	const char *share = getenv("LAB_MARKED");
	if (fd >= 0 && share && lot(path) < strtoul(share, NULL, 10) && is_file(fd))
		mark(fd);
}

int open(const char *path, int flags, ...)
{
	int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
	va_list more;
	va_start(more, flags);
	mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
	va_end(more);
	int fd = real(path, flags, mode);
	if (flags & O_CREAT)
		mark_new(fd, path);
	return fd;
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
	FILE *file = real(path, mode);
	if (file && *mode == 'w')
		mark_new(fileno(file), path);
	return file;
}

int mkdir(const char *path, mode_t mode)
{
	static unsigned long made;
	int (*real)(const char *, mode_t) = dlsym(RTLD_NEXT, "mkdir");
	const char *most = getenv("LAB_MARKED_FOLDERS");
	int done = real(path, mode), fd;
	if (done == 0 && most && made++ < strtoul(most, NULL, 10) && (fd = openat(AT_FDCWD, path, O_RDONLY)) >= 0) {
		mark(fd);
		close(fd);
	}
	return done;
}
