/* Loaded before the C library: counts the calls that write below a folder, and at one of them kills the process or
   lets the call fail.  `faults_begin(folder, at, error, last)`: at the call number `at`, counted from 1, `error` 0 kills;
   another number is the errno of this call and of those up to `last`.  `faults_count()`: calls until now. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char root[PATH_MAX];
static long at, last, count;
static int error_number;

void faults_begin(const char *folder, long first, int error, long until) {
    at = first, error_number = error, last = until;
    __atomic_store_n(&count, 0, __ATOMIC_SEQ_CST);
    strncpy(root, folder, sizeof root - 1);
}

long faults_count(void) { return __atomic_load_n(&count, __ATOMIC_SEQ_CST); }

static int below(int folder, const char *path) {
    char whole[2 * PATH_MAX + 2], link[64];
    size_t length = strlen(root);
    if (!length || !path) return 0;
    if (path[0] != '/') {
        ssize_t used;
        if (folder == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
        else snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        used = readlink(link, whole, PATH_MAX);
        if (used < 0) return 0;
        snprintf(whole + used, sizeof whole - used, "/%s", path);
        path = whole;
    }
    return !strncmp(path, root, length);
}

static int fails(int counts) {
    long number;
    if (!counts) return 0;
    number = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
    if (number == at && !error_number) kill(getpid(), SIGKILL);
    if (number < at || number > last || !error_number) return 0;
    errno = error_number;
    return 1;
}

static int open_file(int descriptor) {
    return below(descriptor, "") && fcntl(descriptor, F_GETFL) != -1;
}

#define NEXT(name) static __typeof__(name) *next; if (!next) next = (__typeof__(name) *) dlsym(RTLD_NEXT, #name)
#define ON_PATH(name, type, arguments, given, folder, path) \
    type name arguments { NEXT(name); if (fails(below(folder, path))) return -1; return next given; }
#define ON_FILE(name, type, arguments, given) \
    type name arguments { NEXT(name); if (fails(open_file(descriptor))) return -1; return next given; }
#define OPEN(name, arguments, given, folder) \
    int name arguments { \
        NEXT(name); \
        mode_t mode = 0; \
        if (flags & O_CREAT) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); } \
        if (fails((flags & (O_CREAT | O_WRONLY | O_RDWR | O_TRUNC)) && below(folder, path))) return -1; \
        return next given; \
    }

OPEN(open, (const char *path, int flags, ...), (path, flags, mode), AT_FDCWD)
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode), AT_FDCWD)
OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode), folder)
OPEN(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode), folder)
ON_PATH(rename, int, (const char *old, const char *path), (old, path), AT_FDCWD, path)
ON_PATH(renameat, int, (int a, const char *old, int b, const char *path), (a, old, b, path), b, path)
ON_PATH(unlink, int, (const char *path), (path), AT_FDCWD, path)
ON_PATH(unlinkat, int, (int folder, const char *path, int flags), (folder, path, flags), folder, path)
ON_PATH(mkdir, int, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path)
ON_PATH(mkdirat, int, (int folder, const char *path, mode_t mode), (folder, path, mode), folder, path)
ON_PATH(rmdir, int, (const char *path), (path), AT_FDCWD, path)
ON_FILE(write, ssize_t, (int descriptor, const void *data, size_t size), (descriptor, data, size))
ON_FILE(pwrite, ssize_t, (int descriptor, const void *data, size_t size, off_t place), (descriptor, data, size, place))
ON_FILE(pwrite64, ssize_t, (int descriptor, const void *data, size_t size, off64_t place), (descriptor, data, size, place))
ON_FILE(ftruncate, int, (int descriptor, off_t size), (descriptor, size))
ON_FILE(ftruncate64, int, (int descriptor, off64_t size), (descriptor, size))
ON_FILE(sendfile, ssize_t, (int descriptor, int from, off_t *place, size_t size), (descriptor, from, place, size))
ON_FILE(sendfile64, ssize_t, (int descriptor, int from, off64_t *place, size_t size), (descriptor, from, place, size))
ON_FILE(fsync, int, (int descriptor), (descriptor))
