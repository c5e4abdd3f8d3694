/*
 * Lets a program that is linked here start with an older glibc: the names that glibc 2.34 gave a new version are
 * asked for in the version of the oldest one (x86-64: 2.2.5, arm64: 2.17). Linked with
 * -Wl,--wrap=__libc_start_main, as that one is called by the C library's own start file.
 *
 * Before 2.34 the program brought init and fini itself; they are NULL from a newer start file, which older C
 * libraries accept. Programs of this directory have no constructors.
 */
#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif

#define AS_OF_OLD(name) __asm__(".symver " #name "_of_old, " #name "@" OLDEST)

typedef int (*entry)(int, char **, char **);

int __libc_start_main_of_old(entry, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
void *dlopen_of_old(const char *, int);
void *dlsym_of_old(void *, const char *);

AS_OF_OLD(__libc_start_main);
AS_OF_OLD(dlopen);
AS_OF_OLD(dlsym);

int __wrap___libc_start_main(entry run, int argc, char **argv, void (*init)(void), void (*fini)(void),
                             void (*unload)(void), void *stack);
int __wrap___libc_start_main(entry run, int argc, char **argv, void (*init)(void), void (*fini)(void),
                             void (*unload)(void), void *stack)
{
    return __libc_start_main_of_old(run, argc, argv, init, fini, unload, stack);
}

void *__wrap_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags)
{
    return dlopen_of_old(path, flags);
}

void *__wrap_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name)
{
    return dlsym_of_old(library, name);
}
