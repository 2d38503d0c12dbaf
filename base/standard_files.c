#include "base/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

bool zlink_standard_files_open(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) /* the lowest free number is the one that open takes */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return false;
    return true;
}
